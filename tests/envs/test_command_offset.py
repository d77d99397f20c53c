"""Command offsets are observed: without them, the same action in the same observation has different effects."""

from __future__ import annotations

import numpy as np
import pytest

from mygym.envs.robot_env import RobotEnv
from tests.components import CONTROLS


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("task", ["reach", "AGR"])
def test_measurement_plus_offset_is_the_command(control: str, task: str) -> None:
    env = RobotEnv(task, control=control)
    controller, state = env.world.controller, env.world.state
    remembers, joints = controller.remembers_command, controller.commands == "joint"
    assert ("command_offset" in env.components) == remembers
    rng = np.random.default_rng(0)
    for seed in range(2):
        env.reset(seed=seed)
        assert not state.command_offset.any()
        assert not state.tool_yaw_offset.any()
        for _ in range(8):
            observation, *_ = env.step(rng.uniform(-1, 1, env.action_space.shape).astype(np.float32))
            if remembers:
                commanded = controller.joint_command if joints else controller.ee_command
                measured = state.joint_position[0] if joints else state.ee_position[0]
                offset = observation["observation"][env.components["command_offset"]]
                np.testing.assert_allclose(measured + offset[: len(measured)], commanded, atol=1e-6)
        assert state.command_offset.any() == remembers
        assert state.tool_yaw_offset.any() == (remembers and not joints and task == "AGR")
    env.close()
