"""Command offsets are observed: without them, the same action in the same observation has different effects."""

from __future__ import annotations

import numpy as np
import pytest

from mygym.envs.robot_env import RobotEnv
from tests.components import CONTROLS

WITH_OFFSET = {"ee_delta", "ee_absolute", "joint_delta"}


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("task", ["reach", "AGR"])
def test_measurement_plus_offset_is_the_command(control: str, task: str) -> None:
    env = RobotEnv(task, control=control)
    assert ("command_offset" in env.components) == (control in WITH_OFFSET)
    controller, state = env.world.controller, env.world.state
    rng = np.random.default_rng(0)
    for seed in range(2):
        env.reset(seed=seed)
        assert not state.command_offset.any()
        assert not state.tool_yaw_offset.any()
        for _ in range(8):
            observation, *_ = env.step(rng.uniform(-1, 1, env.action_space.shape).astype(np.float32))
            if control in WITH_OFFSET:
                joints = control == "joint_delta"
                commanded = controller.joint_command if joints else controller.ee_command
                measured = state.joint_position[0] if joints else state.ee_position[0]
                offset = observation["observation"][env.components["command_offset"]]
                np.testing.assert_allclose(measured + offset, commanded, atol=1e-6)
        assert state.command_offset.any() == (control in WITH_OFFSET)
        assert state.tool_yaw_offset.any() == (control in ("ee_delta", "ee_absolute") and task == "AGR")
    env.close()
