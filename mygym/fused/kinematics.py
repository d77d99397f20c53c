"""Forward kinematics and Jacobian of a batch of arms, from the same `Chain` as a single arm's.

Arrays end with the batch axis, `(d, N)`: each operation runs over long contiguous rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mygym.fused.arrays import Arrays
from mygym.models.kinematics import Chain
from mygym.models.pose_error import jacobian_column
from mygym.models.transforms import matrix_to_quaternion
from mygym.tasks.state import constant, namespace
from mygym.types import Array, FloatArray


@dataclass(frozen=True, slots=True)
class Frames:
    """Joints and tools of `N` arms with `J` joints, world frame."""

    axes: Array
    """`(3, J, N)`: unit axes of the joints."""
    origins: Array
    """`(3, J, N)` m: points on the axes."""
    rotation: Array
    """`(3, 3, N)`: x, y and z axis of the tool; the second index is the component."""
    position: Array
    """`(3, N)` m: the tool point."""

    def rows(self) -> list[list[Array]]:
        """Return three rows of the tool's pose, each with three components of the rotation and the position, `(N,)`."""
        return [[self.rotation[axis, row] for axis in range(3)] + [self.position[row]] for row in range(3)]

    def jacobian(self) -> tuple[Array, ...]:
        """Return the six rows `(J, N)` of the Jacobian: m/rad, then rad/rad times `ORIENTATION_WEIGHT`."""
        lever = self.position[:, None, :] - self.origins
        return jacobian_column([self.axes[0], self.axes[1], self.axes[2]], [lever[0], lever[1], lever[2]])


class BatchKinematics:
    """Forward kinematics of a batch of arms.

    Args:
        chain: The chain of joints.
        arrays: Array library.
    """

    def __init__(self, chain: Chain, arrays: Arrays) -> None:
        origins = (chain.basis[:, 0] + chain.basis[:, 1]).reshape(-1, 4, 4)  # the transforms at joint positions of 0
        self._first = arrays.floats(origins[0, :3].T[:, :, None])
        # Rows: the three axes and the origin of the next frame, in the axes of the frame before it.
        self._next = [arrays.floats(matrix[:3].T) for matrix in (*origins[1:], chain.tool)]
        self._arrays, self._joints = arrays, len(origins)

    def forward(self, q: Array) -> Frames:
        """Return the frames at joint positions `(J, N)` rad."""
        xp = self._arrays.xp
        cosines, sines, size = xp.cos(q), xp.sin(q), q.shape[1]
        axes, origins = (self._arrays.zeros(3, self._joints, size) for _ in range(2))
        frame: Any = xp.broadcast_to(self._first, (4, 3, size))
        frame = xp.asarray(frame, copy=True)
        position = frame[3]
        for index in range(self._joints):
            cosine, sine = cosines[index], sines[index]
            turned = cosine * frame[0] + sine * frame[1]
            frame[1] = cosine * frame[1] - sine * frame[0]
            frame[0] = turned
            axes[:, index], origins[:, index] = frame[2], position
            frame = xp.reshape(xp.matmul(self._next[index], xp.reshape(frame[:3], (3, 3 * size))), (4, 3, size))
            position = position + frame[3]
        return Frames(axes, origins, frame[:3], position)


def quaternions(rotation: Array, held: FloatArray) -> Array:
    """Return unit quaternions `(4, N)` `(x, y, z, w)` of rotations, which are less than half a turn from `held`.

    Args:
        rotation: `(3, 3, N)`, see `Frames.rotation`.
        held: `(3, 3)`: the rotation that the controller holds.
    """
    xp, size = namespace(rotation), rotation.shape[2]
    matrix = constant(tuple(map(tuple, held.tolist())), rotation)
    # Relative to the held rotation w is large, so that the division is safe; r[j][i] is row i, column j.
    r = xp.reshape(xp.matmul(matrix, xp.reshape(rotation, (3, 3 * size))), (3, 3, size))
    w = 0.5 * xp.sqrt(xp.clip(1.0 + r[0][0] + r[1][1] + r[2][2], 1e-6, None))
    factor = 0.25 / w
    x, y, z = (r[1][2] - r[2][1]) * factor, (r[2][0] - r[0][2]) * factor, (r[0][1] - r[1][0]) * factor
    bx, by, bz, bw = matrix_to_quaternion(held).tolist()
    return xp.stack(
        [
            w * bx + x * bw + y * bz - z * by,
            w * by - x * bz + y * bw + z * bx,
            w * bz + x * by - y * bx + z * bw,
            w * bw - x * bx - y * by - z * bz,
        ]
    )
