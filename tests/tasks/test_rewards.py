"""Goal vectors, and rewards that depend on goal vectors only."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mygym.checks import check
from mygym.engines.arrays import to_numpy
from mygym.envs.batch_env import BatchEnv
from mygym.envs.robot_env import RobotEnv
from mygym.errors import RegistryError
from mygym.tasks import goals, rewards
from mygym.tasks import predicates as goal_terms
from mygym.tasks.context import StageContext, Thresholds, wrapped
from mygym.tasks.goals import GoalSection, GoalSpace, achieved_goal, desired_goal, goal_space
from mygym.tasks.rewards import find_reward
from mygym.tasks.state import CONTROL_HZ
from tests.components import REWARDS
from tests.tasks.states import (
    LISTED,
    PREDICATES,
    as_torch,
    of_compositions,
    random_view,
    single,
    stage_binding,
    the_task,
    worlds,
)

SEEDS = st.integers(0, 2**32 - 1)
TURNED = replace(stage_binding(yaw_slot=1), thresholds=Thresholds(angle=0.2))


TERMS = {term.name: term for term in (goal_terms.OBJECT, goal_terms.PART, goal_terms.YAW)}


def space_of(*names: str) -> GoalSpace:
    """Return a goal space of the named sections."""
    sections: list[GoalSection] = []
    for name in names:
        term, predicate = TERMS.get(name), PREDICATES[name if name in PREDICATES else "placed"]
        sections.append(GoalSection(predicate, term, TURNED, 0, sum(section.size for section in sections)))
    return GoalSpace(tuple(sections))


SPACES = {
    "a point": space_of("object"),
    "flags": space_of("object", "free", "clear"),
    "parts": space_of("part", "object", "yaw", "held"),
    "yaw": space_of("yaw"),
}
SPACES |= {composition: goal_space(the_task(composition)) for composition in ("reach", "AG", "AGMDW", *LISTED)}


def test_the_reward_of_a_row_has_the_bits_of_the_batch() -> None:
    """As hindsight computes rewards in batches, and the environment one by one."""
    vectors = 0.1 * np.random.default_rng(0).standard_normal((2000, 3)).astype(np.float32)
    batch = goals.goal_distance(SPACES["reach"], vectors, np.zeros_like(vectors))
    alone = [goals.goal_distance(SPACES["reach"], vector, np.zeros_like(vector)) for vector in vectors]
    np.testing.assert_array_equal(batch, alone)


@st.composite
def pairs(draw: Any, name: str | None = None) -> tuple[GoalSpace, Any, Any]:
    """Draw a goal space with achieved and desired goal vectors of any batch shape, often close to each other."""
    space = SPACES[name or draw(st.sampled_from(sorted(SPACES)))]
    batch, rng = draw(st.sampled_from([(), (1,), (6,), (2, 3)])), np.random.default_rng(draw(SEEDS))
    achieved, desired = np.zeros((2, *batch, space.size), np.float32)
    for section in space.sections:
        indices = (..., slice(section.first, section.first + section.size))
        scale = rng.choice([0.0, 0.01, 0.03, 0.06, 1.0], (*batch, 1))
        if section.term is None:
            desired[indices], achieved[indices] = 1.0, rng.integers(0, 2, (*batch, 1))
        elif section.name == "yaw":
            angle = rng.uniform(-4, 4, (*batch, 1))
            for array, yaw in ((desired, angle), (achieved, angle + 5 * scale)):
                array[indices] = np.concatenate([np.cos(yaw), np.sin(yaw)], axis=-1)
        else:
            desired[indices] = rng.uniform(-2, 2, (*batch, section.size))
            achieved[indices] = desired[indices] + scale * rng.uniform(-1, 1, (*batch, section.size))
    return space, achieved, desired


FUNCTIONS = {
    **{name: rewards.find_reward(name).goal_reward for name in REWARDS},
    "distance": goals.goal_distance,
    "reached": goals.goal_reached,
}


@pytest.mark.parametrize("space", SPACES)
@given(data=st.data())
def test_rewards_agree_in_batches_single_vectors_and_torch(space: str, data: Any) -> None:
    _, achieved, desired = data.draw(pairs(space))
    tensors = torch.from_numpy(achieved), torch.from_numpy(desired)
    for name, function in FUNCTIONS.items():
        batch = np.asarray(function(SPACES[space], achieved, desired))
        assert batch.shape == achieved.shape[:-1], name
        for index in np.ndindex(batch.shape):
            assert batch[index] == function(SPACES[space], achieved[index], desired[index]), name
        np.testing.assert_allclose(batch, function(SPACES[space], *tensors).numpy(), rtol=1e-6, atol=1e-7, err_msg=name)


def differences(space: GoalSpace, achieved: Any, desired: Any) -> list[tuple[GoalSection, Any]]:
    """Return the distance between achieved and desired goal in each section, in the unit of the section."""
    slices = [(section, slice(section.first, section.first + section.size)) for section in space.sections]
    return [
        (section, np.linalg.norm((achieved - desired)[..., indices].astype(np.float64), axis=-1))
        for section, indices in slices
    ]


@given(pair=pairs())
def test_sparse_is_zero_where_the_goal_is_reached_and_minus_one_elsewhere(pair: tuple[Any, Any, Any]) -> None:
    reached = goals.goal_reached(*pair)
    assert (np.asarray(rewards.find_reward("sparse").goal_reward(*pair)) == np.where(reached, 0.0, -1.0)).all()


@given(pair=pairs())
def test_dense_is_minus_metres_and_zero_only_at_the_goal(pair: tuple[Any, Any, Any]) -> None:
    space, _, desired = pair
    metres = sum(distance * section.metres for section, distance in differences(*pair))
    np.testing.assert_allclose(np.asarray(rewards.find_reward("dense").goal_reward(*pair)), -metres, atol=1e-6)
    assert (rewards.dense(desired, desired, space) == 0).all()


@given(pair=pairs())
def test_reached_requires_every_section_within_its_tolerance_and_every_flag(pair: tuple[Any, Any, Any]) -> None:
    distances = [(section.tolerance, distance) for section, distance in differences(*pair)]
    clear_cut = np.all([np.abs(distance - tolerance) > 1e-6 for tolerance, distance in distances], axis=0)
    expected = np.all([distance < tolerance for tolerance, distance in distances], axis=0)
    assert (np.asarray(goals.goal_reached(*pair)) == expected)[clear_cut].all()


def test_sections_fill_the_vector_in_order_each_in_its_unit() -> None:
    for name in SPACES:
        space = SPACES[name]
        covered = [i for section in space.sections for i in range(section.first, section.first + section.size)]
        assert covered == list(range(space.size))
        assert space.names == tuple(section.name for section in space.sections)
        for section in space.sections:
            angle = section.name == "yaw"
            expected = section.bound.thresholds.angle if angle else section.bound.thresholds.tolerance
            assert section.tolerance == (0.5 if section.term is None else expected)
            assert section.metres == (
                goal_terms.FLAG_METRES if section.term is None else goal_terms.ANGLE_METRES if angle else 1.0
            )


@given(values=arrays.arrays(np.float64, st.integers(2, 30), elements=st.floats(-5, 0)), gamma=st.floats(0.5, 1))
def test_shaping_telescopes(values: Any, gamma: float) -> None:
    staged = find_reward("staged")
    extras = {"sparse": np.zeros(1), "gamma": gamma}
    total = sum(
        gamma**t * float(staged.function(None, potential=after, previous_potential=before, **extras)[0])
        for t, (before, after) in enumerate(itertools.pairwise(values.reshape(-1, 1)))
    )
    assert total == pytest.approx(gamma ** (len(values) - 1) * values[-1] - values[0], abs=1e-9)


@of_compositions
@given(seed=SEEDS)
def test_goal_vectors_agree_in_batches_single_episodes_and_torch(compositions: list[Any], seed: int) -> None:
    for composition in compositions:
        task, progress, state, points = worlds(composition, seed, n := 6)
        space = goal_space(task)
        achieved, desired = achieved_goal(space, progress, state, points), desired_goal(space, points)
        assert achieved.shape == desired.shape == (n, space.size)
        for i in range(n):
            single_result = achieved_goal(space, single(progress, i), single(state, i), points[i : i + 1])
            np.testing.assert_allclose(achieved[i : i + 1], single_result)
            np.testing.assert_allclose(desired[i : i + 1], desired_goal(space, points[i : i + 1]))
        torch_result = achieved_goal(space, as_torch(progress), as_torch(state), as_torch(points))
        np.testing.assert_allclose(achieved, torch_result.numpy())
        np.testing.assert_allclose(desired, desired_goal(space, as_torch(points)).numpy())


@of_compositions
@given(seed=SEEDS)
def test_the_goal_is_reached_when_the_stages_are_complete(compositions: list[Any], seed: int) -> None:
    """The reward depends on goal vectors only, and agrees with the stages when they have just ended."""
    for composition in compositions:
        task, progress, state, points = worlds(composition, seed, 200)
        space, last = goal_space(task), len(task.stage_bindings)
        done = np.ones(200, dtype=bool)
        for name, giver in task.sequence.gives:
            done &= task.sequence.predicates[name].begins(
                StageContext(state, progress, points, task.stage_bindings[giver])
            )
        reached = goals.goal_reached(space, achieved_goal(space, progress, state, points), desired_goal(space, points))
        # Exceptions: the tolerance is stricter than `near`; `struck` keeps the position at the end of its stage.
        exempt = any(section.name in ("end_effector_from_object", "struck") for section in space.sections)
        assert exempt or (reached | ~done | (progress.stage < last)).all()


@pytest.mark.parametrize(
    ("composition", "names"),
    [
        ("reach", ("end_effector",)),
        ("push", ("object",)),
        ("pick_and_place", ("object",)),
        ("AG", ("end_effector_from_object", "held")),
        ("AGMD", ("object", "free")),
        ("AGMDW", ("object", "free", "clear")),
        ("stack", ("object", "object", "free", "clear")),
        ("push, reach", ("object", "end_effector")),
        ("same again", ("object",)),
        ("handle", ("end_effector_from_object",)),
    ],
)
def test_goal_sections_follow_from_the_stages(composition: str, names: tuple[str, ...]) -> None:
    assert goal_space(the_task(composition)).names == names


def test_goal_sections_use_the_object_of_their_sub_task() -> None:
    task, progress, state, points = worlds("stack", 0, 3)
    state.object_depth[...] = 0.0
    achieved = achieved_goal(goal_space(task), progress, state, points)
    np.testing.assert_allclose(achieved[:, :6], state.object_position.reshape(3, 6))
    np.testing.assert_allclose(desired_goal(goal_space(task), points)[:, :6], points.reshape(3, 6))


@given(seed=SEEDS)
def test_a_goal_yaw_is_a_direction(seed: int) -> None:
    context = random_view(np.random.default_rng(seed), 5, TURNED)
    space = SPACES["yaw"]
    achieved = achieved_goal(space, context.progress, context.state, context.goals)
    np.testing.assert_allclose(np.arctan2(achieved[:, 1], achieved[:, 0]), context.object_yaw)
    desired = desired_goal(space, context.goals)
    np.testing.assert_allclose(np.arctan2(desired[:, 1], desired[:, 0]), wrapped(context.goals[:, 1, 0]))


def test_after_their_stage_struck_is_at_the_goal_and_an_event_has_happened() -> None:
    context = random_view(np.random.default_rng(0), 6, stage_binding())
    progress = replace(context.progress, stage=np.array([0, 1, 2] * 2))
    space = GoalSpace(
        (
            GoalSection(PREDICATES["struck"], goal_terms.STRUCK, stage_binding(), 1, 0),
            GoalSection(PREDICATES["touched"], None, stage_binding(), 1, 3),
        )
    )
    achieved = achieved_goal(space, progress, context.state, context.goals)
    past = progress.stage > 1
    expected = np.where(past[:, None], context.goal, context.state.hit_position[:, 0])
    np.testing.assert_allclose(achieved[:, :3], expected)
    assert achieved[:, 3].tolist() == past.tolist()


# inputs of rewards ----------------------------------------------------------------------------------------------------


def ee_velocity(context: Any) -> Any:
    """`(N, 3)` m/s: a view of an array that the engine refills."""
    return context.state.ee_velocity


def acceleration(context: Any, ee_velocity: Any, previous_ee_velocity: Any) -> Any:
    return (ee_velocity - previous_ee_velocity) * CONTROL_HZ


@pytest.fixture
def jerk() -> None:
    @rewards.register_reward("jerk", inputs=(ee_velocity, acceleration))
    def jerk(context: Any, acceleration: Any, previous_acceleration: Any) -> Any:
        """Minus the sum of the jerk's components."""
        return -((acceleration - previous_acceleration) * CONTROL_HZ).sum(-1)


