"""Objects and clutter that differ between episodes: drawn by the seed, observed, graspable, exact after any history."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mygym.config import config_hash
from mygym.engines.bullet.client import bullet, connect
from mygym.engines.rendering.scene import Scene
from mygym.envs.placement import draw_choice
from mygym.envs.robot_env import RobotEnv
from mygym.errors import MygymError
from mygym.planning.resolve import resolve_config
from mygym.tasks.lookup import find_task
from mygym.tasks.task import change_task
from tests.episodes import play, roll

OBJECTS = {"objects": {"cube": ["cube", "ball", "can"]}}
CLUTTER = {
    "distractors": [{"object": ["apple", "mug"], "count": [0, 2]}, {"object": "die", "speed": 0.1, "count": [0, 1]}]
}
SEEN = [
    "ee_position",
    "object_position",
    "object_size",
    "distractor_present",
    "distractor_position",
    "distractor_from_ee",
]


def contents(env: RobotEnv) -> tuple[str, ...]:
    """Return the names of the objects in this episode."""
    return tuple(spec.name for spec, here in zip(env.world.objects, env.world.present, strict=True) if here)


def test_episodes_are_exact_after_any_history() -> None:
    with RobotEnv("AGM", task_params=OBJECTS | CLUTTER, observations=SEEN) as env:
        first = roll(env, 3, expert=1.0)
        for history in range(4):
            roll(env, 50 + history, 5, expert=1.0)
            assert roll(env, 3, expert=1.0) == first
        state = env.state_dict()
        with RobotEnv("AGM", task_params=OBJECTS | CLUTTER, observations=SEEN) as other:
            other.load_state_dict(state)
            assert contents(other) == contents(env)
            assert np.array_equal(
                other.step(env.action_space.low)[0]["observation"], env.step(env.action_space.low)[0]["observation"]
            )


def test_every_object_and_count_is_drawn_and_solved_by_the_expert() -> None:
    with RobotEnv("AGM", task_params=OBJECTS | CLUTTER, observations=SEEN) as env:
        drawn, counts, solved = set(), set(), []
        for seed in range(12):
            solved.append(play(env, seed)[-1][4]["is_success"])
            name, *clutter = contents(env)
            drawn.add(name)
            counts.add(sum(other != "die" for other in clutter))
        assert drawn == {"cube", "ball", "can"}
        assert counts == {0, 1, 2}
        assert all(solved)


def test_observations_hold_the_sizes_and_zeros_for_absent_clutter() -> None:
    with RobotEnv("AGM", task_params=OBJECTS | CLUTTER, observations=SEEN) as env:
        for seed in range(4):
            values = env.reset(seed=seed)[0]["observation"]
            components = {name: values[columns] for name, columns in env.components.items()}
            np.testing.assert_allclose(components["object_size"], env.world.objects[0].size, rtol=1e-6)
            present = np.array(env.world.present[1:])
            assert np.array_equal(components["distractor_present"], present)
            for name in ("distractor_position", "distractor_from_ee"):
                assert np.array_equal(components[name].reshape(3, 3).any(axis=1), present)
    with RobotEnv("push", task_params=OBJECTS) as env, RobotEnv("push") as plain:
        assert set(env.components) - set(plain.components) == {"object_size"}


def test_one_name_in_a_list_is_the_same_episode_as_the_name() -> None:
    rolls = []
    for params in ({"objects": {"cube": ["can"]}}, {"object": "can"}):
        with RobotEnv("push", task_params=params) as env:
            rolls.append(roll(env, 1, expert=1.0))
    assert rolls[0] == rolls[1]


def test_randomizers_and_choice_are_independent() -> None:
    with (
        RobotEnv("push", task_params=OBJECTS | CLUTTER) as plain,
        RobotEnv("push", task_params=OBJECTS | CLUTTER, randomize={"object_mass": True}) as env,
    ):
        for seed in range(5):
            plain.reset(seed=seed)
            env.reset(seed=seed)
            assert contents(plain) == contents(env)
            assert env.world.randomization.object_mass != ()


def test_pictures_show_the_objects_of_the_episode() -> None:
    with RobotEnv("push", task_params=OBJECTS | CLUTTER) as env:
        scene = Scene(env.world, connect())
        for seed in range(4):
            env.reset(seed=seed)
            scene.mirror()
            for k, here in enumerate(env.world.present):
                z = bullet.getBasePositionAndOrientation(scene._objects[k], physicsClientId=scene.client)[0][2]
                assert (z > -1) == here
            assert scene._specs == env.world.objects
        scene.close()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    names=st.lists(st.sampled_from(["cube", "ball", "can"]), min_size=1, max_size=4),
    clutter=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 3)), max_size=3),
)
def test_a_choice_has_the_range_of_the_config(seed: int, names: list[str], clutter: list[tuple[int, int, int]]) -> None:
    distractors = [{"object": ["can"] * n, "count": [low, max(low + more, 1)]} for low, more, n in clutter]
    task = change_task(find_task("push"), {"objects": {"cube": names}, "distractors": distractors})
    alternatives: Any = [task.assets("cube"), *(distractor.objects for distractor in task.distractor_slots)]
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
    choice = draw_choice(rng, task, alternatives)
    assert choice == draw_choice(rng, task, alternatives), "the generator does not advance"
    if not choice:
        return
    assert len(choice) == len(alternatives)
    assert all(index is None or index < len(specs) for index, specs in zip(choice, alternatives, strict=True))
    assert choice[0] is not None
    slot = 1
    for low, high in (distractor.counts for distractor in task.distractors):
        assert low <= sum(index is not None for index in choice[slot : slot + high]) <= high
        slot += high


MISTAKES: list[tuple[dict[str, Any], list[str]]] = [
    ({"objects": {"cube": ["cube", "pan"]}}, ["task_params.objects.cube: 'pan'", "too wide", "20.1 cm"]),
    ({"objects": {"base": ["cube", "ball"]}}, ["task_params.objects.base: 'ball'", "round on top"]),
    ({"objects": {"cube": ["cube", "bal"]}}, ["task_params.objects.cube: 'bal'", "did you mean 'ball'"]),
    ({"objects": {"cube": []}}, ["task_params.objects.cube: []", "at least 1"]),
    ({"objects": {"cbe": ["cube"]}}, ["task_params.objects: 'cbe'", "did you mean 'cube'"]),
    ({"distractors": [{"object": ["can", "cann"]}]}, ["task_params.distractors.0: 'cann'", "did you mean 'can'"]),
    (
        {"distractors": [{"object": "can", "count": [3, 1]}]},
        ["distractors.0.count: [3, 1]", "the lowest first, [1, 3]"],
    ),
    ({"distractors": [{"object": "can", "count": 0}]}, ["distractors.0.count: 0", "greater than or equal to 1"]),
    ({"distractors": [{"object": "can", "count": 20}]}, ["no room for 22 objects"]),
]


@pytest.mark.parametrize(("params", "words"), MISTAKES, ids=str)
def test_impossible_objects_and_counts_are_refused(params: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(MygymError) as error:
        RobotEnv("stack", task_params=params)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_the_config_keeps_the_lists_and_plain_values_keep_their_hash() -> None:
    values = resolve_config({"task": "push", "task_params": OBJECTS | CLUTTER}).values()
    assert values["task_params"]["objects"] == OBJECTS["objects"]
    assert [distractor["count"] for distractor in values["task_params"]["distractors"]] == [[0, 2], [0, 1]]
    assert resolve_config(values).values() == values
    plain = resolve_config({"task": "push", "task_params": {"distractors": ["can"]}}).values()
    assert "count" not in plain["task_params"]["distractors"][0]
    assert config_hash(plain) != config_hash(values)
