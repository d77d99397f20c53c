"""Distractors that move to and fro on a line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mygym.sim.bullet import bullet
from mygym.types import Vector

CATCH_UP_FACTOR = 2.0
"""Maximum speed of a distractor that was held up, in multiples of its nominal speed."""


@dataclass(frozen=True)
class MovingDistractor:
    """Motion to and fro at constant speed; it starts in the middle, towards `axis`."""

    axis: Vector
    """Unit vector in the world frame."""
    speed: float
    """m/s."""
    range: float
    """m to either side of the middle."""

    def position(self, middle: Sequence[float], time: float) -> list[float]:
        """Return the nominal position `(3,)` m after `time` s."""
        phase = (self.speed * time / self.range + 1.0) % 4.0
        offset = self.range * (phase - 1.0 if phase < 2.0 else 3.0 - phase)
        return [coordinate + offset * along for coordinate, along in zip(middle, self.axis, strict=True)]


def drive(
    client: int, body: int, distractor: MovingDistractor, middle: Sequence[float], time: float, dt: float
) -> None:
    """Set the velocity with which a body reaches its nominal position after the control step that begins at `time`.

    The body pushes with its own mass, stops where it is blocked, and catches up afterwards; it does not rotate.
    """
    position, _ = bullet.getBasePositionAndOrientation(body, physicsClientId=client)
    target = distractor.position(middle, time + dt)
    velocity = [(goal - coordinate) / dt for goal, coordinate in zip(target, position, strict=True)]
    scale = min(1.0, CATCH_UP_FACTOR * distractor.speed / max(math.hypot(*velocity), 1e-9))
    velocity = [scale * component for component in velocity]
    bullet.resetBaseVelocity(body, velocity, (0.0, 0.0, 0.0), physicsClientId=client)
