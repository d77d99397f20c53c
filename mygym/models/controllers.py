"""From an action in [-1, 1] to what the motors follow, and from an end-effector target back to an action.

The built-in ones are named in `mygym.registry`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from mygym.models.kinematics import Kinematics
from mygym.models.tool_yaw import TURN_LAG, TURN_RANGE, TURN_STEP, turn_between, turned, within
from mygym.models.workspace import Area
from mygym.types import FloatArray

EE_STEP = 0.05
"""m: end-effector displacement that an action component of 1 asks for (panda-gym's value)."""

EE_LAG = 0.10
"""m: the commanded position never leads the measured one by more along an axis: pushing against what does not give way
is not wound up."""

IK_ITERATIONS = 2
"""Most of them in a control step; the second only if the first left more than `IK_TOLERANCE`."""

IK_TOLERANCE = 0.001
"""m: what linearising may leave of a step, to be taken up in the next one; much less than the motors leave."""

Mode = Literal["position", "velocity", "torque"]


@dataclass(frozen=True)
class ArmLimits:
    """What an arm can do, joint by joint."""

    velocity: FloatArray
    """`(J,)` rad/s."""
    effort: FloatArray
    """`(J,)` N m."""


InverseDynamics = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
"""Joint positions, velocities and accelerations `(J,)` → the torques `(J,)` N m that give them, weight left out."""


class Controller(ABC):
    """Turns the arm's part of an action into what its motors follow. The gripper's part is the world's.

    Args:
        kinematics: Of the arm.
        limits: Of the arm.
        bounds: Where the end effector may be commanded to.
        dt: s, duration of a control step.
        inverse_dynamics: Of the arm.
        turning: Whether the tool may be turned about its own axis, see `mygym.models.tool_yaw`; else its orientation is
            that held at home.
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
        turning: bool = False,
    ) -> None:
        self.kinematics, self.chain, self.limits, self.dt = kinematics, kinematics.chain, limits, dt
        self.inverse_dynamics = inverse_dynamics
        self.joint_step = limits.velocity * dt
        self.low, self.high = np.array(bounds.low), np.array(bounds.high)
        self._bounds = bounds.low, bounds.high
        self.joint_command = self.chain.home.copy()
        self.turning = turning

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """A name for each component of the arm's part of the action."""

    def reset(self, joint_position: FloatArray, ee_position: FloatArray) -> None:
        """Start from a measured posture: `(J,)` rad and `(3,)` m. The command becomes the posture."""
        self.joint_command = joint_position.copy()

    @abstractmethod
    def command(self, action: FloatArray, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """What the motors follow, `(J,)`, see `mode`, for the arm's part of an action.

        The measured posture is `(J,)` rad and `(3,)` m.
        """

    @abstractmethod
    def action_towards(
        self,
        ee_target: FloatArray,
        joint_position: FloatArray,
        joint_velocity: FloatArray,
        ee_position: FloatArray,
        turn_by: float,
    ) -> FloatArray:
        """The action that takes the end effector straight towards a target `(3,)` m, tool held, for one step.

        The measured posture is `(J,)` rad, `(J,)` rad/s and `(3,)` m. `turn_by` is the turn in rad that is missing to
        the measured one; 0 to hold the tool as it was last turned.
        """

    @property
    def command_offset_size(self) -> int:
        """`L`: how many numbers `lead` has; 0 for a controller that remembers nothing from step to step."""
        return 0

    def lead(self, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """`(L,)`: how far what was commanded last leads the measured posture `(J,)` rad and `(3,)` m."""
        return np.zeros(0)

    def tool_yaw_offset(self, turn: float) -> float:
        """Likewise of the tool's turn, measured in rad; 0 where it is not commanded."""
        return 0.0

    def measured_turn(self, joint_position: FloatArray) -> float:
        """The tool's turn in rad at joint positions `(J,)` rad."""
        return turn_between(self.chain.rotation, self.kinematics.pose(joint_position)[:3, :3])


class EndEffectorController(Controller):
    """Commands the end effector's position and, where it is turning, the tool's turn; else its orientation is held."""

    @property
    def names(self) -> tuple[str, ...]:
        """One for each axis of the world frame, then the turn."""
        return ("ee_x", "ee_y", "ee_z", "tool_yaw") if self.turning else ("ee_x", "ee_y", "ee_z")

    def reset(self, joint_position: FloatArray, ee_position: FloatArray) -> None:
        """Start from a measured posture."""
        super().reset(joint_position, ee_position)
        self.ee_command = ee_position.copy()
        self._turn_to(self.measured_turn(self.joint_command) if self.turning else 0.0)

    @property
    def command_offset_size(self) -> int:
        """The position's."""
        return 3

    def lead(self, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """`(3,)` m, world frame."""
        ahead: FloatArray = self.ee_command - ee_position
        return ahead

    def tool_yaw_offset(self, turn: float) -> float:
        """Likewise of a measured turn, rad."""
        return self.turn_command - turn

    def _turn_to(self, angle: float) -> None:
        """Command a turn, rad; `_move` goes there."""
        self.turn_command = within(angle, 0.0, TURN_RANGE)
        self._rotation = turned(self.chain.rotation, self.turn_command) if self.turning else self.chain.rotation

    def _turn_towards(self, angle: float, joint_position: FloatArray) -> None:
        """Command a turn on the way from the last commanded one to an angle in rad, within step, range and lag."""
        step = within(angle, self.turn_command, TURN_STEP)
        self._turn_to(within(step, self.measured_turn(joint_position), TURN_LAG))

    def _turn_wanted(self, joint_position: FloatArray, turn_by: float) -> float:
        """The turn in rad for an expert that misses `turn_by`: from where the tool is, or that commanded already."""
        return self.measured_turn(joint_position) + turn_by if turn_by else self.turn_command

    def _move(self, moves: list[float], ee_position: FloatArray) -> FloatArray:
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
            self.joint_command, self.ee_command, self._rotation, IK_ITERATIONS, IK_TOLERANCE
        )
        return self.joint_command


class EndEffectorDelta(EndEffectorController):
    """`ee_delta`: the action times 5 cm is added to the last commanded position, times `TURN_STEP` to the turn."""

    def command(self, action: FloatArray, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """Joint targets for displacements of 5 cm times the action."""
        if self.turning:
            self._turn_towards(self.turn_command + TURN_STEP * float(action[3]), joint_position)
        return self._move([EE_STEP * part for part in action[:3].tolist()], ee_position)

    def action_towards(
        self,
        ee_target: FloatArray,
        joint_position: FloatArray,
        joint_velocity: FloatArray,
        ee_position: FloatArray,
        turn_by: float,
    ) -> FloatArray:
        """From the last command straight to the target, scaled down to what one action can do."""
        move = within_one((ee_target - self.ee_command) / EE_STEP)
        if not self.turning:
            return move
        return np.append(move, (self._turn_wanted(joint_position, turn_by) - self.turn_command) / TURN_STEP)


class EndEffectorAbsolute(EndEffectorController):
    """`ee_absolute`: the action is a position in the tool's bounds, approached straight by up to 5 cm in a step.

    Likewise the turn, -1 to 1 for `TURN_RANGE` to either side, by up to `TURN_STEP`.
    """

    def command(self, action: FloatArray, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """Joint targets on the way from the last commanded position to the one that the action means."""
        if self.turning:
            self._turn_towards(TURN_RANGE * float(action[3]), joint_position)
        target = (self.high + self.low) / 2 + action[:3] * (self.high - self.low) / 2
        return self._move((EE_STEP * within_one((target - self.ee_command) / EE_STEP)).tolist(), ee_position)

    def action_towards(
        self,
        ee_target: FloatArray,
        joint_position: FloatArray,
        joint_velocity: FloatArray,
        ee_position: FloatArray,
        turn_by: float,
    ) -> FloatArray:
        """The target itself."""
        action: FloatArray = (2 * ee_target - self.high - self.low) / (self.high - self.low)
        return np.append(action, self._turn_wanted(joint_position, turn_by) / TURN_RANGE) if self.turning else action


def within_one(action: FloatArray) -> FloatArray:
    """The same direction, no component beyond 1."""
    return action / max(1.0, float(np.abs(action).max()))
