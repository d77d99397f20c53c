"""Forward and inverse kinematics of the arms of `N` worlds, with the formulas and constants of `Kinematics`.

The batch axis `N` is the last. A world's numbers are the same to the bit whatever `N` is: no operation sums over
worlds, and sums over joints have one order, which the libraries' functions for sums do not promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mygym.engines.arrays import Arrays, Rows
from mygym.robotics.kinematics import (
    DAMPING,
    MAX_CHANGE,
    NULL_SPACE_GAIN,
    ORIENTATION_WEIGHT,
    TOLERANCE,
    Chain,
    jacobian_column,
    pose_error,
)
from mygym.robotics.transforms import matrix_to_quaternion
from mygym.tasks.state import constant, namespace
from mygym.types import Array, FloatArray

FEW = 0.5
"""Share of the arms below which those that `inverse` has not solved yet are computed alone."""

Rotations = Sequence[Sequence[Any]]
"""Three rows of a rotation, each with three components: plain numbers, or `(N,)` for a rotation of each world."""


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

    def of(self, rows: Rows) -> Frames:
        """Return the frames of some arms."""
        return Frames(*(rows.of(array) for array in (self.axes, self.origins, self.rotation, self.position)))


class BatchKinematics:
    """Forward and inverse kinematics of a batch of arms."""

    def __init__(self, chain: Chain, arrays: Arrays) -> None:
        origins = (chain.basis[:, 0] + chain.basis[:, 1]).reshape(-1, 4, 4)  # the transforms at joint positions of 0
        joints = len(origins)
        self._first = arrays.floats(origins[0, :3].T[:, :, None])
        # The three axes and the origin of the next frame: their components along each axis of the frame before it.
        self._next = [
            [arrays.floats(components[:, None, None]) for components in matrix[:3]]
            for matrix in (*origins[1:], chain.tool)
        ]
        self._arrays, self._xp = arrays, arrays.xp
        self._home, self._lower, self._upper = (
            arrays.floats(values)[:, None] for values in (chain.home, chain.lower, chain.upper)
        )
        self._slides: list[bool] = chain.slides.tolist() or [False] * joints
        self._slide_mask = arrays.flags(self._slides)[:, None] if any(self._slides) else None
        # Older models have no fields for what is free: the defaults say nothing is.
        self._tilt = chain.tilt_weight if chain.yaw_is_free or chain.tilt_is_free else None

    def forward(self, q: Array) -> Frames:
        """Return the frames at joint positions `(J, N)` rad, or m of joints that slide."""
        xp, size = self._xp, q.shape[1]
        cosines, sines = xp.cos(q), xp.sin(q)
        axes, origins = (self._arrays.zeros(3, len(self._slides), size) for _ in range(2))
        frame = self._arrays.zeros(4, 3, size) + self._first
        x, y, z, position = frame
        for index, slides in enumerate(self._slides):
            if slides:
                position = position + q[index] * z
            else:
                cosine, sine = cosines[index], sines[index]
                x, y = cosine * x + sine * y, cosine * y - sine * x
            axes[:, index], origins[:, index] = z, position
            along_x, along_y, along_z = self._next[index]
            frame = along_x * x + along_y * y + along_z * z  # matrix products of some processors round by `N`
            x, y, z, offset = frame
            position = position + offset
        return Frames(axes, origins, frame[:3], position)

    def jacobian(self, frames: Frames) -> list[Array]:
        """Return the six rows `(J, N)` of the Jacobian: m/rad, then rad/rad times `ORIENTATION_WEIGHT`.

        The columns of joints that slide are m/m and 0; the weight is less for an arm whose yaw or tilt is free.
        """
        xp, axes = self._xp, [frames.axes[0], frames.axes[1], frames.axes[2]]
        lever = frames.position[:, None, :] - frames.origins
        rows = list(jacobian_column(axes, [lever[0], lever[1], lever[2]]))
        if self._slide_mask is not None:
            rows[:3] = [xp.where(self._slide_mask, axis, row) for axis, row in zip(axes, rows[:3], strict=True)]
            rows[3:] = [row * ~self._slide_mask for row in rows[3:]]
        if self._tilt is not None:
            rows[3:] = [row * (self._tilt / ORIENTATION_WEIGHT) for row in rows[3:]]
        return rows

    def error(self, frames: Frames, position: Array, rotation: Rotations) -> list[Array]:
        """Return the six components `(N,)` of the error of the tools' poses: m, then rad times the weight of the arm.

        The targets are positions `(3, N)` m and an orientation.
        """
        error = pose_error(frames.rows(), [position[0], position[1], position[2]], rotation)
        if self._tilt is not None:
            (x, y, z), (u, v, w) = frames.rotation[2], (row[2] for row in rotation)
            error[3:] = [self._tilt * turn for turn in (y * w - z * v, z * u - x * w, x * v - y * u)]
        return error

    def inverse(
        self, q: Array, position: Array, rotation: Rotations, iterations: int = 50, tolerance: float = TOLERANCE
    ) -> Array:
        """Return joint positions that bring the tool points to poses, see `Kinematics.inverse`.

        An arm stops as soon as its error is small. On the CPU only the others are computed further.

        Args:
            q: `(J, N)` rad, starts: the last commands.
            position: `(3, N)` m, targets of the tool points.
            rotation: Target orientation.
            iterations: Largest number; none for an arm whose first error is below `TOLERANCE`.
            tolerance: m, error at which an arm stops; orientation is weighted by `ORIENTATION_WEIGHT`.

        Returns:
            `(J, N)` rad within the limits; that of the start for an arm that needs no iteration.
        """
        xp, solution, left = self._xp, q, None
        going = ~self._arrays.zeros(q.shape[1], dtype=xp.bool)
        for iteration in range(iterations):
            frames = self.forward(q)
            error = self.error(frames, position, rotation)
            largest = abs(error[0])
            for component in error[1:]:
                largest = xp.maximum(largest, abs(component))
            going = going & (largest >= (tolerance if iteration else TOLERANCE))
            rows = Rows.of_mask(going)
            if rows.is_empty:
                break
            if rows.index is not None and rows.index.shape[0] < FEW * q.shape[1]:
                left = rows.index if left is None else left[rows.index]
                q, position, going, frames = rows.of(q), rows.of(position), rows.of(going), frames.of(rows)
                error = [rows.of(component) for component in error]
                rotation = [[each if isinstance(each, float) else rows.of(each) for each in row] for row in rotation]
            q = xp.where(going, self._corrected(q, frames, error), q)
            if left is None:
                solution = q
            else:
                solution = xp.asarray(solution, copy=True)
                solution[:, left] = q
        return solution

    def _corrected(self, q: Array, frames: Frames, error: Sequence[Array]) -> Array:
        """Return joint positions `(J, N)` after an iteration of the damped least squares."""
        xp, pull = self._xp, NULL_SPACE_GAIN * (self._home - q)
        jacobian = self.jacobian(frames)
        change = self._least_squares(jacobian, error, pull)
        target = q + change
        bounded = self._clipped(target)
        beyond = bounded != target
        rows = Rows.of_mask(xp.any(beyond, axis=0) | (xp.max(xp.abs(change), axis=0) > MAX_CHANGE))
        if rows.is_empty:
            return bounded
        q, beyond, free = rows.of(q), rows.of(beyond), rows.of(~beyond)
        jacobian = [rows.of(row) for row in jacobian]
        to_limit = xp.where(beyond, rows.of(bounded) - q, xp.zeros_like(q))
        left = [rows.of(each) - total(row * to_limit, 0) for row, each in zip(jacobian, error, strict=True)]
        others = self._least_squares([row * free for row in jacobian], left, rows.of(pull) * free)
        change = to_limit + others
        scale = MAX_CHANGE / xp.clip(xp.max(xp.abs(change), axis=0), MAX_CHANGE, None)
        return rows.replaced(bounded, self._clipped(q + scale * change))

    def _clipped(self, q: Array) -> Array:
        return self._xp.minimum(self._xp.maximum(q, self._lower), self._upper)

    def _least_squares(self, rows: Sequence[Array], error: Sequence[Array], pull: Array) -> Array:
        """Return the changes `(J, N)` of an iteration without limits, for the rows of the Jacobian."""
        matrix = self._xp.stack([*rows, pull])
        # Products with the rows from this one on, and with the pull.
        system = [total(row * matrix[number:], 1) for number, row in enumerate(rows)]
        for row, component in zip(system, error, strict=True):
            row[0] += DAMPING**2
            row[-1] = component - row[-1]
        change = pull
        for row, value in zip(rows, solve_positive(system), strict=True):
            change = change + row * value
        return change


def quaternions(rotation: Array, held: FloatArray) -> Array:
    """Return unit quaternions `(4, N)` `(x, y, z, w)` of rotations `(3, 3, N)`, see `Frames.rotation`.

    They are less than half a turn from `held` `(3, 3)`, the rotation that the controller holds.
    """
    xp, matrix = namespace(rotation), constant(tuple(map(tuple, held.tolist())), rotation)
    # Relative to the held rotation w is large, so that the division is safe; r[j][i] is row i, column j.
    r = total(matrix[:, :, None, None] * rotation, 1)
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


def solve_positive(system: Sequence[Array]) -> list[Array]:
    """Solve symmetric positive definite systems of `n` equations by the decomposition L D Lᵀ.

    Args:
        system: `(n + 1 - i, N)` of each equation `i`: its coefficients from the diagonal on, then the right-hand side;
            they are overwritten.

    Returns:
        The solutions, entry by entry `(N,)`.
    """
    factors: list[Array] = []  # the columns of L below the diagonal
    solution: list[Array] = []
    for i, row in enumerate(system):
        inverse = 1.0 / row[0]
        factors.append(row[1:-1] * inverse)
        solution.append(row[-1] * inverse)
        for k, below in enumerate(system[i + 1 :]):
            below -= factors[i][k] * row[k + 1 :]
    for i in reversed(range(len(system) - 1)):
        for k in range(i + 1, len(system)):
            solution[i] = solution[i] - factors[i][k - i - 1] * solution[k]
    return solution


def total(array: Array, axis: int) -> Array:
    """Return the sums over an axis before the last, in the order of the axis, which does not depend on other axes."""
    if type(array) is np.ndarray and array.shape[-1] > 1:  # numpy then adds one row after another
        return array.sum(axis)
    rows = namespace(array).moveaxis(array, axis, 0)
    result = rows[0]
    for index in range(1, rows.shape[0]):
        result = result + rows[index]
    return result
