"""Controllers of joint positions, velocities and torques."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from mygym.robotics.controllers.controller import (
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
from mygym.robotics.controllers.end_effector import EE_STEP
from mygym.types import FloatArray

JOINT_LAG = 0.35
"""rad: default limit of the distance between commanded and measured joint position."""

APPROACH_GAIN = 0.6
"""Share of the way to a posture that experts cover in one step with velocity or torque commands: at 1 only the motors'
limits would stop the arm."""


class JointController(Controller):
    """Base class of controllers that command joints; experts move the tool by the arm's kinematics."""

    commands = "joint"
    _held_yaw: float | None = None
    """rad: yaw that the expert keeps; None before its first action after a reset."""

    @property
    def names(self) -> tuple[str, ...]:
        """`joint_1` to `joint_J`."""
        return tuple(f"joint_{index + 1}" for index in range(len(self.chain.home)))

    def _ranges(self, unit: str, low: FloatArray, high: FloatArray) -> tuple[ComponentRange, ...]:
        """Return the ranges of joints; the unit is that of a hinge."""
        of_slide = unit.replace("N m", "N").replace("rad", "m")
        slides = self.chain.slides if len(self.chain.slides) else [False] * len(low)
        units = [of_slide if slide else unit for slide in slides]
        return tuple(map(ComponentRange, units, low.tolist(), high.tolist()))

    def reset(self, joint_position: FloatArray, ee_position: FloatArray) -> None:
        """Set the command to a measured posture: `(J,)` rad and `(3,)` m."""
        super().reset(joint_position, ee_position)
        self._held_yaw = None

    def _rotation_towards(self, joint_position: FloatArray, yaw_change: float) -> FloatArray:
        """Return the tool orientation `(3, 3)` at most `YAW_STEP` from the measured tool, towards the target yaw."""
        if not self.tool_yaw:
            return self.chain.rotation
        measured = self.measured_tool_yaw(joint_position)
        if yaw_change or self._held_yaw is None:
            self._held_yaw = clamp_around(measured + yaw_change, 0.0, YAW_RANGE)
        return rotate_about_tool_axis(self.chain.rotation, clamp_around(self._held_yaw, measured, YAW_STEP))

    def action_towards(
        self,
        ee_target: FloatArray,
        joint_position: FloatArray,
        joint_velocity: FloatArray,
        ee_position: FloatArray,
        yaw_change: float,
    ) -> FloatArray:
        """Return the action towards a posture nearer to the target, at most `EE_STEP` per axis and step."""
        if self.mode != "position":  # the kinematics start from the measured posture
            self.joint_command = joint_position
        rotation = self._rotation_towards(joint_position, yaw_change)
        target = np.minimum(np.maximum(ee_target, self.low), self.high)
        gap = target - ee_position
        target = ee_position + gap * min(1.0, self.action_repeat * EE_STEP / max(float(np.abs(gap).max()), 1e-9))
        posture = self.kinematics.inverse(self.joint_command, target, rotation, iterations=4)
        return self._action_to(posture, joint_position, joint_velocity)

    def _action_to(self, posture: FloatArray, joint_position: FloatArray, joint_velocity: FloatArray) -> FloatArray:
        """Return the action towards a posture `(J,)` rad from the measured positions and velocities."""
        raise NotImplementedError(f"{type(self).__name__} defines neither action_towards nor _action_to")

    def _velocity_to(self, posture: FloatArray, joint_position: FloatArray) -> FloatArray:
        """Return joint velocities `(J,)` rad/s towards a posture, scaled down to the joints' limits."""
        velocity = APPROACH_GAIN * (posture - joint_position) / (self.dt * self.action_repeat)
        return velocity / max(1.0, float(np.abs(velocity / self.limits.velocity).max()))


