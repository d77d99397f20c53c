"""Rotations and rigid transforms: quaternions are `(x, y, z, w)`, angles in rad."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mygym.types import FloatArray, Vector


def as_vector(values: ArrayLike) -> Vector:
    """Return an array of three numbers as a tuple of Python's floats."""
    x, y, z = np.asarray(values, dtype=float).tolist()
    return x, y, z


def as_quaternion(rotation: FloatArray, digits: int | None = None) -> tuple[float, float, float, float]:
    """Return the quaternion of a rotation matrix `(3, 3)` as a tuple, its numbers rounded to some digits."""
    quaternion = matrix_to_quaternion(rotation)
    x, y, z, w = (quaternion if digits is None else quaternion.round(digits)).tolist()
    return x, y, z, w


def pose_matrix(position: ArrayLike, rotation: ArrayLike) -> FloatArray:
    """Return the `(4, 4)` homogeneous matrix of a position `(3,)` and a rotation matrix `(3, 3)`."""
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation, position
    return pose


def quaternion_to_matrix(quaternion: ArrayLike) -> FloatArray:
    """Return the rotation matrix `(3, 3)` of a quaternion `(4,)` of any length but zero."""
    x, y, z, w = np.asarray(quaternion, dtype=float) / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def matrix_to_quaternion(matrix: FloatArray) -> FloatArray:
    """Return the quaternion `(4,)` with w >= 0 of a rotation matrix (Bar-Itzhack 2000: the largest eigenvector)."""
    (a, b, c), (d, e, f), (g, h, i) = matrix
    form = np.array(
        [
            [a - e - i, b + d, c + g, h - f],
            [b + d, e - a - i, f + h, c - g],
            [c + g, f + h, i - a - e, d - b],
            [h - f, c - g, d - b, a + e + i],
        ]
    )
    quaternion: FloatArray = np.linalg.eigh(form)[1][:, -1]
    return quaternion if quaternion[3] >= 0 else -quaternion


def multiply_quaternions(a: ArrayLike, b: ArrayLike) -> FloatArray:
    """Return the product `a b` `(4,)`: the rotation `b` followed by `a`."""
    ax, ay, az, aw = np.asarray(a, dtype=float)
    bx, by, bz, bw = np.asarray(b, dtype=float)
    return np.array(
        [
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
            aw * bw - ax * bx - ay * by - az * bz,
        ]
    )


def rpy_to_matrix(rpy: ArrayLike) -> FloatArray:
    """Return the rotation matrix of roll, pitch and yaw about the fixed axes x, y, z, as in URDF."""
    (cr, cp, cy), (sr, sp, sy) = np.cos(rpy), np.sin(rpy)
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def matrix_to_rpy(matrix: FloatArray) -> FloatArray:
    """Return roll, pitch and yaw of a rotation matrix; at a pitch of ±90° the yaw is 0."""
    pitch = np.arctan2(-matrix[2, 0], np.hypot(matrix[0, 0], matrix[1, 0]))
    if np.hypot(matrix[0, 0], matrix[1, 0]) < 1e-9:
        return np.array([np.arctan2(-np.sign(matrix[2, 0]) * matrix[0, 1], matrix[1, 1]), pitch, 0.0])
    return np.array([np.arctan2(matrix[2, 1], matrix[2, 2]), pitch, np.arctan2(matrix[1, 0], matrix[0, 0])])


def axis_angle_to_matrix(axis: ArrayLike, angle: float) -> FloatArray:
    """Return the rotation matrix of an angle about a unit axis `(3,)` (Rodrigues' formula)."""
    x, y, z = np.asarray(axis, dtype=float)
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    result: FloatArray = np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
    return result


def inertia_beside(inertia: FloatArray, mass: float, offset: FloatArray) -> FloatArray:
    """Return the inertia `(3, 3)` about a point that is `offset` from the centre of mass (parallel axis theorem)."""
    result: FloatArray = inertia + mass * (offset @ offset * np.eye(3) - np.outer(offset, offset))
    return result


def rotation_of_z_to(axis: FloatArray, tolerance: float = 1e-9) -> FloatArray:
    """Return the shortest rotation `(3, 3)` of the z axis to `axis`, taken as ±z if the sine is below `tolerance`."""
    axis = axis / np.linalg.norm(axis)
    normal = np.cross((0.0, 0.0, 1.0), axis)
    sine = float(np.linalg.norm(normal))
    if sine < tolerance:
        return np.eye(3) if axis[2] > 0 else np.diag([1.0, -1.0, -1.0])
    return axis_angle_to_matrix(normal / sine, float(np.arctan2(sine, axis[2])))
