"""The environment: exact resets, new arrays, success, rewards, ends of episodes, state."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pybullet
import pybullet_data
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mygym.envs.robot_env import RobotEnv
from mygym.errors import DivergedError, MygymError
from mygym.registry import registry
from mygym.robotics.objects import load_object
from mygym.tasks.lookup import find_task
from tests.components import (
    COMPOSITIONS,
    CONTROLS,
    COVERING,
    HOSTED,
    HOSTED_QUICKLY,
    REWARDS,
    TASKS,
    TASKS_QUICKLY,
    TRAITS,
    TRAITS_QUICKLY,
    slow_except,
)
from tests.envs.test_several_objects import TASKS as SEVERAL
from tests.episodes import as_bytes, play, roll

Env = RobotEnv


# exact resets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "histories", [(6,), pytest.param(range(0, 18, 3), marks=pytest.mark.slow)], ids=["few", "many"]
)
@pytest.mark.parametrize(
    ("task", "robot"), slow_except(HOSTED, lambda pair: pair in TRAITS and pair[0] in ("reach", "press", "stack"))
)
def test_a_seed_gives_the_same_episode_to_the_bit_after_any_history(
    task: str, robot: str, histories: Sequence[int]
) -> None:
    """Replays random actions, and the expert with its contacts, after different histories."""
    env = RobotEnv(task, robot)
    rollouts = {"random": (20, 0.0), "expert": (45, 1.0)}
    first = {name: roll(env, 7, steps, expert=share) for name, (steps, share) in rollouts.items()}
    for history in histories:
        roll(env, 100 + history, 5 + 4 * history, actions=1 + history)
        if history % 6 == 0:
            roll(env, None, 10, actions=history)
        for name, (steps, share) in rollouts.items():
            assert roll(env, 7, steps, expert=share) == first[name], f"{name} after history {history}"
    env.close()


@pytest.mark.parametrize("control", slow_except(CONTROLS, ("ee_delta", "joint_velocity").__contains__))
def test_another_instance_gives_the_same_episodes(control: str) -> None:
    env, other = (RobotEnv("push", control=control, reward="staged") for _ in range(2))
    roll(other, 3, 30)
    assert [roll(env, 11, 20), roll(env, None, 20)] == [roll(other, 11, 20), roll(other, None, 20)]
    env.close()
    other.close()


def test_the_episodes_after_a_seed_follow_from_it(cached_env: Any) -> None:
    env = cached_env(task="push")
    starts = [[env.reset(seed=seed)[0], *(env.reset()[0] for _ in range(4))] for seed in (1, 2, 1)]
    goals_of = [[tuple(start["desired_goal"]) for start in episodes] for episodes in starts]
    assert goals_of[0] == goals_of[2]
    assert len({goal for episodes in goals_of[:2] for goal in episodes}) == 10


def test_environments_without_a_seed_differ() -> None:
    envs = [RobotEnv() for _ in range(3)]
    assert len({tuple(env.reset()[0]["desired_goal"]) for env in envs}) == 3
    for env in envs:
        env.close()


def test_two_environments_in_one_process_do_not_disturb_each_other() -> None:
    env, other_env = RobotEnv("push"), RobotEnv("pick_and_place")
    expected = roll(env, 5, 20)
    rng, results = np.random.default_rng(0), []
    observation, info = env.reset(seed=5)
    results.append((as_bytes(observation), info))
    other_env.reset(seed=9)
    for step in range(20):
        action = rng.uniform(-1, 1, env.action_space.shape).astype(np.float32)
        if step % 20 < 12:
            action = env.expert_action()
        other_env.step(other_env.action_space.sample())
        observation, reward, terminated, truncated, info = env.step(action)
        results.append((as_bytes(observation), reward, terminated, truncated, info))
    assert results == expected
    env.close()
    other_env.close()


# new arrays ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("goal_env", [True, False])
def test_callers_may_change_returned_arrays(goal_env: bool) -> None:
    env, changed = RobotEnv("push", goal_env=goal_env), RobotEnv("push", goal_env=goal_env)
    for step in range(12):
        action = np.full(env.action_space.shape, 0.3, np.float32)
        expected, *rest = env.reset(seed=3) if step == 0 else env.step(action)
        observation, *other_results = changed.reset(seed=3) if step == 0 else changed.step(action)
        for key in expected if goal_env else [...]:
            np.testing.assert_array_equal(expected[key], observation[key])
            observation[key] += 7.0
        assert other_results == rest
        other_results[-1].clear()
        action[:] = 0.0
        changed.goals[:] = 3.0
    assert changed.goal_distance() == env.goal_distance()
    env.close()
    changed.close()


def test_observations_do_not_share_memory(cached_env: Any) -> None:
    env = cached_env(task="push")
    observations = [env.reset(seed=0)[0], *(env.step(env.action_space.sample())[0] for _ in range(3)), env.reset()[0]]
    arrays = [array for observation in observations for array in observation.values()]
    assert not any(np.shares_memory(a, b) for a, b in itertools.combinations(arrays, 2))


def test_an_action_is_not_changed(cached_env: Any) -> None:
    env = cached_env(task="reach")
    env.reset(seed=0)
    action = np.array([5.0, -5.0, 0.5], np.float32)
    env.step(action)
    assert action.tolist() == [5.0, -5.0, 0.5]


WITH_OBJECTS = [(task, robot) for task, robot in COVERING if find_task(task).has_object]

# success ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [20, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("task", "robot"), HOSTED_QUICKLY)
def test_nothing_is_solved_at_the_reset(task: str, robot: str, seeds: int, cached_env: Any) -> None:
    env = cached_env(task=task, robot=robot)
    for seed in range(seeds):
        observation, info = env.reset(seed=seed)
        assert not info["is_success"]
        assert (info["stages_done"], info["elapsed_steps"]) == (0, 0)
        reward = env.compute_reward(observation["achieved_goal"], observation["desired_goal"], {})
        assert reward == -1.0
        distance = np.linalg.norm((observation["achieved_goal"] - observation["desired_goal"])[:3])
        if env.builder.goal_space.names[0] in ("object", "end_effector"):
            assert distance > env.task.tolerance


@pytest.mark.parametrize("task", COMPOSITIONS)
def test_no_composition_is_solved_at_the_reset(task: str, cached_env: Any) -> None:
    env = cached_env(task=task)
    for seed in range(15):
        observation, info = env.reset(seed=seed)
        assert not info["is_success"]
        assert env.compute_reward(observation["achieved_goal"], observation["desired_goal"], {}) == -1.0


@pytest.mark.slow  # the quick suite has a few episodes in tests/checks/test_cards.py
@pytest.mark.parametrize(("task", "robot"), WITH_OBJECTS)
def test_random_actions_rarely_succeed(task: str, robot: str, cached_env: Any) -> None:
    env, rng, solved = cached_env(task=task, robot=robot), np.random.default_rng(0), 0
    for seed in range(20):
        steps = play(env, seed, lambda _: rng.uniform(-1, 1, env.action_space.shape).astype(np.float32))
        solved += steps[-1][4]["is_success"]
    assert solved <= 1


@pytest.mark.parametrize(("task", "robot"), TRAITS_QUICKLY)
def test_success_is_held_and_ends_the_episode(task: str, robot: str, cached_env: Any) -> None:
    env = cached_env(task=task, robot=robot)
    at_the_goal = 0
    for _, reward, terminated, truncated, info in play(env, 4)[1:]:
        done = info["stage"] == len(env.task.stage_names)
        at_the_goal = at_the_goal + 1 if done else 0
        assert terminated == info["is_success"] == (at_the_goal >= env.task.hold)
        assert not truncated
        if done:  # the reward, computed from goal vectors only, agrees
            assert reward == 0.0
    assert info["stages_done"] == len(env.task.stage_names)


@pytest.mark.parametrize("task", ["push", "open_drawer"])
def test_info_shows_touch_and_saturated_actions(task: str, cached_env: Any) -> None:
    env = cached_env(task=task)
    zeros = np.zeros(env.action_space.shape)
    for act, touches, saturation in ((None, True, None), (lambda _: zeros.copy(), False, 0.0)):
        info = play(env, 0, act)[-1][4]
        assert info["touched"] == touches
        assert saturation in (None, info["saturation"])
    env.reset(seed=0)
    env.step(zeros)
    assert env.step(zeros + 1)[4]["saturation"] == 0.5


# ends ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("task", "robot"), TRAITS_QUICKLY)
def test_an_episode_is_truncated_at_the_horizon(task: str, robot: str, cached_env: Any) -> None:
    env = cached_env(task=task, robot=robot, task_params={"horizon": 9})
    env.reset(seed=0)
    ends = [env.step(np.zeros(env.action_space.shape, np.float32))[2:4] for _ in range(9)]
    assert ends == [(False, False)] * 8 + [(False, True)]
    assert env.elapsed_steps == 9


def test_the_default_horizon_is_that_of_the_task(cached_env: Any) -> None:
    env = cached_env(task="reach")
    env.reset(seed=0)
    lengths = next(step for step in itertools.count(1) if env.step(np.zeros(3, np.float32))[3])
    assert lengths == find_task("reach").horizon


def lose_the_object(env: Env) -> tuple[float, bool, bool, dict[str, Any]]:
    """Return the last results of a step after which the object is outside the workspace."""
    env.reset(seed=0)
    world = env.world
    beside = (world.workspace.bounds.high[0] + 0.1, 0.0, 0.1)
    pybullet.resetBasePositionAndOrientation(
        world.object_bodies.ids[0], beside, (0, 0, 0, 1), physicsClientId=world.client
    )
    _, *results = env.step(np.zeros(env.action_space.shape, dtype=np.float32))
    return tuple(results)


@pytest.mark.parametrize("reward", ["sparse", "dense", "staged"])
def test_an_episode_is_truncated_when_the_object_leaves(reward: str, cached_env: Any) -> None:
    """Termination would end the negative rewards, and reward throwing the object away."""
    _, terminated, truncated, info = lose_the_object(cached_env(task="push", reward=reward))
    assert (terminated, truncated, info["failed"], info["is_success"]) == (False, True, True, False)


@pytest.mark.parametrize("kind", ["shaped", "timed"])
@pytest.mark.parametrize(
    ("gamma", "repeat", "cost"),
    [(0.95, 1, (1 - 0.95**100) / 0.05), (1.0, 1, 100.0), (0.95, 3, (1 - 0.95**34) / 0.05), (1.0, 5, 20.0)],
)
def test_a_failure_costs_no_progress_until_the_horizon_if_the_reward_includes_it(
    gamma: float, repeat: int, cost: float, kind: str, cached_env: Any
) -> None:
    """A reward is one per action."""
    env = cached_env(task="push", reward=kind, gamma=gamma, control={"action_repeat": repeat})
    reward, terminated, truncated, info = lose_the_object(env)
    assert (terminated, truncated, info["failed"], info["is_success"]) == (True, False, True, False)
    assert reward == pytest.approx(-cost)
    env.reset(seed=0)
    reward, *_ = env.step(np.zeros(env.action_space.shape, dtype=np.float32))[1:]
    assert -1.0 <= reward <= 0.0


def test_the_timed_reward_is_zero_only_after_success(cached_env: Any) -> None:
    def rewards(kind: str) -> list[float]:
        env = cached_env(task="poke", reward=kind, task_params={"hold": 3})
        steps = play(env, 0)[1:]
        assert steps[-1][2]
        return [float(step[1]) for step in steps]

    timed, shaped = np.array(rewards("timed")), np.array(rewards("shaped"))
    assert shaped[0] < -0.2
    assert (shaped[-1], timed[-1]) == (0.0, 0.0)
    np.testing.assert_allclose(timed[:-1], 0.75 * shaped[:-1] - 0.25, atol=1e-12)
    assert list(shaped[-3:-1]) == [0.0, 0.0], "the last steps wait for `hold`"


def test_an_object_that_is_pressed_into_the_table_is_not_placed(cached_env: Any) -> None:
    env = cached_env(task="push")
    env.reset(seed=1)
    rest = env.world.state.object_position[0, 0, 2]
    is_above, steps = False, 0
    for _ in range(30):
        position, hand = env.world.state.object_position[0, 0].copy(), env.world.state.ee_position[0]
        is_above = is_above or np.linalg.norm((position - hand)[:2]) < 0.005
        height = hand[2] - 0.015 if is_above else 0.12
        action = env.world.action_towards(np.array([*position[:2], height])).astype(np.float32)
        if position[2] < rest - 0.015:
            env.move_goal(np.array([*position[:2], rest]))
        _, reward, *_, info = env.step(action)
        if env.world.state.object_position[0, 0, 2] < rest - 0.015:
            steps += 1
            assert (reward, info["is_success"]) == (-1.0, False)
    assert steps > 5


def test_a_goal_that_is_no_point_stays(cached_env: Any) -> None:
    env = cached_env(task="open_drawer")
    env.reset(seed=0)
    before = env.goals.copy()
    env.move_goal(np.ones(3))
    np.testing.assert_array_equal(env.goals, before)


def test_positions_out_of_bounds_fail(cached_env: Any) -> None:
    env = cached_env(task="push")
    env.reset(seed=0)
    low, high = np.array(env.workspace.bounds.low), np.array(env.workspace.bounds.high)
    middle, episodes = (low + high) / 2, env._episodes
    outside = [np.where(np.arange(3) == axis, edge, middle) for axis in range(3) for edge in (low - 0.01, high + 0.01)]
    places = [middle, *outside, np.full(3, np.nan)]
    expected = [False] + [True] * 7
    assert episodes.has_left(np.array(places)[:, None]).tolist() == expected
    for place, left in zip(places, expected, strict=True):
        env.world.state.object_position[0, 0] = place
        episodes._judge_one(env.world.state)
        assert episodes.failed.tolist() == [left]


@pytest.mark.parametrize(("task", "robot"), TRAITS_QUICKLY)
def test_info_always_has_the_same_keys_and_types(task: str, robot: str, cached_env: Any) -> None:
    env = cached_env(task=task, robot=robot)
    infos = [env.reset(seed=0)[1], *(env.step(env.action_space.sample())[4] for _ in range(3))]
    for info in infos:
        types = {key: type(value) for key, value in info.items()}
        assert {"is_success": bool, "stage": int, "stages_done": int}.items() <= types.items()
    assert len({id(info) for info in infos}) == len(infos)


# rewards ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reward", [pytest.param("sparse", marks=pytest.mark.slow), "dense"])
@pytest.mark.parametrize(("task", "robot"), [*TRAITS_QUICKLY, *((task, "panda") for task in SEVERAL.values())])
def test_batched_rewards_equal_step_rewards(task: Any, robot: str, reward: str, cached_env: Any) -> None:
    env = cached_env(task=task, robot=robot, reward=reward)
    achieved, desired, given_rewards = [], [], []
    for observation, value, terminated, truncated, info in play(env, 0)[1:]:
        achieved.append(observation["achieved_goal"])
        desired.append(observation["desired_goal"])
        given_rewards.append(value)
        assert env.compute_reward(achieved[-1], desired[-1], info) == value
        assert env.compute_terminated(achieved[-1], desired[-1], info) == terminated
        assert env.compute_truncated(achieved[-1], desired[-1], info) == truncated
        assert not info["is_success"] or env.compute_terminated(achieved[-1], desired[-1], {})
    batch = env.compute_reward(np.array(achieved), np.array(desired), [{}] * len(achieved))
    assert batch.shape == (len(achieved),)
    np.testing.assert_allclose(batch, given_rewards, rtol=1e-6)  # sums of batches may be rounded otherwise
    assert len(set(given_rewards)) > 1
    assert env.compute_terminated(np.array(achieved), np.array(desired), [{}] * len(achieved)).shape == batch.shape
    assert env.compute_truncated(np.array(achieved), np.array(desired), [{}] * len(achieved)).shape == batch.shape


@pytest.mark.parametrize("reward", ["sparse", "dense"])
def test_relabelled_rewards_equal_those_of_an_environment_with_that_goal(reward: str) -> None:
    """The goal of the relabelled episode is the last achieved goal of the first."""
    env = RobotEnv("push", reward=reward)
    env.reset(seed=2)
    actions = [env.expert_action()]
    achieved = [env.step(actions[0])[0]["achieved_goal"]]
    for _ in range(60):
        actions.append(env.expert_action())
        achieved.append(env.step(actions[-1])[0]["achieved_goal"])
    relabelled = env.compute_reward(np.array(achieved), np.tile(achieved[-1], (len(achieved), 1)), [{}] * len(achieved))
    env.reset(seed=2)
    env._episodes.goals[0] = achieved[-1]
    env._observer.desired = env.builder.desired_goal(env._episodes.goals)
    np.testing.assert_array_equal(relabelled, [env.step(action)[1] for action in actions])
    env.close()


class Halved(RobotEnv):
    """Environment with a reward of its class."""

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return -0.5 * np.linalg.norm(achieved_goal - desired_goal, axis=-1)


@pytest.mark.parametrize("goal_env", [True, False])
@pytest.mark.parametrize("kind", ["dense", "staged"])
def test_a_subclass_overrides_the_goal_reward_of_steps(kind: str, goal_env: bool) -> None:
    with Halved("reach", reward=kind, goal_env=goal_env) as env, RobotEnv("reach", reward=kind) as plain:
        starts = env.reset(seed=1), plain.reset(seed=1)
        assert starts[0][1] == starts[1][1]
        for _ in range(3):
            action = np.full(3, 0.4, np.float32)
            _, reward, *_ = env.step(action)
            observation, expected, *_, info = plain.step(action)
            goals_of = observation["achieved_goal"], observation["desired_goal"]
            change = env.compute_reward(*goals_of, info) - plain.compute_reward(*goals_of, info)
            assert abs(change) > 0.01
            assert reward == pytest.approx(expected + change, abs=1e-6)


@pytest.mark.parametrize("gamma", [0.9, pytest.param(1.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("task", [*TASKS_QUICKLY, "AGMDW", *SEVERAL.values()])
def test_the_staged_reward_is_sparse_plus_a_telescoping_sum(task: Any, gamma: float, cached_env: Any) -> None:
    env = cached_env(task=task, reward="staged", gamma=gamma)
    env.reset(seed=3)
    before, total = env._episodes.memory["previous_potential"][0], 0.0
    for step, (observation, value, _, _, info) in enumerate(play(env, 3)[1:]):
        sparse = env.compute_reward(observation["achieved_goal"], observation["desired_goal"], info)
        total += gamma**step * (value - float(sparse))
    assert info["is_success"]
    assert total == pytest.approx(-before, abs=1e-6)
    assert before < 0


# state --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "control"),
    slow_except(
        [(task, control) for task in TASKS for control in (CONTROLS if task == "pick_and_place" else ["ee_delta"])],
        lambda case: case[0] in ("reach", "press", "stack") or case == ("pick_and_place", "joint_torque"),
    ),
)
def test_a_state_is_restored_by_replay(task: str, control: str) -> None:
    env, other = (RobotEnv(task, control=control, reward="staged") for _ in range(2))
    roll(env, 8, 5)
    roll(env, None, 33)
    state = pickle.loads(pickle.dumps(env.state_dict()))
    roll(other, 1, 17)
    observation = other.load_state_dict(state)
    action = env.action_space.sample()
    after = [instance.step(action) for instance in (env, other)]
    assert as_bytes(after[0][0]) == as_bytes(after[1][0])
    assert after[0][1:] == after[1][1:]
    np.testing.assert_array_equal(env.state_dict()["actions"][:-1], state["actions"])
    assert as_bytes(other.load_state_dict(state)) == as_bytes(observation)
    assert roll(env, None, 10) == roll(other, None, 10)
    env.close()
    other.close()


def test_a_saved_state_does_not_change(cached_env: Any) -> None:
    env = cached_env(task="reach")
    env.reset(seed=0)
    env.step(np.ones(3, np.float32))
    state = env.state_dict()
    env.step(np.ones(3, np.float32))
    assert len(state["actions"]) == 1


# any input ----------------------------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(0, 100))
def test_observations_stay_in_their_space_for_any_actions(seed: int, scale: float, cached_env: Any) -> None:
    env, rng = cached_env(task="pick_and_place"), np.random.default_rng(seed)
    observation, _ = env.reset(seed=seed)
    for _ in range(20):
        assert env.observation_space.contains(observation)
        observation, reward, *_ = env.step((scale * rng.normal(size=4)).astype(np.float32))
        assert np.isfinite(reward)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_action_that_is_not_finite_is_refused(value: float, cached_env: Any) -> None:
    env = cached_env(task="reach")
    env.reset(seed=0)
    with pytest.raises(DivergedError, match="not finite"):
        env.step(np.array([0.0, value, 0.0]))


@pytest.mark.parametrize("shape", [(1,), (2,), (4,), (1, 3), ()])
def test_an_action_of_another_shape_is_refused(shape: tuple[int, ...], cached_env: Any) -> None:
    env = cached_env(task="reach")
    env.reset(seed=0)
    with pytest.raises((ValueError, MygymError)):
        env.step(np.zeros(shape))


FAR = {"low": [2.0, 2.0, 2.0], "high": [2.1, 2.1, 2.1]}
POINT = {"low": [0.0, 0.0, 0.2], "high": [0.0, 0.0, 0.2]}


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"robot": "pandaa"}, ["robot", "'pandaa'", "did you mean 'panda'"]),
        ({"task": "raech"}, ["task", "'raech'", "did you mean 'reach'"]),
        ({"task": "GA"}, ["task", "'GA'", "grasp requires 'near'"]),
        ({"workspace": "tabel"}, ["workspace", "'tabel'", "did you mean 'table'"]),
        ({"control": "ee_dleta"}, ["control", "'ee_dleta'", "did you mean 'ee_delta'"]),
        ({"reward": "spares"}, ["reward", "'spares'", "did you mean 'sparse'"]),
        ({"render_mode": "ansi"}, ["render_mode", "'ansi'", "'human' or 'rgb_array'"]),
        ({"camera": "mian"}, ["camera", "'mian'", "did you mean 'main'"]),
        ({"task": "push", "task_params": {"object": "cuube"}}, ["object", "'cuube'", "did you mean 'cube'"]),
        ({"task_params": {"horizonn": 3}}, ["task_params", "horizonn", "did you mean 'horizon'"]),
        ({"task_params": {"areas": {"raech": FAR}}}, ["raech", "did you mean 'reach'"]),
        ({"task": "pick_and_place", "robot": "kuka"}, ["robot", "'kuka'", "gripper", "pick_and_place"]),
        (
            {"task_params": {"areas": {"reach": FAR}}},
            ["task_params.areas.reach", "100% out of panda's reach", "base at"],
        ),
        ({"task": "push", "workspace": "maze"}, ["workspace: 'maze'", "no area surface", "push", "allowed: table"]),
        ({"robot": "kuka", "task_params": {"areas": {"reach": FAR}}}, ["task_params.areas.reach", "kuka"]),
        ({"task_params": {"areas": {"reach": POINT}}}, ["task_params.areas", "larger area"]),
    ],
)
def test_errors_have_key_value_and_nearest_name(keywords: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(MygymError) as error:
        RobotEnv(**keywords)
    assert error.value.exit_code == 2
    for word in words:
        assert word in str(error.value)


def test_custom_areas_are_used() -> None:
    box = {"low": [0.0, 0.1, 0.1], "high": [0.05, 0.15, 0.15]}
    env = RobotEnv(task_params={"areas": {"reach": box}})
    reached = np.array([env.reset(seed=seed)[0]["desired_goal"] for seed in range(20)])
    assert (reached >= np.float32(box["low"])).all()
    assert (reached <= np.float32(box["high"])).all()
    env.close()


@pytest.mark.parametrize(("task", "robot"), HOSTED_QUICKLY)
def test_the_shipped_areas_are_within_the_arms_reach(task: str, robot: str, cached_env: Any) -> None:
    env = cached_env(task=task, robot=robot)
    within = {"object", *(area for number in range(len(env.task.subtasks)) for area in env.task.goal_areas(number))}
    for name in sorted(
        within & {"object", "surface", "air", "reach"}
    ):  # others may be targets of flying or sliding objects
        low, high = env.areas[name]
        lift = 0.02 if name in ("object", "surface") else 0.0
        grid = np.array(list(itertools.product(*np.linspace(low, high, 4).T))) + np.array([0.0, 0.0, lift])
        assert env.world.reachable(grid).all(), name


GRASPABLE = [entry.name for entry in registry("object") if load_object(entry.load()).graspable]
URDF = str(Path(pybullet_data.getDataPath()) / "jenga" / "jenga.urdf")


@pytest.mark.parametrize("name", slow_except([*GRASPABLE[::6], URDF], lambda name: name in (*GRASPABLE[::36], URDF)))
def test_objects_of_every_kind_can_be_pushed(name: str) -> None:
    with RobotEnv("push", task_params={"object": name}) as env:
        observation, _ = env.reset(seed=0)
        start = observation["achieved_goal"].copy()
        for _ in range(60):
            observation, *_ = env.step(env.expert_action())
        assert np.linalg.norm(observation["achieved_goal"] - start) > 0.02


def test_flat_observations_are_the_arrays_of_the_dictionary(cached_env: Any) -> None:
    flat_env, dict_env = cached_env(task="push", goal_env=False), cached_env(task="push")
    flat, dictionary = flat_env.reset(seed=6)[0], dict_env.reset(seed=6)[0]
    keys = ("observation", "achieved_goal", "desired_goal")
    np.testing.assert_array_equal(flat, np.concatenate([dictionary[key] for key in keys]))


@pytest.mark.parametrize("reward", REWARDS)
def test_each_reward_has_its_values(reward: str, cached_env: Any) -> None:
    env = cached_env(task="reach", reward=reward)
    observation, _ = env.reset(seed=0)
    values = [env.step(np.zeros(3, np.float32))[1] for _ in range(4)]
    if reward == "dense":
        distance = np.linalg.norm(observation["achieved_goal"] - observation["desired_goal"])
        assert values == pytest.approx([-distance] * 4, abs=0.01)
    elif reward in ("shaped", "timed"):
        assert all(-1.0 < value < (-0.25 if reward == "timed" else 0.0) for value in values)
    else:
        assert values == pytest.approx([-1.0] * 4, abs=0.1 if reward == "staged" else 0)
