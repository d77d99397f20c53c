"""What controllers remember is observed: without it the same action in the same observation does different things."""

from __future__ import annotations

import numpy as np
import pytest

from mygym.envs.robot_env import RobotEnv
from tests.components import CONTROLS

REMEMBER = {"ee_delta", "ee_absolute", "joint_delta"}


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("task", ["reach", "AGR"])
def test_what_is_commanded_is_what_is_measured_and_the_lead(control: str, task: str) -> None:
    env = RobotEnv(task, control=control)
    assert ("command_offset" in env.components) == (control in REMEMBER)
    controller, state = env.world.controller, env.world.state
    rng = np.random.default_rng(0)
    for seed in range(2):
        env.reset(seed=seed)
        assert not state.command_offset.any()
        assert not state.tool_yaw_offset.any()
        for _ in range(8):
            observation, *_ = env.step(rng.uniform(-1, 1, env.action_space.shape).astype(np.float32))
            if control in REMEMBER:
                joints = control == "joint_delta"
                commanded = controller.joint_command if joints else controller.ee_command
                measured = state.joint_position[0] if joints else state.ee_position[0]
                seen = observation["observation"][env.components["command_offset"]]
                np.testing.assert_allclose(measured + seen, commanded, atol=1e-6)
        assert state.command_offset.any() == (control in REMEMBER)
        assert state.tool_yaw_offset.any() == (control in ("ee_delta", "ee_absolute") and task == "AGR")
    env.close()
