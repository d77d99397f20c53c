"""A batch of arms and their grippers: actions in, a batched `State` out; fitted motors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from mygym.engines.arrays import Arrays, Rows, to_numpy
from mygym.engines.controllers import FORMS, Measured
from mygym.engines.kinematics import Frames, quaternions, total
from mygym.engines.robots import motor_rate
from mygym.robotics.controllers import EndEffectorController
from mygym.tasks.state import State
from mygym.types import Array, FloatArray

SUBSTEPS = 8
"""Physics steps in a control step, as in Bullet, to which the motors are fitted."""

CONTROLLERS = ("ee_delta", "ee_absolute")
"""Controllers that the engine has: those that keep the tool within bounds, and so the arm off the table."""

FILE = Path(__file__).with_name("motors.yaml")


@cache
def fitted_accelerations() -> dict[str, tuple[float, ...]]:
    """Return robot → largest acceleration of each joint of the arm, rad/s²."""
    content = yaml.safe_load(FILE.read_text(encoding="utf-8")) or {}
    return {robot: tuple(map(float, values)) for robot, values in content.items()}


@dataclass(frozen=True)
class MotorModel:
    """Numbers of the motors of an arm."""

    velocity: FloatArray
    """`(J,)` rad/s: largest speeds."""
    acceleration: FloatArray
    """`(J,)` rad/s²: largest accelerations, fitted to Bullet; `(J, N)` for values of each arm."""
    deceleration: float
    """rad/s²: `MotorSpec.acceleration`, by which a target velocity leaves room to brake."""


class BatchMotors:
    """Motors of a batch of arms, driven in control steps of `dt` s."""

    def __init__(self, model: MotorModel, dt: float, arrays: Arrays) -> None:
        self._xp, self._dt, self._substep = arrays.xp, dt, dt / SUBSTEPS
        self._velocity = arrays.floats(model.velocity)[:, None]
        gain = arrays.floats(model.acceleration * self._substep)
        self._gain = gain if gain.ndim == 2 else gain[:, None]
        self._deceleration = model.deceleration

    def target_velocity(self, missing: Array) -> Array:
        """Return target velocities `(J, N)` rad/s, as `RobotBody` sets them in Bullet.

        Args:
            missing: `(J, N)` rad from the joints to their targets.
        """
        return motor_rate(missing, self._velocity, self._deceleration, self._dt, self._xp) * missing

    def drive(self, q: Array, velocity: Array, target: Array) -> tuple[Array, Array]:
        """Return joint positions and velocities `(J, N)` after a control step at target velocities `(J, N)` rad/s.

        In each physics step `v += clip(target − v, ±gain)` and `q += v h`; here as the sum over the physics steps.
        """
        xp, steps = self._xp, SUBSTEPS
        change = target - velocity
        size = xp.abs(change)
        limited = xp.clip(xp.floor(size / self._gain), None, float(steps))  # steps at the limit
        travelled = 0.5 * self._gain * limited * (limited + 1.0) + (steps - limited) * size
        q = q + self._substep * (steps * velocity + xp.copysign(travelled, change))
        return q, velocity + xp.copysign(xp.minimum(size, steps * self._gain), change)


@dataclass(frozen=True)
class ArmModel:
    """An arm with its controller and motors."""

    controller: EndEffectorController
    motors: MotorModel
    home: FloatArray
    """`(J,)` rad: joint positions at the start of an episode."""


class BatchArm:
    """`N` arms, each at its home at first."""

    STATE = ("q", "velocity", "time", "ee_position", "ee_velocity", "rotation")
    """Attributes on which the next steps depend; the last axis is `N`."""

    def __init__(self, model: ArmModel, count: int, arrays: Arrays) -> None:
        self.count, self._arrays, self.dt = count, arrays, model.controller.dt
        self.controller: Any = FORMS[type(model.controller)](model.controller, count, arrays)
        """The `BatchEndEffector`."""
        self._kinematics = self.controller.kinematics
        self._motors = BatchMotors(model.motors, self.dt, arrays)
        self._held = model.controller.chain.rotation
        self._home = arrays.floats(model.home)[:, None]
        home = self._kinematics.forward(self._home)
        self.home_position: FloatArray = to_numpy(home.position)[:, 0].astype(float)
        """`(3,)` m: the tool point at home."""
        spread = arrays.zeros(1, count)
        self.q = self._home + spread
        """`(J, N)` rad: joint positions."""
        self.velocity = arrays.zeros(len(model.home), count)
        """`(J, N)` rad/s: joint velocities."""
        self.time = spread[0]
        """`(N,)` s since the reset."""
        self.gain: Array | None = None
        """`(J, N)`: factors of the target velocities, see `EpisodeRandomization.joint_gain`; None: 1."""
        self._home_tool = home
        self.ee_position: Array = home.position + spread
        """`(3, N)` m: the tool points."""
        self.ee_velocity: Array = arrays.zeros(3, count)
        """`(3, N)` m/s."""
        self.rotation: Array = home.rotation + spread
        """`(3, 3, N)`: axes of the tools, see `Frames.rotation`."""
        self.reset(Rows.all(count, arrays))

    @property
    def posture(self) -> Measured:
        """The measurements that the controller takes."""
        turns = self.controller.single.tool_yaw
        yaw = self.controller.yaw_of(self.rotation) if turns else 0.0 * self.time
        return Measured(self.q, self.ee_position, yaw)

    def reset(self, rows: Rows) -> None:
        """Put arms home, at rest."""
        xp, home, mask = self._arrays.xp, self._home_tool, rows.mask
        self.q = xp.where(mask, self._home, self.q)
        self.velocity = self.velocity * ~mask
        self.time = self.time * ~mask
        self.ee_position = xp.where(mask, home.position, self.ee_position)
        self.ee_velocity = self.ee_velocity * ~mask
        self.rotation = xp.where(mask, home.rotation, self.rotation)
        self.controller.reset(rows, self.posture)

    def step(self, action: Array, floor: Array | None = None) -> None:
        """Advance all arms by a control step with actions `(A, N)` in [-1, 1]; see `BatchEndEffector.floor`."""
        self.controller.floor = floor
        command = self.controller.command(action, self.posture)
        wanted = self._motors.target_velocity(command - self.q)
        if self.gain is not None:
            wanted = wanted * self.gain
        self.q, self.velocity = self._motors.drive(self.q, self.velocity, wanted)
        self.time = self.time + self.dt
        self._measure(self._kinematics.forward(self.q))

    def _measure(self, frames: Frames) -> None:
        """Set pose and velocity of the tool points."""
        self.ee_position, self.rotation = frames.position, frames.rotation
        linear = self._kinematics.jacobian(frames)[:3]
        self.ee_velocity = self._arrays.xp.stack([total(row * self.velocity, 0) for row in linear])

    def measured(self, state: State) -> State:
        """Return a state with the measurements of the arms, as views."""
        posture = self.posture
        return replace(
            state,
            time=self.time,
            ee_position=self.ee_position.T,
            ee_orientation=quaternions(self.rotation, self._held).T,
            ee_velocity=self.ee_velocity.T,
            tool_yaw=posture.tool_yaw,
            joint_position=self.q.T,
            joint_velocity=self.velocity.T,
            command_offset=self.controller.command_offset(posture).T,
            tool_yaw_offset=self.controller.tool_yaw_offset(posture),
        )


GRIPPER_FILE = Path(__file__).with_name("fingers.yaml")


@dataclass(frozen=True)
class FingerShape:
    """Tips of two fingers, balls on either side of the tool point."""

    radius: float
    """m."""
    centre: float
    """m from the inner surface of a finger to the centre of its tip."""
    tip: float
    """m from the tool point down to the lowest point of the fingers."""
    axis: int
    """Axis of the tool along which the fingers close: 0 for x, 1 for y."""
    friction: float
    """Coefficient of fingers that move; fingers that do not move are part of the hand."""


@cache
def finger_shapes() -> dict[str, FingerShape]:
    """Return robot → the shape of its fingers."""
    return {
        robot: FingerShape(**values)
        for robot, values in yaml.safe_load(GRIPPER_FILE.read_text(encoding="utf-8")).items()
    }


@dataclass(frozen=True)
class GripperModel:
    """Fingers of a robot and their motors."""

    shape: FingerShape
    moves: bool
    """Whether actions command the fingers; if not, they stay closed."""
    width: float
    """m between the open fingers."""
    speed: float
    """m/s at which the width changes at most."""
    gain: float
    """1/s: inverse of the time in which a small error of the width falls to 37 %."""


class BatchGripper:
    """Widths of `N` grippers, open at first, in control steps of `dt` s; closed for good if the fingers do not move."""

    def __init__(self, model: GripperModel, count: int, dt: float, arrays: Arrays) -> None:
        self.model, self._xp = model, arrays.xp
        self._start = model.width if model.moves else 0.0
        self._share, self._largest = 1.0 - math.exp(-model.gain * dt), model.speed * dt
        self.width: Array = arrays.zeros(count) + self._start
        """`(N,)` m between the fingers."""
        self.command: Array = arrays.zeros(count) + 1.0
        """`(N,)`: commanded opening, 0 closed to 1 open."""

    def reset(self, mask: Array) -> None:
        """Open the grippers of `mask` `(N,)` bool."""
        xp = self._xp
        self.width = xp.where(mask, self._start, self.width)
        self.command = xp.where(mask, 1.0, self.command)

    def drive(self, action: Array) -> None:
        """Move the fingers for a control step by actions `(N,)`, −1 closed to +1 open, as if nothing were between."""
        xp = self._xp
        self.command = 0.5 + 0.5 * xp.clip(action, -1.0, 1.0)
        change = self._share * (self.target - self.width)
        self.width = self.width + xp.clip(change, -self._largest, self._largest)

    @property
    def target(self) -> Array:
        """`(N,)` m: commanded widths."""
        return self.model.width * self.command
