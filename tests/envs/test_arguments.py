"""Arguments of environments, of `reset` and of `step`: invalid values are refused, closed environments as well."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.error import ClosedEnvironmentError

from mygym.envs.multi_task_env import MultiTaskEnv
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("gamma", float("nan"), "finite numbers"),
        ("gamma", 1.5, "less than or equal to 1"),
        ("gamma", "x", "a number"),
        ("goal_env", "no", "true or false"),
        ("render_width", "a", "a whole number"),
        ("render_width", 0, "greater than or equal to 1"),
        ("render_height", 1.5, "a whole number"),
        ("render_mode", "humann", "did you mean 'human'"),
        ("robot", 5, "text"),
        ("workspace", 5, "text"),
        ("control", 5, "text"),
        ("reward", 5, "text"),
        ("camera", 5, "text"),
        ("observations", "ee_position", "a list"),
        ("observations", 5, "a list"),
        ("task_params", 5, "a mapping"),
        ("randomize", ["mass"], "a mapping"),
    ],
)
def test_an_invalid_argument_is_refused(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RobotEnv(**{name: value})
    for words in (f"{name}: {value!r}", allowed):
        assert words in str(caught.value)


def test_arrays_and_tuples_are_lists() -> None:
    spaces = []
    for names in (["ee_position", "goal"], ("ee_position", "goal"), np.array(["ee_position", "goal"])):
        with RobotEnv(observations=names, goal_env=np.bool_(True), render_width=np.int64(64)) as env:
            spaces.append(env.observation_space)
            assert list(env.components) == ["ee_position", "goal"]
    assert spaces[0] == spaces[1] == spaces[2]


@pytest.fixture(scope="module")
def env() -> Any:
    with RobotEnv() as env:
        yield env


@pytest.mark.parametrize("seed", [1.5, "1", -1, [1]])
def test_an_invalid_seed_is_refused(seed: Any, env: RobotEnv) -> None:
    with pytest.raises(ConfigError, match=r"seed: .* allowed: a whole number"):
        env.reset(seed=seed)


def test_whole_numbers_of_other_libraries_are_seeds(env: RobotEnv) -> None:
    goals = [env.reset(seed=seed)[0]["desired_goal"] for seed in (7, np.uint64(7), torch.tensor(7))]
    assert np.ptp(goals, axis=0).max() == 0.0


def test_options_are_a_mapping_and_have_no_effect_without_a_warning(env: RobotEnv) -> None:
    several = MultiTaskEnv([{}], ["reach"])
    for each in (env, several):
        with pytest.raises(ConfigError, match="options: 5"):
            each.reset(options=5)  # type: ignore[arg-type]
        with pytest.warns(UserWarning, match="'goal'"):
            each.reset(options={"goal": [0.1, 0.2, 0.3]})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            each.reset(options={})
    several.close()


@pytest.mark.parametrize("action", [[1e154, -1e300, 0.0], torch.tensor([1.0, -1.0, 0.0])], ids=["huge", "tensor"])
def test_actions_of_any_size_and_type_are_clipped_without_warnings(action: Any, env: RobotEnv) -> None:
    results = []
    for each in (action, np.array([1.0, -1.0, 0.0])):
        env.reset(seed=0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            results.append(env.step(each)[0]["observation"])
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("method", ["reset", "step", "render", "picture"])
def test_a_closed_environment_is_not_used(method: str) -> None:
    env = RobotEnv(render_mode="rgb_array")
    env.reset(seed=0)
    env.close()
    with pytest.raises(ClosedEnvironmentError, match=f"{method}: <RobotEnv reach, panda, ee_delta> is closed"):
        getattr(env, method)(*([np.zeros(3)] if method == "step" else []))


def test_closing_twice_does_not_close_another_environment() -> None:
    env = RobotEnv()
    env.close()
    with RobotEnv() as other:  # Bullet gives it the same client
        assert other.world.client == env.world.client
        env.close()
        other.reset(seed=0)


def test_the_representation_names_task_and_robot(env: RobotEnv) -> None:
    assert repr(env) == "<RobotEnv reach, panda, ee_delta>"
    with MultiTaskEnv([{}, {"task": "push"}], ["reach", "push"]) as several:
        assert repr(several) == "<MultiTaskEnv reach, push>"
