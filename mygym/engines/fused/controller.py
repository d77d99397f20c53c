"""The controller `ee_delta` for a batch of arms: the constants and formulas are those of a single arm's controller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mygym.engines.arrays import Arrays
from mygym.robotics.controllers import EndEffectorDelta
from mygym.robotics.controllers.end_effector import IK_ITERATIONS, IK_TOLERANCE
from mygym.robotics.kinematics import (
    DAMPING,
    MAX_CHANGE,
    NULL_SPACE_GAIN,
    TOLERANCE,
    Chain,
    jacobian_column,
    pose_error,
)
from mygym.robotics.transforms import matrix_to_quaternion
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


CONTROLLERS = ("ee_delta",)
"""Controllers that the engine has."""


class BatchController:
    """Moves the commanded end-effector positions of a batch, and inverts them by damped least squares.

    Args:
        controller: The controller of a single arm: its parameters, bounds and chain.
        kinematics: Kinematics of the batch.
        arrays: Array library.
    """

    def __init__(self, controller: EndEffectorDelta, kinematics: BatchKinematics, arrays: Arrays) -> None:
        chain = controller.chain
        self._xp, self._kinematics = arrays.xp, kinematics
        self._step, self._lag = controller.step, controller.lag
        self._low, self._high = (arrays.floats(corner)[:, None] for corner in (controller.low, controller.high))
        self._home, self._lower, self._upper = (
            arrays.floats(values)[:, None] for values in (chain.home, chain.lower, chain.upper)
        )
        self._rotation: list[list[float]] = chain.rotation.tolist()

    def moved(self, ee_command: Array, action: Array, ee_position: Array) -> Array:
        """Return the commanded positions `(3, N)` m after an action, within lag and bounds.

        Args:
            ee_command: `(3, N)` m, last commanded positions.
            action: `(3, N)` in [-1, 1].
            ee_position: `(3, N)` m, measured.
        """
        xp = self._xp
        moved = ee_command + self._step * action
        near = xp.minimum(xp.maximum(moved, ee_position - self._lag), ee_position + self._lag)
        return xp.minimum(xp.maximum(near, self._low), self._high)

    def inverse(self, q: Array, position: Array) -> Array:
        """Return joint targets `(J, N)` rad for positions `(3, N)` m, from the last targets `(J, N)` rad.

        It computes the same as `Kinematics.inverse`, in which an arm stops as soon as its error is small.
        """
        xp = self._xp
        for iteration in range(IK_ITERATIONS):
            frames = self._kinematics.forward(q)
            error = pose_error(frames.rows(), [position[0], position[1], position[2]], self._rotation)
            largest = abs(error[0])
            for component in error[1:]:
                largest = xp.maximum(largest, abs(component))
            matrix = frames.jacobian()
            pull = NULL_SPACE_GAIN * (self._home - q)
            missing = [component - xp.sum(row * pull, axis=0) for component, row in zip(error, matrix, strict=True)]
            solved = solve_positive([_products(matrix, row) for row in range(6)], missing)
            change = pull
            for row, value in zip(matrix, solved, strict=True):
                change = change + row * value
            scale = MAX_CHANGE / xp.clip(xp.max(xp.abs(change), axis=0), MAX_CHANGE, None)
            # A share of 0 stands for an arm whose error is small.
            scale = scale * (largest >= (IK_TOLERANCE if iteration else TOLERANCE))
            q = xp.minimum(xp.maximum(q + scale * change, self._lower), self._upper)
        return q

    def action_towards(self, target: Array, ee_command: Array) -> Array:
        """Return the actions `(3, N)` from the commanded positions straight to targets, both `(3, N)` m."""
        xp = self._xp
        action = (target - ee_command) / self._step
        return action / xp.clip(xp.max(xp.abs(action), axis=0), 1.0, None)


def _products(matrix: Sequence[Array], row: int) -> list[Array]:
    """Return the products `(N,)` of a row of the Jacobian with the rows up to it; the diagonal with the damping."""
    products = [(matrix[row] * matrix[column]).sum(0) for column in range(row + 1)]
    products[row] = products[row] + DAMPING**2
    return products


def solve_positive(lower: Sequence[Sequence[Array]], right: Sequence[Array]) -> list[Array]:
    """Solve symmetric positive definite systems by the decomposition L D Lᵀ.

    Args:
        lower: Row `i` has the `i + 1` entries `(N,)` up to the diagonal.
        right: The right-hand sides, entry by entry `(N,)`.

    Returns:
        The solutions, entry by entry `(N,)`.
    """
    size = len(right)
    factors: list[list[Array]] = []
    inverses: list[Array] = []
    solution: list[Array] = []
    for i in range(size):
        scaled: list[Array] = []  # entries of L times D
        for j in range(i):
            value = lower[i][j]
            for k in range(j):
                value = value - scaled[k] * factors[j][k]
            scaled.append(value)
        factors.append([value * inverse for value, inverse in zip(scaled, inverses, strict=True)])
        diagonal, value = lower[i][i], right[i]
        for j in range(i):
            diagonal = diagonal - scaled[j] * factors[i][j]
            value = value - factors[i][j] * solution[j]
        inverses.append(1.0 / diagonal)
        solution.append(value)
    for i in reversed(range(size)):
        value = solution[i] * inverses[i]
        for k in range(i + 1, size):
            value = value - factors[k][i] * solution[k]
        solution[i] = value
    return solution
