"""Motor model of the fused engine: each joint follows its target velocity with a limited acceleration.

The limits are fitted to Bullet, robot by robot (`motors.yaml`): they stand for the inertia that a motor moves. What
they leave out is the coupling of the joints, which a moving arm has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from mygym.fused.arrays import Arrays
from mygym.types import Array, FloatArray

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
    substeps: int
    """Physics steps in a control step."""


class BatchMotors:
    """Motors of a batch of arms.

    Args:
        model: Numbers of the motors.
        dt: s, duration of a control step.
        arrays: Array library.
    """

    def __init__(self, model: MotorModel, dt: float, arrays: Arrays) -> None:
        self._xp, self._dt, self._substeps = arrays.xp, dt, model.substeps
        self._substep = dt / model.substeps
        self._velocity = arrays.floats(model.velocity)[:, None]
        gain = arrays.floats(model.acceleration * self._substep)
        self._gain = gain if gain.ndim == 2 else gain[:, None]
        self._deceleration = model.deceleration

    def target_velocity(self, missing: Array) -> Array:
        """Return target velocities `(J, N)` rad/s, as `RobotBody` sets them in Bullet.

        Args:
            missing: `(J, N)` rad from the joints to their targets.
        """
        xp, gain = self._xp, self._deceleration * self._dt
        size = xp.abs(missing)
        slowest = xp.max(size / self._velocity, axis=0)
        farthest = xp.clip(xp.max(size, axis=0), 1e-6, None)
        brake = xp.sqrt(gain * gain + 2.0 * self._deceleration * farthest) - gain
        return xp.minimum(1.0 / xp.clip(slowest, 1e-6, None), brake / farthest) * missing

    def drive(self, q: Array, velocity: Array, target: Array) -> tuple[Array, Array]:
        """Return joint positions and velocities `(J, N)` after a control step at target velocities `(J, N)` rad/s.

        In each physics step `v += clip(target − v, ±gain)` and `q += v h`; here as the sum over the physics steps.
        """
        xp, steps = self._xp, self._substeps
        change = target - velocity
        size = xp.abs(change)
        limited = xp.clip(xp.floor(size / self._gain), None, float(steps))  # steps at the limit
        travelled = 0.5 * self._gain * limited * (limited + 1.0) + (steps - limited) * size
        q = q + self._substep * (steps * velocity + xp.copysign(travelled, change))
        return q, velocity + xp.copysign(xp.minimum(size, steps * self._gain), change)
