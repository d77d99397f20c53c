"""The controller `ee_delta` for a batch of arms: the constants and formulas are those of a single arm's controller."""

from __future__ import annotations

from collections.abc import Sequence

from mygym.fused.arrays import Arrays
from mygym.fused.kinematics import BatchKinematics
from mygym.models.controllers import EndEffectorDelta
from mygym.models.controllers.end_effector import IK_ITERATIONS, IK_TOLERANCE
from mygym.models.kinematics import DAMPING, MAX_CHANGE, NULL_SPACE_GAIN, TOLERANCE
from mygym.models.pose_error import pose_error
from mygym.types import Array

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
