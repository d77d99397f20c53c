"""Controllers of joint positions, velocities and torques.

The built-in ones are named in `mygym.registry`.
"""

from __future__ import annotations

import numpy as np

from mygym.models.controllers import EE_STEP, Controller, within_one
from mygym.models.tool_yaw import TURN_RANGE, TURN_STEP, turned, within
from mygym.types import FloatArray

JOINT_LAG = 0.35
"""rad: the commanded position never leads the measured one by more, as the end effector's by `EE_LAG`."""

APPROACH = 0.6
"""Part of the way to a posture that experts go in one step where speeds or torques are commanded: all of it would be
stopped by nothing but the motors' limits."""


class JointController(Controller):
    """Commands joints; experts lead the tool by the arm's kinematics."""

    _turn_to_hold: float | None = None
    """rad; None as long as no expert has acted since the reset."""

    @property
    def names(self) -> tuple[str, ...]:
        """One for each joint."""
        return tuple(f"joint_{index + 1}" for index in range(len(self.chain.home)))

    def reset(self, joint_position: FloatArray, ee_position: FloatArray) -> None:
        """Start from a measured posture."""
        super().reset(joint_position, ee_position)
        self._turn_to_hold = None

    def _rotation_towards(self, joint_position: FloatArray, turn_by: float) -> FloatArray:
        """The tool's orientation `(3, 3)` at most `TURN_STEP` from where it is, towards the turn asked for last."""
        if not self.turning:
            return self.chain.rotation
        measured = self.measured_turn(joint_position)
        if turn_by or self._turn_to_hold is None:
            self._turn_to_hold = within(measured + turn_by, 0.0, TURN_RANGE)
        return turned(self.chain.rotation, within(self._turn_to_hold, measured, TURN_STEP))

    def _posture_towards(
        self, ee_target: FloatArray, joint_position: FloatArray, ee_position: FloatArray, turn_by: float
    ) -> FloatArray:
        """Joint positions at most `EE_STEP` (each axis) from where the end effector is, towards the target."""
        rotation = self._rotation_towards(joint_position, turn_by)
        target = np.minimum(np.maximum(ee_target, self.low), self.high)
        gap = target - ee_position
        target = ee_position + gap * min(1.0, EE_STEP / max(float(np.abs(gap).max()), 1e-9))
        return self.kinematics.inverse(self.joint_command, target, rotation, iterations=4)

    def _velocity_towards(
        self, ee_target: FloatArray, joint_position: FloatArray, ee_position: FloatArray, turn_by: float
    ) -> FloatArray:
        """Joint velocities `(J,)` rad/s on the way to the posture towards the target, none beyond its limit."""
        self.joint_command = joint_position
        posture = self._posture_towards(ee_target, joint_position, ee_position, turn_by)
        velocity = APPROACH * (posture - joint_position) / self.dt
        return velocity / max(1.0, float(np.abs(velocity / self.limits.velocity).max()))


class JointDelta(JointController):
    """`joint_delta`: the action times the way a joint can go in one step is added to its last command."""

    @property
    def command_offset_size(self) -> int:
        """One for each joint."""
        return len(self.chain.home)

    def lead(self, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """`(J,)` rad."""
        return self.joint_command - joint_position

    def command(self, action: FloatArray, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """The last command, moved."""
        target = self.joint_command + action * self.joint_step
        target = np.minimum(np.maximum(target, joint_position - JOINT_LAG), joint_position + JOINT_LAG)
        self.joint_command = np.minimum(np.maximum(target, self.chain.lower), self.chain.upper)
        return self.joint_command

    def action_towards(
        self,
        ee_target: FloatArray,
        joint_position: FloatArray,
        joint_velocity: FloatArray,
        ee_position: FloatArray,
        turn_by: float,
    ) -> FloatArray:
        """Towards the posture 5 cm nearer to the target, scaled down to what one action can do."""
        posture = self._posture_towards(ee_target, joint_position, ee_position, turn_by)
        return within_one((posture - self.joint_command) / self.joint_step)


class JointPosition(JointController):
    """`joint_position`: the action is the joint positions themselves, -1 the lower and 1 the upper limit."""

    def command(self, action: FloatArray, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """The action in rad."""
        self.joint_command = (self.chain.upper + self.chain.lower + action * (self.chain.upper - self.chain.lower)) / 2
        return self.joint_command

    def action_towards(
        self,
        ee_target: FloatArray,
        joint_position: FloatArray,
        joint_velocity: FloatArray,
        ee_position: FloatArray,
        turn_by: float,
    ) -> FloatArray:
        """The posture 5 cm nearer to the target."""
        posture = self._posture_towards(ee_target, joint_position, ee_position, turn_by)
        return (2 * posture - self.chain.upper - self.chain.lower) / (self.chain.upper - self.chain.lower)


class JointVelocity(JointController):
    """`joint_velocity`: the action is joint velocities in parts of the joints' limits."""

    mode = "velocity"

    def command(self, action: FloatArray, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """The action in rad/s; none that leads beyond a position limit within the step."""
        lowest, highest = (self.chain.lower - joint_position) / self.dt, (self.chain.upper - joint_position) / self.dt
        return np.minimum(np.maximum(action * self.limits.velocity, lowest), highest)

    def action_towards(
        self,
        ee_target: FloatArray,
        joint_position: FloatArray,
        joint_velocity: FloatArray,
        ee_position: FloatArray,
        turn_by: float,
    ) -> FloatArray:
        """On the way to the posture 5 cm nearer to the target."""
        return self._velocity_towards(ee_target, joint_position, ee_position, turn_by) / self.limits.velocity


class JointTorque(JointController):
    """`joint_torque`: the action is joint torques in parts of the joints' limits.

    They come on top of gravity and friction compensation, as on real arms with this interface.
    """

    mode = "torque"

    def command(self, action: FloatArray, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """The action in N m."""
        return action * self.limits.effort

    def action_towards(
        self,
        ee_target: FloatArray,
        joint_position: FloatArray,
        joint_velocity: FloatArray,
        ee_position: FloatArray,
        turn_by: float,
    ) -> FloatArray:
        """Computed torque: what gives the joints, within the step, the velocities on the way to the posture."""
        velocity = self._velocity_towards(ee_target, joint_position, ee_position, turn_by)
        acceleration = (velocity - joint_velocity) / self.dt
        torque = self.inverse_dynamics(joint_position, joint_velocity, acceleration)
        return within_one(torque / self.limits.effort)
