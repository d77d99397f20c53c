"""`robot_params.home`: the start of a robot, and its checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mygym.config import config_hash
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.planning.resolve import resolve_config
from tests.episodes import play

SIDE = [0.3, 0.3, 0.0, -2.0, 0.0, 2.3, 0.785]
"""The tool 18 cm beside the middle of the table."""


@pytest.mark.parametrize(("control", "task"), [("ee_delta", "AGM"), ("joint_delta", "push")])
def test_episodes_start_at_home_and_the_expert_solves_them(control: str, task: str) -> None:
    with RobotEnv(task, control=control, robot_params={"home": SIDE}) as env:
        for seed in range(2):
            env.reset(seed=seed)
            np.testing.assert_allclose(env.world.state.joint_position[0], SIDE, atol=1e-9)
            assert env.world.state.ee_position[0, 1] > 0.15
            assert play(env, seed)[-1][4]["is_success"]


def test_two_arms_have_one_list() -> None:
    with RobotEnv("hand_over", "panda_pair") as env:
        home = env.world.home + 0.02
    with RobotEnv("hand_over", "panda_pair", robot_params={"home": home.tolist()}) as env:
        env.reset(seed=0)
        np.testing.assert_allclose(env.world.state.joint_position[0], home, atol=1e-9)


LOW = [0.0, 0.62, 0.0, -2.0, 0.0, 2.6, 0.785]
MISTAKES: list[tuple[str, Any, list[str]]] = [
    ("push", [0.0] * 3, ["robot_params.home:", "has 3 numbers", "7 joint positions", "panda_joint1"]),
    ("push", [9.0, *SIDE[1:]], ["robot_params.home.0: 9.0", "-2.8973 to 2.8973", "panda_joint1"]),
    ("push", [0.0, 0.0, 0.0, -1.5, 0.0, 1.5, 0.0], ["robot_params.home:", "outside its bounds", "0.546"]),
    ("push", LOW, ["robot_params.home:", "where objects start, in the area object"]),
    ("push", "up", ["robot_params.home", "'up'", "a list"]),
    ("press", [0.47, 0.74, 0.33, -2.14, 0.7, 3.38, 1.81], ["robot_params.home:", "panda_link7 is inside socket"]),
]


@pytest.mark.parametrize(("task", "home", "words"), MISTAKES, ids=str)
def test_an_impossible_home_is_refused(task: str, home: Any, words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        RobotEnv(task, robot_params={"home": home})
    assert all(word in str(error.value) for word in words), str(error.value)


def test_the_default_changes_no_hash() -> None:
    values = resolve_config().values()
    assert values["robot_params"] == {"home": None}
    before = {key: value for key, value in values.items() if key != "robot_params"}
    assert config_hash(values) == config_hash(before)
    assert config_hash(resolve_config({"robot_params": {"home": SIDE}}).values()) != config_hash(values)
