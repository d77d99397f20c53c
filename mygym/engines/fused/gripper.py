"""Two fingers that open and close along an axis of the tool: their width follows the command as in Bullet."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from mygym.engines.fused.arrays import Arrays
from mygym.types import Array

FILE = Path(__file__).with_name("fingers.yaml")


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
    return {robot: FingerShape(**values) for robot, values in yaml.safe_load(FILE.read_text(encoding="utf-8")).items()}


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
    """Widths of `N` grippers, open at first; closed for good if the fingers do not move.

    Args:
        model: The gripper.
        count: `N`.
        dt: s, duration of a control step.
        arrays: Array library.
    """

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
