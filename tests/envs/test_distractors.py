"""Distractors: placed away from the objects of the task, not part of the task."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mygym.config import Layer, resolve
from mygym.envs.placement import HAND_RADIUS
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.planning.resolve import resolve_config

MOVING = {"object": "ball", "axis": [1, 1, 0], "speed": 0.1, "range": 0.06}
MIXED = {"distractors": ["can", MOVING]}


def roll(env: RobotEnv, seed: int, steps: int = 40) -> list[bytes]:
    env.reset(seed=seed)
    arrays = []
    for step in range(steps):
        action = env.expert_action() if step < 25 else np.full(env.action_space.shape, -0.5, np.float32)
        observation, *_ = env.step(action)
        arrays.append(b"".join(array.tobytes() for array in observation.values()))
        arrays.append(env.world.state.object_position.tobytes())
    return arrays


@pytest.mark.parametrize("task", ["reach", "push", "AGMDW"])
def test_distractors_follow_the_roles_in_the_state_and_are_not_observed_by_default(task: str) -> None:
    with RobotEnv(task) as plain, RobotEnv(task, task_params=MIXED) as env:
        assert plain.observation_space == env.observation_space
        assert [spec.name for spec in env.world.objects] == [*plain.task.roles, "can", "ball"]
        env.reset(seed=0)
        assert env.world.state.object_position.shape == (1, len(plain.task.roles) + 2, 3)


def test_a_name_gives_a_static_and_a_mapping_a_moving_distractor() -> None:
    with RobotEnv("reach", task_params=MIXED) as env:
        env.reset(seed=1)
        start = env.world.state.object_position[0].copy()
        speeds, positions = [], []
        for _ in range(60):
            env.step(np.zeros(3, np.float32))
            speeds.append(np.linalg.norm(env.world.state.object_velocity[0], axis=1))
            positions.append(env.world.state.object_position[0].copy())
        assert math.dist(positions[-1][0], start[0]) < 2e-3
        assert np.median(np.array(speeds)[:, 1]) == pytest.approx(0.1, rel=0.02)
        offsets = np.array(positions)[:, 1] - start[1]
        assert np.abs(offsets[:, 0] - offsets[:, 1]).max() < 1e-3  # along the axis
        assert np.linalg.norm(offsets, axis=1).max() == pytest.approx(0.06, abs=0.005)


@pytest.mark.parametrize("axis", [[0, 1, 0], [0, 0, 1]])
def test_objects_and_goals_are_apart_from_the_paths_of_distractors(axis: list[float]) -> None:
    moving = {**MOVING, "axis": axis}
    with RobotEnv("push", task_params={"distractors": [moving]}) as env:
        cube, ball = (math.hypot(*spec.size[:2]) / 2 for spec in env.world.objects)
        for seed in range(40):
            env.reset(seed=seed)
            cube_position, middle = env.world.state.object_position[0]
            assert middle[2] == pytest.approx(env.world.objects[1].half_height + 0.06 * axis[2])
            for offset in np.linspace(-0.06, 0.06, 13):
                point = middle[:2] + offset * np.array(axis[:2])
                assert math.dist(point, cube_position[:2]) > cube + ball + 0.055
                assert math.dist(point, env.goals[0, 0, :2]) > cube + ball - 0.005
    with RobotEnv("reach", task_params={"distractors": ["can"]}) as env:
        for seed in range(40):
            env.reset(seed=seed)
            assert math.dist(env.goals[0, 0, :2], env.world.state.object_position[0, 0, :2]) > HAND_RADIUS


def test_episodes_with_distractors_are_exact_after_any_history() -> None:
    with RobotEnv("push", task_params=MIXED) as env:
        first = roll(env, 3)
        for history in range(6):
            roll(env, 50 + history, 10 + 5 * history)
            assert roll(env, 3) == first
        state = env.state_dict()
        action = np.full(env.action_space.shape, 0.3, np.float32)
        expected = env.step(action)[0]
        with RobotEnv("push", task_params=MIXED) as other:
            other.load_state_dict(state)
            assert (other.step(action)[0]["observation"] == expected["observation"]).all()


MISTAKES: list[tuple[Any, list[str]]] = [
    (["can", {"objekt": "ball"}], ["distractors.1", "objekt", "did you mean 'object'"]),
    ([{"object": "ball", "sped": 1}], ["distractors.0.sped", "did you mean 'speed'"]),
    ([{"object": "ball", "speed": 3.0}], ["distractors.0.speed", "3.0", "less than or equal to 1"]),
    ([{"object": "ball", "axis": [0, 0, 0]}], ["distractors.0.axis", "not all 0"]),
    ([{"object": "ball", "speed": 0.1, "range": 0.0}], ["distractors.0.range", "greater than 0"]),
    ("can", ["distractors", "'can'", "list"]),
]


@pytest.mark.parametrize(("distractors", "words"), MISTAKES, ids=lambda case: str(case)[:40])
def test_invalid_distractors_are_refused(distractors: Any, words: list[str]) -> None:
    for check in (
        lambda params: resolve([Layer("file", {"task_params": params})]),
        lambda params: RobotEnv("push", task_params=params),
    ):
        with pytest.raises(ConfigError) as error:
            check({"distractors": distractors})
        assert all(word in str(error.value) for word in words), str(error.value)


def test_unknown_and_too_many_distractors_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'cann'.*did you mean 'can'"):
        resolve_config({"task_params": {"distractors": ["cann"]}})
    with pytest.raises(ConfigError, match="no room for 12 objects"):
        RobotEnv("push", task_params={"distractors": ["can"] * 11})


def test_a_config_contains_all_values_of_distractors() -> None:
    config = resolve_config({"task_params": {"distractors": ["can", MOVING]}}).config
    values = config.model_dump(mode="json")["task_params"]["distractors"]
    assert values[0] == {"object": "can", "axis": [0.0, 1.0, 0.0], "speed": 0.0, "range": 0.1}
    assert values[1]["speed"] == 0.1
    assert (
        resolve_config(config.model_dump(mode="json")).config.task_params.distractors == config.task_params.distractors
    )
