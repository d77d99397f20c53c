"""Pose error and Jacobian of a tool, component by component.

The components are plain numbers, or arrays with a number for each of `N` arms: the same formulas serve a single arm in
Bullet and the batch of the fused engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ORIENTATION_WEIGHT = 0.3
"""m/rad: position error that equals an orientation error of 1 rad."""


def jacobian_column(axis: Sequence[Any], lever: Sequence[Any]) -> tuple[Any, ...]:
    """Return a joint's column of the geometric Jacobian: m/rad, then rad/rad times `ORIENTATION_WEIGHT`.

    Args:
        axis: Three components of the joint's unit axis, world frame.
        lever: Three components of the vector from the joint to the tool point, m.
    """
    (ax, ay, az), (x, y, z), w = axis, lever, ORIENTATION_WEIGHT
    return ay * z - az * y, az * x - ax * z, ax * y - ay * x, w * ax, w * ay, w * az


def pose_error(pose: Sequence[Sequence[Any]], position: Sequence[Any], rotation: Sequence[Sequence[Any]]) -> list[Any]:
    """Return six components of the error of a pose: m, then rad times `ORIENTATION_WEIGHT`, in the world frame.

    Args:
        pose: Three rows of the pose, each with three components of the rotation, then the position in m.
        position: Three components of the target position, m.
        rotation: Three rows of the target rotation.
    """
    (a, b, c, x), (d, e, f, y), (g, h, i, z) = pose
    (o, p, q), (r, s, t), (u, v, w) = rotation
    px, py, pz = position
    weight = 0.5 * ORIENTATION_WEIGHT
    # The skew-symmetric part of rotation @ pose.T is the axis of the rotation error times the sine of its angle.
    return [
        px - x,
        py - y,
        pz - z,
        weight * (u * d + v * e + w * f - r * g - s * h - t * i),
        weight * (o * g + p * h + q * i - u * a - v * b - w * c),
        weight * (r * a + s * b + t * c - o * d - p * e - q * f),
    ]