def expected_rewards(velocities: list[Any]) -> Any:
    """Return the rewards of a sequence of velocities `(3,)`, the first of which is that at the reset."""
    accelerations = np.diff(np.array(velocities, dtype=float), axis=0) * CONTROL_HZ
    return -np.diff(np.vstack([np.zeros(3), accelerations]), axis=0).sum(-1) * CONTROL_HZ


@pytest.mark.usefixtures("jerk")
def test_inputs_and_their_values_before_the_step_reach_a_reward() -> None:
    """Also after a second reset, and after a snapshot is restored."""
    with RobotEnv("reach", reward="jerk") as env:
        for seed in (0, 1):
            env.reset(seed=seed)
            velocities = [env.world.state.ee_velocity[0].copy()]
            received = []
            for number in range(4):
                if number == 2:
                    snapshot = env.snapshot()
                    env.step(-np.ones(3))
                    env.restore(snapshot)
                received.append(env.step(np.full(3, 0.5))[1])
                velocities.append(env.world.state.ee_velocity[0].copy())
            np.testing.assert_allclose(received, expected_rewards(velocities), rtol=1e-9)
    assert [outcome for outcome in check("reward", "jerk") if outcome.failed] == []


@pytest.mark.usefixtures("jerk")
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_inputs_of_many_environments_in_one_array(library: str) -> None:
    """An environment whose episode ends begins with its own inputs; a restored state continues with the same."""
    envs = BatchEnv({"task": "reach", "reward": "jerk", "task_params": {"horizon": 6}}, 3, library)
    envs.reset(range(3))
    for _ in range(2):
        envs.step(envs.arrays.floats(np.zeros((3, 3))))
    envs.reset()
    envs.episodes.elapsed = envs.episodes.elapsed + envs.arrays.integers([0, 3, 0])
    velocities = [to_numpy(envs.worlds.state.ee_velocity).copy()]
    received = []
    for number in range(6):
        if number == 4:
            state = envs.state_dict()
            envs.step(envs.arrays.floats(np.ones((3, 3))))
            envs.load_state_dict(state)
        received.append(to_numpy(envs.step(envs.arrays.floats(np.full((3, 3), 0.5))).reward))
        velocities.append(to_numpy(envs.worlds.state.ee_velocity).copy())
    received, velocities = np.array(received), np.array(velocities)
    for row in (0, 2):
        np.testing.assert_allclose(received[:5, row], expected_rewards(velocities[:6, row]), rtol=1e-4, atol=0.02)
    np.testing.assert_allclose(received[:2, 1], expected_rewards(velocities[:3, 1]), rtol=1e-4, atol=0.02)
    np.testing.assert_allclose(received[3:, 1], expected_rewards(velocities[3:, 1]), rtol=1e-4, atol=0.02)


