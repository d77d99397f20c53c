"""From an action in [-1, 1] to what the motors follow, and from an end-effector target back to an action.

The built-in ones are named in `mygym.registry`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from mygym.sim.kinematics import Kinematics
from mygym.sim.workspace import Area

Array = NDArray[np.float64]

EE_STEP = 0.05
"""m: end-effector displacement that an action component of 1 asks for (panda-gym's value)."""

EE_LAG = 0.10
"""m: the commanded position never leads the measured one by more along an axis: pushing against what does not give way
is not wound up."""

IK_ITERATIONS = 2
"""Most of them in a control step; the second only if the first left more than `IK_TOLERANCE`."""

IK_TOLERANCE = 0.001
"""m: what linearising may leave of a step, to be taken up in the next one; much less than the motors leave."""

JOINT_LAG = 0.35
"""rad: the same for joints."""

APPROACH = 0.6
"""Part of the way to a posture that experts go in one step where speeds or torques are commanded: all of it would be
stopped by nothing but the motors' limits."""

Mode = Literal["position", "velocity", "torque"]


@dataclass(frozen=True)
class ArmLimits:
    """What an arm can do, joint by joint."""

    velocity: Array
    """`(J,)` rad/s."""
    effort: Array
    """`(J,)` N m."""


InverseDynamics = Callable[[Array, Array, Array], Array]
"""Joint positions, velocities and accelerations `(J,)` → the torques `(J,)` N m that give them, weight left out."""


class Controller(ABC):
    """Turns the arm's part of an action into what its motors follow. The gripper's part is the world's.

    Args:
        kinematics: Of the arm.
        limits: Of the arm.
        bounds: Where the end effector may be commanded to.
        dt: s, duration of a control step.
        inverse_dynamics: Of the arm.
    """

    mode: ClassVar[Mode] = "position"
    """What `command` returns: joint positions in rad, velocities in rad/s, or torques in N m."""

    def __init__(
        self,
        kinematics: Kinematics,
        limits: ArmLimits,
        bounds: Area,
        dt: float,
        inverse_dynamics: InverseDynamics,
    ) -> None:
        self.kinematics, self.chain, self.limits, self.dt = kinematics, kinematics.chain, limits, dt
        self.inverse_dynamics = inverse_dynamics
        self.joint_step = limits.velocity * dt
        self.low, self.high = np.array(bounds.low), np.array(bounds.high)
        self._bounds = bounds.low, bounds.high
        self.joint_command = self.chain.home.copy()

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each component of the arm's part of the action: one for each joint, unless said otherwise."""
        return tuple(f"joint_{index + 1}" for index in range(len(self.chain.home)))

    def reset(self, joint_position: Array, ee_position: Array) -> None:
        """Start from a measured posture: `(J,)` rad and `(3,)` m. The command becomes the posture."""
        self.joint_command = joint_position.copy()

    @abstractmethod
    def command(self, action: Array, joint_position: Array, ee_position: Array) -> Array:
        """What the motors follow, `(J,)`, see `mode`, for the arm's part of an action.

        The measured posture is `(J,)` rad and `(3,)` m.
        """

    @abstractmethod
    def action_towards(
        self, ee_target: Array, joint_position: Array, joint_velocity: Array, ee_position: Array
    ) -> Array:
        """The action that takes the end effector straight towards a target `(3,)` m, tool held, for one step.

        The measured posture is `(J,)` rad, `(J,)` rad/s and `(3,)` m.
        """

    def _posture_towards(self, ee_target: Array, ee_position: Array) -> Array:
        """Joint positions at most `EE_STEP` (each axis) from where the end effector is, towards the target."""
        target = np.minimum(np.maximum(ee_target, self.low), self.high)
        gap = target - ee_position
        target = ee_position + gap * min(1.0, EE_STEP / max(float(np.abs(gap).max()), 1e-9))
        return self.kinematics.inverse(self.joint_command, target, self.chain.rotation, iterations=4)

    def _velocity_towards(self, ee_target: Array, joint_position: Array, ee_position: Array) -> Array:
        """Joint velocities `(J,)` rad/s on the way to the posture towards the target, none beyond its limit."""
        self.joint_command = joint_position
        velocity = APPROACH * (self._posture_towards(ee_target, ee_position) - joint_position) / self.dt
        return velocity / max(1.0, float(np.abs(velocity / self.limits.velocity).max()))


class EndEffectorController(Controller):
    """Commands the end effector's position; the tool's orientation is held."""

    @property
    def names(self) -> tuple[str, ...]:
        """One for each axis of the world frame."""
        return ("ee_x", "ee_y", "ee_z")

    def reset(self, joint_position: Array, ee_position: Array) -> None:
        """Start from a measured posture."""
        super().reset(joint_position, ee_position)
        self.ee_command = ee_position.copy()

    def _move(self, moves: list[float], ee_position: Array) -> Array:
        """Joint targets for displacements `(3,)` m of the last commanded position, within bounds and lag."""
        # Three numbers: plain floats are faster than arrays.
        self.ee_command = np.array(
            [
                min(max(min(max(x + move, at - EE_LAG), at + EE_LAG), low), high)
                for x, move, at, low, high in zip(
                    self.ee_command.tolist(), moves, ee_position.tolist(), *self._bounds, strict=True
                )
            ]
        )
        # From the last command, not from the measurement: what the motors have not yet reached must not feed back.
        self.joint_command = self.kinematics.inverse(
            self.joint_command, self.ee_command, self.chain.rotation, IK_ITERATIONS, IK_TOLERANCE
        )
        return self.joint_command


class EndEffectorDelta(EndEffectorController):
    """`ee_delta`: the action times 5 cm is added to the last commanded position; the tool's orientation is held."""

    def command(self, action: Array, joint_position: Array, ee_position: Array) -> Array:
        """Joint targets for displacements of 5 cm times the action."""
        return self._move([EE_STEP * part for part in action.tolist()], ee_position)

    def action_towards(
        self, ee_target: Array, joint_position: Array, joint_velocity: Array, ee_position: Array
    ) -> Array:
        """From the last command straight to the target, scaled down to what one action can do."""
        return _within_one((ee_target - self.ee_command) / EE_STEP)


class EndEffectorAbsolute(EndEffectorController):
    """`ee_absolute`: the action is a position in the tool's bounds, approached straight by up to 5 cm in a step."""

    def command(self, action: Array, joint_position: Array, ee_position: Array) -> Array:
        """Joint targets on the way from the last commanded position to the one that the action means."""
        target = (self.high + self.low) / 2 + action * (self.high - self.low) / 2
        return self._move((EE_STEP * _within_one((target - self.ee_command) / EE_STEP)).tolist(), ee_position)

    def action_towards(
        self, ee_target: Array, joint_position: Array, joint_velocity: Array, ee_position: Array
    ) -> Array:
        """The target itself."""
        action: Array = (2 * ee_target - self.high - self.low) / (self.high - self.low)
        return action


class JointDelta(Controller):
    """`joint_delta`: the action times the way a joint can go in one step is added to its last command."""

    def command(self, action: Array, joint_position: Array, ee_position: Array) -> Array:
        """The last command, moved."""
        target = self.joint_command + action * self.joint_step
        target = np.minimum(np.maximum(target, joint_position - JOINT_LAG), joint_position + JOINT_LAG)
        self.joint_command = np.minimum(np.maximum(target, self.chain.lower), self.chain.upper)
        return self.joint_command

    def action_towards(
        self, ee_target: Array, joint_position: Array, joint_velocity: Array, ee_position: Array
    ) -> Array:
        """Towards the posture 5 cm nearer to the target, scaled down to what one action can do."""
        return _within_one((self._posture_towards(ee_target, ee_position) - self.joint_command) / self.joint_step)


class JointPosition(Controller):
    """`joint_position`: the action is the joint positions themselves, -1 the lower and 1 the upper limit."""

    def command(self, action: Array, joint_position: Array, ee_position: Array) -> Array:
        """The action in rad."""
        self.joint_command = (self.chain.upper + self.chain.lower + action * (self.chain.upper - self.chain.lower)) / 2
        return self.joint_command

    def action_towards(
        self, ee_target: Array, joint_position: Array, joint_velocity: Array, ee_position: Array
    ) -> Array:
        """The posture 5 cm nearer to the target."""
        posture = self._posture_towards(ee_target, ee_position)
        return (2 * posture - self.chain.upper - self.chain.lower) / (self.chain.upper - self.chain.lower)


class JointVelocity(Controller):
    """`joint_velocity`: the action is joint velocities in parts of the joints' limits."""

    mode = "velocity"

    def command(self, action: Array, joint_position: Array, ee_position: Array) -> Array:
        """The action in rad/s; none that leads beyond a position limit within the step."""
        lowest, highest = (self.chain.lower - joint_position) / self.dt, (self.chain.upper - joint_position) / self.dt
        return np.minimum(np.maximum(action * self.limits.velocity, lowest), highest)

    def action_towards(
        self, ee_target: Array, joint_position: Array, joint_velocity: Array, ee_position: Array
    ) -> Array:
        """On the way to the posture 5 cm nearer to the target."""
        return self._velocity_towards(ee_target, joint_position, ee_position) / self.limits.velocity


class JointTorque(Controller):
    """`joint_torque`: the action is joint torques in parts of the joints' limits.

    They come on top of gravity and friction compensation, as on real arms with this interface.
    """

    mode = "torque"

    def command(self, action: Array, joint_position: Array, ee_position: Array) -> Array:
        """The action in N m."""
        return action * self.limits.effort

    def action_towards(
        self, ee_target: Array, joint_position: Array, joint_velocity: Array, ee_position: Array
    ) -> Array:
        """Computed torque: what gives the joints, within the step, the velocities on the way to the posture."""
        velocity = self._velocity_towards(ee_target, joint_position, ee_position)
        acceleration = (velocity - joint_velocity) / self.dt
        torque = self.inverse_dynamics(joint_position, joint_velocity, acceleration)
        return _within_one(torque / self.limits.effort)


def _within_one(action: Array) -> Array:
    """The same direction, no component beyond 1."""
    return action / max(1.0, float(np.abs(action).max()))