@register_controller("joint_delta", help="moves the commanded joint angles")
class JointDelta(JointController):
    """Adds the action times the largest joint displacement of one step to the last commanded joint positions.

    Args:
        step: rad, largest displacement of a joint in a control step; the largest speed of the joint limits it, too.
        lag: rad, largest distance between commanded and measured position of a joint.
        *args: Of `Controller`.
        **kwargs: Of `Controller`.
    """

    remembers_command = True

    def __init__(
        self,
        *args: Any,
        step: Annotated[float, Field(gt=0, le=1)] = 1.0,
        lag: Annotated[float, Field(gt=0, le=3)] = JOINT_LAG,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.lag, self.joint_step = lag, np.minimum(self.joint_step, step)

    @property
    def ranges(self) -> tuple[ComponentRange, ...]:
        """Displacement of the last commanded joint positions in a control step."""
        return self._ranges("rad per control step", -self.joint_step, self.joint_step)

    @property
    def command_offset_size(self) -> int:
        """The number of joints."""
        return len(self.chain.home)

    def command_offset(self, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """Return the commanded minus the measured joint positions: `(J,)` rad."""
        return self.joint_command - joint_position

    def command(self, action: FloatArray, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """Return the last command moved by the action, within lag and joint limits."""
        target = self.joint_command + action * self.joint_step
        target = np.minimum(np.maximum(target, joint_position - self.lag), joint_position + self.lag)
        self.joint_command = np.minimum(np.maximum(target, self.chain.lower), self.chain.upper)
        return self.joint_command

    def _action_to(self, posture: FloatArray, joint_position: FloatArray, joint_velocity: FloatArray) -> FloatArray:
        return scale_to_unit((posture - self.joint_command) / (self.joint_step * self.action_repeat))


@register_controller(
    "joint_position", aliases=("joints", "joints_gripper"), help="commands joint angles over their whole range"
)
class JointPosition(JointController):
    """Commands joint positions: an action of -1 is the lower limit, 1 is the upper limit."""

    @property
    def ranges(self) -> tuple[ComponentRange, ...]:
        """Joint positions."""
        return self._ranges("rad", self.chain.lower, self.chain.upper)

    def command(self, action: FloatArray, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """Return the action in rad."""
        self.joint_command = (self.chain.upper + self.chain.lower + action * (self.chain.upper - self.chain.lower)) / 2
        return self.joint_command

    def _action_to(self, posture: FloatArray, joint_position: FloatArray, joint_velocity: FloatArray) -> FloatArray:
        action: FloatArray = action_within(posture, self.chain.lower, self.chain.upper)
        return action


@register_controller("joint_velocity", help="commands joint velocities up to their limits")
class JointVelocity(JointController):
    """Commands joint velocities as shares of the joints' limits."""

    mode = "velocity"

    @property
    def ranges(self) -> tuple[ComponentRange, ...]:
        """Joint velocities."""
        return self._ranges("rad/s", -self.limits.velocity, self.limits.velocity)

    def command(self, action: FloatArray, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """Return the action in rad/s, clipped so that no joint passes a position limit within the step."""
        lowest, highest = (self.chain.lower - joint_position) / self.dt, (self.chain.upper - joint_position) / self.dt
        return np.minimum(np.maximum(action * self.limits.velocity, lowest), highest)

    def _action_to(self, posture: FloatArray, joint_position: FloatArray, joint_velocity: FloatArray) -> FloatArray:
        return self._velocity_to(posture, joint_position) / self.limits.velocity


@register_controller(
    "joint_torque", help="commands joint torques up to their limits, on top of gravity and friction compensation"
)
class JointTorque(JointController):
    """Commands joint torques as shares of the joints' limits.

    They add to gravity and friction compensation, as on real arms with this interface.
    """

    mode = "torque"

    @property
    def ranges(self) -> tuple[ComponentRange, ...]:
        """Joint torques, without gravity and friction."""
        return self._ranges("N m", -self.limits.effort, self.limits.effort)

    def command(self, action: FloatArray, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """Return the action in N m."""
        return action * self.limits.effort

    def _action_to(self, posture: FloatArray, joint_position: FloatArray, joint_velocity: FloatArray) -> FloatArray:
        """Return the computed torque: within the step it gives the joints their velocities towards the posture."""
        acceleration = (self._velocity_to(posture, joint_position) - joint_velocity) / (self.dt * self.action_repeat)
        torque = self.inverse_dynamics(joint_position, joint_velocity, acceleration)
        return scale_to_unit(torque / self.limits.effort)
