"""Observations of the current state by other_env specification."""

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


def episode(env: RobotEnv, spec: ObservationSpec | None = None, steps: int = 30) -> list[Any]:
    """Return the observations of two short episodes, with a call of `observe_as` after each reset and step if given."""
    rng, observations = np.random.default_rng(0), []
    for seed in (3, None):
        observations.append(flat(env.reset(seed=seed)[0]))
        for _ in range(steps):
            if spec is not None:
                env.observe_as(spec)
            observation, reward, *_ = env.step(rng.uniform(-1, 1, env.action_space.shape).astype(np.float32))
            observations += [flat(observation), np.array([reward])]
    return observations


@pytest.mark.parametrize("task", ["AGM", "open_drawer"])
@pytest.mark.parametrize("first", [{}, {"spaces": "shared"}, {"goal_env": False}], ids=str)
@pytest.mark.parametrize("second", [{}, {"spaces": "shared"}, {"goal_env": False}], ids=str)
def test_observe_as_equals_the_other_environments_observation(
    task: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    env, other_env = RobotEnv(task, reward="staged", **first), RobotEnv(task, reward="staged", **second)
    for instance in (env, other_env):
        instance.reset(seed=5)
    for _ in range(10):
        observations = [instance.step(instance.expert_action())[0] for instance in (env, other_env)]
    if env.action_space == other_env.action_space:  # otherwise the additional yaw changes the last digits
        np.testing.assert_array_equal(flat(env.observe_as(other_env.observation_spec)), flat(observations[1]))
    np.testing.assert_array_equal(flat(env.observe_as(env.observation_spec)), flat(observations[0]))
    assert env.observation_space_as(other_env.observation_spec) == other_env.observation_space
    assert other_env.observation_space.contains(env.observe_as(other_env.observation_spec))
    env.close()
    other_env.close()


@pytest.mark.parametrize("randomize", [{}, NOISY], ids=["plain", "noisy"])
def test_observe_as_does_not_change_the_episode(randomize: dict[str, Any]) -> None:
    env = RobotEnv("push", randomize=randomize)
    for plain, observed in zip(episode(env), episode(env, spec=FEW), strict=True):
        np.testing.assert_array_equal(plain, observed)
    env.close()


def test_observe_as_is_without_noise() -> None:
    env = RobotEnv("push", randomize={"observation_noise": 0.02})
    env.reset(seed=0)
    observation = env.observe_as(ObservationSpec(("ee_position",), "own", goal_env=False))
    np.testing.assert_array_equal(observation[:3], env.world.state.ee_position[0].astype(np.float32))
    env.close()


def test_observe_as_refuses_components_that_the_task_lacks() -> None:
    env = RobotEnv("reach")
    with pytest.raises(ConfigError, match=r"^observations: 'object_position'"):
        env.observe_as(FEW)
    env.close()
