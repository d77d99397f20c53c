"""Things that go to and fro on a line by themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mygym.models.assets import Vector
from mygym.sim.bullet import bullet

CATCHING_UP = 2.0
"""Times its speed at which what was held up goes back to where it should be."""


@dataclass(frozen=True)
class MovingDistractor:
    """A way to and fro at an even speed, which begins in the middle and goes along `axis` first."""

    axis: Vector
    """A unit vector in the world frame."""
    speed: float
    """m/s."""
    range: float
    """m to either side of the middle."""

    def position(self, middle: Sequence[float], time: float) -> list[float]:
        """`(3,)` m: where it should be after `time` s."""
        phase = (self.speed * time / self.range + 1.0) % 4.0
        way = self.range * (phase - 1.0 if phase < 2.0 else 3.0 - phase)
        return [place + way * along for place, along in zip(middle, self.axis, strict=True)]


def drive(client: int, body: int, shuttle: MovingDistractor, middle: Sequence[float], time: float, dt: float) -> None:
    """Give a body the velocity with which it is where it should be after the control step that begins at `time`.

    It pushes with its own mass, stops where it is blocked, and catches up afterwards; it does not turn.
    """
    here, _ = bullet.getBasePositionAndOrientation(body, physicsClientId=client)
    there = shuttle.position(middle, time + dt)
    velocity = [(goal - place) / dt for goal, place in zip(there, here, strict=True)]
    slower = min(1.0, CATCHING_UP * shuttle.speed / max(math.hypot(*velocity), 1e-9))
    velocity = [slower * component for component in velocity]
    bullet.resetBaseVelocity(body, velocity, (0.0, 0.0, 0.0), physicsClientId=client)
