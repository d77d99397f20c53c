"""Controllers of the end-effector position and, if enabled, of the tool's yaw."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from mygym.robotics.controllers.controller import (
    YAW_LAG,
    YAW_RANGE,
    YAW_STEP,
    ComponentRange,
    Controller,
    action_within,
    clamp_around,
    register_controller,
    rotate_about_tool_axis,
    scale_to_unit,
)
from mygym.types import FloatArray

EE_STEP = 0.05
"""m: default displacement of the end effector by an action component of 1 (panda-gym's value)."""

EE_LAG = 0.10
"""m: default limit of the distance between commanded and measured position along an axis."""

IK_ITERATIONS = 2
"""Largest number of iterations in a control step; the second runs only if the error exceeds `IK_TOLERANCE`."""

IK_TOLERANCE = 0.001
"""m: linearisation error that the next step may correct; much less than the motors' tracking error."""


class EndEffectorController(Controller):
    """Base class of controllers that command the end-effector position and, with `tool_yaw`, the tool's yaw.

    Args:
        step: m, largest displacement of the commanded position in a control step, along an axis.
        lag: m, largest distance between commanded and measured position along an axis: how far pushing against an
            immovable object winds the command up.
        *args: Of `Controller`.
        **kwargs: Of `Controller`.
    """

    commands = "cartesian"
    remembers_command = True

    def __init__(
        self,
        *args: Any,
        step: Annotated[float, Field(gt=0, le=0.2)] = EE_STEP,
        lag: Annotated[float, Field(gt=0, le=1)] = EE_LAG,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.step, self.lag = step, lag

    @property
    def names(self) -> tuple[str, ...]:
        """The axes of the world frame, then the yaw if it is commanded."""
        return ("ee_x", "ee_y", "ee_z", "tool_yaw") if self.tool_yaw else ("ee_x", "ee_y", "ee_z")

    def reset(self, joint_position: FloatArray, ee_position: FloatArray) -> None:
        """Set the command to a measured posture: `(J,)` rad and `(3,)` m."""
        super().reset(joint_position, ee_position)
        self.ee_command = ee_position.copy()
        self._set_yaw(self.measured_tool_yaw(self.joint_command) if self.tool_yaw else 0.0)

    @property
    def command_offset_size(self) -> int:
        """3, for the position."""
        return 3

    def command_offset(self, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """Return the commanded minus the measured position: `(3,)` m, world frame."""
        return self.ee_command - ee_position

    def tool_yaw_offset(self, tool_yaw: float) -> float:
        """Return the last commanded minus the measured tool yaw, rad."""
        return self.yaw_command - tool_yaw

    def yaw_towards(self, yaw: float, joint_position: FloatArray) -> None:
        """Move the commanded yaw towards an angle in rad, within step, range and lag."""
        next_yaw = clamp_around(yaw, self.yaw_command, YAW_STEP)
        self._set_yaw(clamp_around(next_yaw, self.measured_tool_yaw(joint_position), YAW_LAG))

    def wanted_yaw(self, joint_position: FloatArray, yaw_change: float) -> float:
        """Return the target yaw in rad after a change from the measured yaw; 0 gives the last commanded yaw."""
        return self.measured_tool_yaw(joint_position) + yaw_change if yaw_change else self.yaw_command

    def move(self, displacement: list[float], ee_position: FloatArray) -> FloatArray:
        """Return joint targets `(J,)` rad for a displacement `(3,)` m of the last commanded position.

        The new position is clipped to lag and bounds; the orientation has the commanded yaw.
        """
        # Three numbers: plain floats are faster than arrays.
        self.ee_command = np.array(
            [
                min(max(min(max(x + dx, measured - self.lag), measured + self.lag), low), high)
                for x, dx, measured, low, high in zip(
                    self.ee_command.tolist(), displacement, ee_position.tolist(), *self._bounds, strict=True
                )
            ]
        )
        # From the last command, not from the measurement: the motors' tracking error must not feed back.
        self.joint_command = self.kinematics.inverse(
            self.joint_command, self.ee_command, self._rotation, IK_ITERATIONS, IK_TOLERANCE
        )
        return self.joint_command

    def _set_yaw(self, yaw: float) -> None:
        self.yaw_command = clamp_around(yaw, 0.0, YAW_RANGE)
        held = self.chain.rotation
        self._rotation = rotate_about_tool_axis(held, self.yaw_command) if self.tool_yaw else held


@register_controller(
    "ee_delta", aliases=("step", "step_gripper"), help="moves the commanded end-effector position by up to 5 cm"
)
class EndEffectorDelta(EndEffectorController):
    """Adds the action times `step` to the last commanded position, and times `YAW_STEP` to the commanded yaw."""

    @property
    def ranges(self) -> tuple[ComponentRange, ...]:
        """Displacement of the last commanded position and yaw in a control step."""
        position = ComponentRange("m per control step", -self.step, self.step)
        yaw = ComponentRange("rad per control step", -YAW_STEP, YAW_STEP)
        return (*[position] * 3, *[yaw] * self.tool_yaw)

    def command(self, action: FloatArray, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """Return joint targets for a displacement of `step` times the action."""
        if self.tool_yaw:
            self.yaw_towards(self.yaw_command + YAW_STEP * float(action[3]), joint_position)
        return self.move([self.step * component for component in action[:3].tolist()], ee_position)

    def action_towards(
        self,
        ee_target: FloatArray,
        joint_position: FloatArray,
        joint_velocity: FloatArray,
        ee_position: FloatArray,
        yaw_change: float,
    ) -> FloatArray:
        """Return the action from the last commanded position straight to the target, scaled down to one step."""
        repeat = self.action_repeat
        action = scale_to_unit((ee_target - self.ee_command) / (self.step * repeat))
        if not self.tool_yaw:
            return action
        turn = self.wanted_yaw(joint_position, yaw_change) - self.yaw_command
        return np.append(action, turn / (YAW_STEP * repeat))


@register_controller(
    "ee_absolute",
    aliases=("absolute", "absolute_gripper"),
    help="commands the end effector's position within the tool's bounds, held upright",
)
class EndEffectorAbsolute(EndEffectorController):
    """Moves straight towards the position that the action denotes in the tool's bounds, by up to `step` per step.

    A yaw action of -1 to 1 denotes `YAW_RANGE` to either side, approached by up to `YAW_STEP` per step.
    """

    @property
    def ranges(self) -> tuple[ComponentRange, ...]:
        """Position in the world frame, and yaw relative to home."""
        yaw = ComponentRange("rad", -YAW_RANGE, YAW_RANGE)
        position = [ComponentRange("m", *limits) for limits in zip(self.low.tolist(), self.high.tolist(), strict=True)]
        return (*position, *[yaw] * self.tool_yaw)

    def command(self, action: FloatArray, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """Return joint targets on the way from the last commanded position to the action's position."""
        if self.tool_yaw:
            self.yaw_towards(YAW_RANGE * float(action[3]), joint_position)
        target = (self.high + self.low) / 2 + action[:3] * (self.high - self.low) / 2
        return self.move((self.step * scale_to_unit((target - self.ee_command) / self.step)).tolist(), ee_position)

    def action_towards(
        self,
        ee_target: FloatArray,
        joint_position: FloatArray,
        joint_velocity: FloatArray,
        ee_position: FloatArray,
        yaw_change: float,
    ) -> FloatArray:
        """Return the action that denotes the target."""
        action: FloatArray = action_within(ee_target, self.low, self.high)
        if not self.tool_yaw:
            return action
        return np.append(action, self.wanted_yaw(joint_position, yaw_change) / YAW_RANGE)
