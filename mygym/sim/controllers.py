"""From an action in [-1, 1] to joint targets, and from an end-effector target back to an action.

A new controller is a class here and a line in `CONTROLLERS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mygym.errors import ConfigError, bad_value
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


class Controller(ABC):
    """Turns the arm's part of an action into joint targets. The gripper's part is the world's.

    Args:
        kinematics: Of the arm.
        velocity: `(J,)` rad/s, largest joint speeds.
        bounds: Where the end effector may be commanded to.
        dt: s, duration of a control step.
    """

    mode: ClassVar[str] = "position"
    """What `command` returns: joint `"position"` (later also `"velocity"`, `"torque"`)."""

    def __init__(self, kinematics: Kinematics, velocity: Array, bounds: Area, dt: float) -> None:
        self.kinematics, self.chain = kinematics, kinematics.chain
        self.joint_step = velocity * dt
        self.low, self.high = np.array(bounds.low), np.array(bounds.high)
        self._bounds = bounds.low, bounds.high
        self.joint_command = self.chain.home.copy()

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """A name for each component of the arm's part of the action."""

    def reset(self, joint_position: Array, ee_position: Array) -> None:
        """Start from a measured posture: `(J,)` rad and `(3,)` m. The command becomes the posture."""
        self.joint_command = joint_position.copy()

    @abstractmethod
    def command(self, action: Array, joint_position: Array, ee_position: Array) -> Array:
        """Joint targets `(J,)` rad for the arm's part of an action; the measured posture is `(J,)` rad and `(3,)` m."""

    @abstractmethod
    def action_towards(self, ee_target: Array, joint_position: Array, ee_position: Array) -> Array:
        """The action that takes the end effector straight towards a target `(3,)` m, tool down, for one step."""

    def _posture_towards(self, ee_target: Array, ee_position: Array) -> Array:
        """Joint positions at most `EE_STEP` (each axis) from where the end effector is, towards the target."""
        target = np.minimum(np.maximum(ee_target, self.low), self.high)
        gap = target - ee_position
        target = ee_position + gap * min(1.0, EE_STEP / max(float(np.abs(gap).max()), 1e-9))
        return self.kinematics.inverse(self.joint_command, target, self.chain.down, iterations=4)


class EndEffectorDelta(Controller):
    """`ee_delta`: the action times 5 cm is added to the last commanded position; the tool keeps pointing down."""

    @property
    def names(self) -> tuple[str, ...]:
        """One for each axis of the world frame."""
        return ("ee_x", "ee_y", "ee_z")

    def reset(self, joint_position: Array, ee_position: Array) -> None:
        """Start from a measured posture."""
        super().reset(joint_position, ee_position)
        self.ee_command = ee_position.copy()

    def command(self, action: Array, joint_position: Array, ee_position: Array) -> Array:
        """Joint targets for displacements of 5 cm times the action."""
        commanded, moves, measured = self.ee_command.tolist(), action.tolist(), ee_position.tolist()
        # Three numbers: plain floats are faster than arrays.
        self.ee_command = np.array(
            [
                min(max(min(max(x + EE_STEP * move, at - EE_LAG), at + EE_LAG), low), high)
                for x, move, at, low, high in zip(commanded, moves, measured, *self._bounds, strict=True)
            ]
        )
        # From the last command, not from the measurement: what the motors have not yet reached must not feed back.
        self.joint_command = self.kinematics.inverse(
            self.joint_command, self.ee_command, self.chain.down, IK_ITERATIONS, IK_TOLERANCE
        )
        return self.joint_command

    def action_towards(self, ee_target: Array, joint_position: Array, ee_position: Array) -> Array:
        """From the last command straight to the target, scaled down to what one action can do."""
        step = (ee_target - self.ee_command) / EE_STEP
        return step / max(1.0, float(np.abs(step).max()))


class JointDelta(Controller):
    """`joint_delta`: the action times the way a joint can go in one step is added to its last command."""

    @property
    def names(self) -> tuple[str, ...]:
        """One for each joint."""
        return tuple(f"joint_{index + 1}" for index in range(len(self.chain.home)))

    def command(self, action: Array, joint_position: Array, ee_position: Array) -> Array:
        """The last command, moved."""
        target = self.joint_command + action * self.joint_step
        target = np.minimum(np.maximum(target, joint_position - JOINT_LAG), joint_position + JOINT_LAG)
        self.joint_command = np.minimum(np.maximum(target, self.chain.lower), self.chain.upper)
        return self.joint_command

    def action_towards(self, ee_target: Array, joint_position: Array, ee_position: Array) -> Array:
        """Towards the posture 5 cm nearer to the target, scaled down to what one action can do."""
        step = (self._posture_towards(ee_target, ee_position) - self.joint_command) / self.joint_step
        return step / max(1.0, float(np.abs(step).max()))


class JointPosition(Controller):
    """`joint_position`: the action is the joint positions themselves, -1 the lower and 1 the upper limit."""

    def __init__(self, kinematics: Kinematics, velocity: Array, bounds: Area, dt: float) -> None:
        super().__init__(kinematics, velocity, bounds, dt)
        self.middle, self.half = (self.chain.upper + self.chain.lower) / 2, (self.chain.upper - self.chain.lower) / 2

    @property
    def names(self) -> tuple[str, ...]:
        """One for each joint."""
        return tuple(f"joint_{index + 1}" for index in range(len(self.chain.home)))

    def command(self, action: Array, joint_position: Array, ee_position: Array) -> Array:
        """The action in rad."""
        self.joint_command = self.middle + action * self.half
        return self.joint_command

    def action_towards(self, ee_target: Array, joint_position: Array, ee_position: Array) -> Array:
        """The posture 5 cm nearer to the target."""
        return (self._posture_towards(ee_target, ee_position) - self.middle) / self.half


CONTROLLERS: dict[str, type[Controller]] = {
    "ee_delta": EndEffectorDelta,
    "joint_delta": JointDelta,
    "joint_position": JointPosition,
}
"""Controllers by name."""

ALIASES = {"step": "ee_delta", "joints": "joint_position"}
"""Other names of the same controllers."""


def controller_names() -> tuple[str, ...]:
    """All names that `make_controller` takes."""
    return (*CONTROLLERS, *ALIASES)


def make_controller(name: str, kinematics: Kinematics, velocity: Array, bounds: Area, dt: float) -> Controller:
    """The controller of this name or alias.

    Raises:
        ConfigError: the name is not known.
    """
    key = ALIASES.get(name, name)
    if key not in CONTROLLERS:
        raise ConfigError(bad_value("control", name, controller_names(), "is not a controller"))
    return CONTROLLERS[key](kinematics, velocity, bounds, dt)
