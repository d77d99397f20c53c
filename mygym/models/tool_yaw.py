"""Yaw of the tool: its rotation in rad about the tool's z axis; 0 in the home orientation.

Positive yaw turns against the tool's z axis: for a tool that points down, counter-clockwise seen from above, so a held
object's yaw changes by the same angle.
"""

from __future__ import annotations

import math

import numpy as np

from mygym.types import FloatArray

YAW_STEP = 0.08
"""rad: yaw change of an action component of 1; 2 rad/s, which the wrists of all built-in robots can follow."""

YAW_LAG = 0.2
"""rad: limit of the distance between commanded and measured yaw (as `EE_LAG` for the position)."""

YAW_RANGE = math.pi / 2
"""rad: largest yaw to either side; two fingers need no more."""


def rotate_about_tool_axis(held: FloatArray, yaw: float) -> FloatArray:
    """Return the orientation `(3, 3)` held at home, rotated by a yaw in rad."""
    sine, cosine = math.sin(yaw), math.cos(yaw)
    about_z = np.array([[cosine, sine, 0.0], [-sine, cosine, 0.0], [0.0, 0.0, 1.0]])
    rotation: FloatArray = held @ about_z
    return rotation


def yaw_between(held: FloatArray, rotation: FloatArray) -> float:
    """Return the yaw in rad from the orientation `(3, 3)` held at home to another; tilt is ignored."""
    relative = held.T @ rotation
    return math.atan2(relative[0, 1] - relative[1, 0], relative[0, 0] + relative[1, 1])


def clamp_around(value: float, centre: float, radius: float) -> float:
    """Return the value clamped to `centre` ± `radius`."""
    return min(max(value, centre - radius), centre + radius)
