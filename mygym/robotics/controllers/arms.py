"""The controllers of all arms of a robot, as one action vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from mygym.errors import ConfigError
from mygym.robotics.controllers import ArmLimits, ChosenController, Controller
from mygym.robotics.kinematics import Kinematics, make_chain
from mygym.robotics.robot_spec import RobotSpec
from mygym.robotics.workspace import Area, WorkspaceSpec
from mygym.tasks.state import State
from mygym.types import FloatArray

SECOND_ARM_MARGIN = 0.15
"""m to each side of its home in which a second arm's tool may be commanded, in addition to the workspace's bounds."""


class ArmControllers:
    """One controller per arm; the action has the components of each arm, then the grippers.

    Args:
        robot: The robot, at its base in the workspace.
        workspace: Bounds and direction of the tool.
        chosen: Class and parameters of the controllers.
        dt: s, duration of a control step.
        inverse_dynamics: Index of an arm, its joint positions, velocities and accelerations `(J,)` → its torques `(J,)`
            N m.
        gripper: Whether the action includes the grippers.
        tool_yaw: Whether the first arm's tool may turn about its axis.
    """

    def __init__(
        self,
        robot: RobotSpec,
        workspace: WorkspaceSpec,
        chosen: ChosenController,
        dt: float,
        inverse_dynamics: Callable[[int, FloatArray, FloatArray, FloatArray], FloatArray],
        gripper: bool,
        tool_yaw: bool,
    ) -> None:
        self.controllers: list[Controller] = []
        for index, arm in enumerate(robot.arms):
            kinematics = Kinematics(make_chain(robot, arm, workspace.tool_direction))
            limits = ArmLimits(
                velocity=np.array([joint.velocity for joint in arm.joints]),
                effort=np.array([joint.effort for joint in arm.joints]),
            )
            bounds = workspace.tool_bounds
            if index > 0:  # the workspace's bounds surround the first arm
                bounds = _around(bounds, kinematics.pose(kinematics.chain.home)[:3, 3])
            dynamics = partial(inverse_dynamics, index)
            self.controllers.append(_make(chosen, kinematics, limits, bounds, dt, dynamics, tool_yaw and index == 0))
        self.tool_yaw = tool_yaw
        """Whether the first arm's tool may turn about its axis."""
        self.chosen = chosen
        """The controller of the config."""
        self.has_gripper = [gripper and arm.gripper is not None for arm in robot.arms]
        """Whether each arm has a gripper in the action."""
        self.actions = _consecutive([len(controller.names) for controller in self.controllers])
        """Components of each arm in the action."""
        self.joints = _consecutive([len(arm.joints) for arm in robot.arms])
        """Joints of each arm in the state."""
        sizes = [controller.command_offset_size for controller in self.controllers]
        self.command_offset_size = sum(sizes)
        """`L`: number of command offsets of all arms."""
        self.offsets = _consecutive(sizes) if sum(sizes) else []
        """Command offsets of each arm in the state; empty if there are none."""
        self._second_ee_start = np.zeros((len(robot.arms) - 1, 3))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the action components: those of each arm, then the grippers."""
        prefixes = ("", "second_")
        arms = zip(prefixes, self.controllers, strict=False)
        grippers = zip(prefixes, self.has_gripper, strict=False)
        names = [prefix + name for prefix, controller in arms for name in controller.names]
        return (*names, *(f"{prefix}gripper" for prefix, has_gripper in grippers if has_gripper))

    @property
    def binary_actions(self) -> int:
        """Number of grippers, the last components of an action, that are open or closed."""
        return sum(self.has_gripper) if self.chosen.config.gripper == "binary" else 0

    def reset(self, state: State) -> None:
        """Start from the measured posture: the command becomes the posture."""
        for index, (controller, joints) in enumerate(zip(self.controllers, self.joints, strict=True)):
            controller.reset(state.joint_position[0, joints], _ee_position(state, index))
        state.command_offset[...] = state.tool_yaw_offset[...] = 0.0
        self._second_ee_start = state.second_ee_position[0].copy()

    def command(self, action: FloatArray, state: State) -> FloatArray:
        """Return the motor commands `(J,)` of all arms for an action `(A,)`, see `Controller.mode`."""
        q = state.joint_position[0]
        commands = [
            controller.command(action[columns], q[joints], _ee_position(state, index))
            for index, (controller, columns, joints) in enumerate(
                zip(self.controllers, self.actions, self.joints, strict=True)
            )
        ]
        return commands[0] if len(commands) == 1 else np.concatenate(commands)

    def grippers(self, action: FloatArray) -> FloatArray:
        """Return the grippers' commands in [-1, 1] of an action."""
        commands: FloatArray = self.chosen.grippers(action[self.actions[-1].stop :])
        return commands

    def read(self, state: State) -> None:
        """Fill the tool yaw of a state from its joint positions."""
        if self.tool_yaw:
            state.tool_yaw[0] = self.controllers[0].measured_tool_yaw(state.joint_position[0, self.joints[0]])

    def read_offsets(self, state: State) -> None:
        """Fill the offsets between command and measurement of a state."""
        for index, columns in enumerate(self.offsets):
            measured = state.joint_position[0, self.joints[index]], _ee_position(state, index)
            state.command_offset[0, columns] = self.controllers[index].command_offset(*measured)
        if self.tool_yaw:
            state.tool_yaw_offset[0] = self.controllers[0].tool_yaw_offset(float(state.tool_yaw[0]))

    def action_towards(
        self,
        state: State,
        ee_target: FloatArray,
        gripper: float,
        yaw_change: float,
        second_target: FloatArray | None,
        second_gripper: float,
    ) -> FloatArray:
        """Return the action that moves the end effectors towards targets, see `World.action_towards`."""
        targets = [ee_target, *self._second_ee_start] if second_target is None else [ee_target, second_target]
        actions = []
        for index, (controller, joints) in enumerate(zip(self.controllers, self.joints, strict=True)):
            target, turn = np.asarray(targets[index], dtype=float), 0.0 if index else yaw_change
            q, velocity = state.joint_position[0, joints], state.joint_velocity[0, joints]
            actions.append(controller.action_towards(target, q, velocity, _ee_position(state, index), turn))
        openings = zip((gripper, second_gripper), self.has_gripper, strict=False)
        actions.append(np.array([opening for opening, has_gripper in openings if has_gripper]))
        return np.minimum(np.maximum(np.concatenate(actions), -1.0), 1.0)


def _make(chosen: ChosenController, *of_the_arm: Any) -> Controller:
    """Return the controller of an arm; raise `ConfigError` if its class refuses the parameters."""
    try:
        controller = chosen.kind(*of_the_arm, **chosen.params)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"control: {chosen.config.name} refuses its parameters: {error}") from error
    controller.action_repeat = chosen.config.action_repeat
    return controller


def _ee_position(state: State, arm: int) -> FloatArray:
    position: FloatArray = state.second_ee_position[0, arm - 1] if arm else state.ee_position[0]
    return position


def _around(bounds: Area, home: FloatArray) -> Area:
    """Extend a box by the margin around a tool's home `(3,)` m."""
    low, high = np.minimum(bounds.low, home - SECOND_ARM_MARGIN), np.maximum(bounds.high, home + SECOND_ARM_MARGIN)
    return Area(tuple(low.tolist()), tuple(high.tolist()))


def _consecutive(lengths: Sequence[int]) -> list[slice]:
    """Return consecutive slices of these lengths."""
    ends = list(accumulate(lengths))
    return [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]
