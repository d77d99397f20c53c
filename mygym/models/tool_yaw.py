"""Turning the tool about its own axis: angles in rad, 0 as it is held at home.

An angle is positive against the tool's z axis: of a tool that points down, counter-clockwise seen from above, so that
what it holds gets just so much more yaw.
"""

from __future__ import annotations

import math

import numpy as np

from mygym.types import FloatArray

TURN_STEP = 0.08
"""rad: turn that an action component of 1 asks for; 2 rad/s, which the wrists of all robots that ship can follow."""

TURN_LAG = 0.2
"""rad: the commanded turn never leads the measured one by more, as the position by `EE_LAG`."""

TURN_RANGE = math.pi / 2
"""rad: the tool is turned so far to either side at most; two fingers need no more."""


def turned(held: FloatArray, angle: float) -> FloatArray:
    """The orientation `(3, 3)` that is held at home, turned."""
    sine, cosine = math.sin(angle), math.cos(angle)
    about_z = np.array([[cosine, sine, 0.0], [-sine, cosine, 0.0], [0.0, 0.0, 1.0]])
    rotation: FloatArray = held @ about_z
    return rotation


def turn_between(held: FloatArray, rotation: FloatArray) -> float:
    """By how much an orientation `(3, 3)` is turned from that held at home; what is tilted besides is left out."""
    relative = held.T @ rotation
    return math.atan2(relative[0, 1] - relative[1, 0], relative[0, 0] + relative[1, 1])


def within(value: float, middle: float, reach: float) -> float:
    """The value, or what is next to it at most `reach` from the middle."""
    return min(max(value, middle - reach), middle + reach)