def test_a_reward_computes_only_the_inputs_that_it_needs() -> None:
    def unused(context: Any) -> Any:
        raise AssertionError

    @rewards.register_reward("last", inputs=(ee_velocity, unused))
    def last(context: Any, previous_ee_velocity: Any) -> Any:
        return previous_ee_velocity[:, 0]

    reward = find_reward("last")
    assert [each.name for each in reward.inputs] == ["ee_velocity"]
    assert find_reward("shaped").inputs == ()
    assert [each.name for each in find_reward("staged").inputs] == ["potential"]


@pytest.mark.parametrize(
    ("inputs", "parameters", "named"),
    [
        ((), ["context", "previous_speed"], ["previous_speed", "potential", "previous_potential", "inputs"]),
        ((ee_velocity,), ["context", "previous_velocity"], ["did you mean 'previous_ee_velocity'"]),
        ((acceleration, ee_velocity), ["context"], ["ee_velocity", "acceleration"]),  # an input before those it takes
        ((rewards.potential,), ["context"], ["potential"]),
    ],
)
def test_parameters_and_inputs_that_rewards_refuse(inputs: Any, parameters: list[str], named: list[str]) -> None:
    function = eval(f"lambda {', '.join(parameters)}: None")
    with pytest.raises(RegistryError) as caught:
        rewards.register_reward("refused", inputs=inputs)(function)
    assert all(name in str(caught.value) for name in [*named, "refused"])


