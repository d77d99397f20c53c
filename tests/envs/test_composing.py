"""Observations of the same state in another composition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mygym.envs.observation_builder import ObservationSpec
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError

NOISY = {"observation_noise": 0.02, "action_delay": 2, "action_noise": 0.05}
FEW = ObservationSpec(("object_position", "ee_position"), "own", goal_env=False)


def flat(observation: Any) -> np.ndarray[Any, Any]:
    return np.concatenate(list(observation.values())) if isinstance(observation, dict) else observation


def episode(env: RobotEnv, look: ObservationSpec | None = None, steps: int = 30) -> list[Any]:
    """What is seen in two short episodes, with a look in another composition after each reset and step, or without."""
    rng, seen = np.random.default_rng(0), []
    for seed in (3, None):
        seen.append(flat(env.reset(seed=seed)[0]))
        for _ in range(steps):
            if look is not None:
                env.observe_as(look)
            observation, reward, *_ = env.step(rng.uniform(-1, 1, env.action_space.shape).astype(np.float32))
            seen += [flat(observation), np.array([reward])]
    return seen


@pytest.mark.parametrize("task", ["AGM", "open_drawer"])
@pytest.mark.parametrize("own", [{}, {"spaces": "shared"}, {"goal_env": False}], ids=str)
@pytest.mark.parametrize("other", [{}, {"spaces": "shared"}, {"goal_env": False}], ids=str)
def test_it_is_what_the_other_environment_sees(task: str, own: dict[str, Any], other: dict[str, Any]) -> None:
    env, another = RobotEnv(task, reward="staged", **own), RobotEnv(task, reward="staged", **other)
    for one in (env, another):
        one.reset(seed=5)
    for _ in range(10):
        seen = [one.step(one.expert_action())[0] for one in (env, another)]
    if env.action_space == another.action_space:  # else the arm may also turn, and is elsewhere in the last digits
        np.testing.assert_array_equal(flat(env.observe_as(another.observation_spec)), flat(seen[1]))
    np.testing.assert_array_equal(flat(env.observe_as(env.observation_spec)), flat(seen[0]))
    assert env.observation_space_as(another.observation_spec) == another.observation_space
    assert another.observation_space.contains(env.observe_as(another.observation_spec))
    env.close()
    another.close()


@pytest.mark.parametrize("randomize", [{}, NOISY], ids=["plain", "noisy"])
def test_a_look_changes_nothing(randomize: dict[str, Any]) -> None:
    env = RobotEnv("push", randomize=randomize)
    for one, other in zip(episode(env), episode(env, look=FEW), strict=True):
        np.testing.assert_array_equal(one, other)
    env.close()


def test_it_is_without_noise() -> None:
    env = RobotEnv("push", randomize={"observation_noise": 0.02})
    env.reset(seed=0)
    composed = env.observe_as(ObservationSpec(("ee_position",), "own", goal_env=False))
    np.testing.assert_array_equal(composed[:3], env.world.state.ee_position[0].astype(np.float32))
    env.close()


def test_what_the_task_is_without_is_refused() -> None:
    env = RobotEnv("reach")
    with pytest.raises(ConfigError, match="describes objects, and reach has none"):
        env.observe_as(FEW)
    env.close()