def test_a_result_of_another_shape_is_refused_with_the_shapes() -> None:
    rewards.register_reward("vector")(lambda context: context.state.ee_velocity)
    rewards.register_reward("pair")(lambda context, sparse: (sparse, sparse))
    rewards.register_reward("vectors")(lambda achieved_goal, desired_goal: achieved_goal - desired_goal)
    rewards.register_reward("single")(lambda context: np.zeros(1))
    one, two = partial(RobotEnv, "reach"), lambda reward: BatchEnv({"task": "reach", "reward": reward}, 2)
    cases = (("vector", one, "(1, 3)"), ("pair", one, "tuple"), ("vectors", one, "(3,)"), ("single", two, "(1,)"))
    for name, make, named in cases:
        with pytest.raises(RegistryError) as caught:
            make(reward=name)
        assert all(word in str(caught.value) for word in ("reward", named, f"{__file__}:")), name


@pytest.mark.parametrize(
    ("value", "kind"), [(3.0, r"float of shape \(\)"), (None, "None"), (np.zeros(2), r"ndarray of shape \(2,\)")]
)
def test_an_input_without_a_row_for_each_episode_is_refused_by_name(value: Any, kind: str) -> None:
    def speed(context: Any) -> Any:
        return value

    @rewards.register_reward("slow", inputs=(speed,))
    def slow(context: Any, previous_speed: Any) -> Any:
        return -previous_speed

    with pytest.raises(RegistryError, match=rf"^input speed of rewards: result: '{kind}' .*{__file__}:"):
        RobotEnv("reach", reward="slow")


def test_the_sparse_reward_is_an_array_also_of_one_environment() -> None:
    rewards.register_reward("same")(lambda context, sparse: sparse)
    with RobotEnv("reach", reward="same") as env:
        env.reset(seed=0)
        assert env.step(np.zeros(3))[1] == -1.0
