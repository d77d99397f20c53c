"""Randomized parameters of a batch of episodes: a table of draws, delayed and noisy actions, noise of observations.

Each episode has the parameters of a row of the table. The row and all noise follow from the seed of the environment,
the number of the episode and the step, so a saved run needs none of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from mygym.fused.arrays import Arrays, Rows, to_numpy
from mygym.fused.random_numbers import normal, uniform
from mygym.types import Array, FloatArray

Table = Mapping[str, FloatArray]
"""Field of `EpisodeRandomization` → `(K,)` values, or `(J, K)` for values of each joint; only the fields that vary."""

FIELDS = ("object_friction", "object_damping", "joint_gain", "action_delay", "action_noise", "observation_noise")
"""Fields that the engine represents."""

ROW = 0
"""Stream of the random number that selects the row. In a step, actions and observations have the next two."""


class BatchRandomization:
    """The randomization of `N` episodes; `begin` must precede every other use.

    Args:
        table: The draws.
        action_size: `A`.
        count: `N`.
        arrays: Array library.
    """

    def __init__(self, table: Table, action_size: int, count: int, arrays: Arrays) -> None:
        self._arrays, self._table = arrays, {name: arrays.floats(values) for name, values in table.items()}
        self._rows = len(next(iter(table.values())).T)
        self.values = {name: values[..., :1] + arrays.zeros(count) for name, values in self._table.items()}
        """Field → `(N,)`, or `(J, N)` for values of each joint."""
        steps = int(table["action_delay"].max()) if "action_delay" in table else 0
        self._hold = arrays.zeros(action_size, 1)
        self._hold[3:] = 1.0  # the action that DomainRandomizer.start gives: stay, with open fingers
        self.delayed = self._hold + arrays.zeros(steps, 1, count)
        """`(D, A, N)`: the last actions, the newest first."""

    def begin(self, rows: Rows, seeds: Array, numbers: Array) -> None:
        """Draw the parameters of episodes that begin.

        Args:
            rows: Their environments.
            seeds: `(N,)` int64 of all environments, see `uniform`.
            numbers: `(N,)` int64 of all environments: numbers of the episodes.
        """
        xp = self._arrays.xp
        row = xp.astype(uniform(rows.of(seeds), rows.of(numbers), 1, ROW)[0] * self._rows, xp.int64)
        for name, values in self._table.items():
            self.values[name] = rows.replaced(self.values[name], values[..., row])
        self.delayed = rows.replaced(self.delayed, self._hold)

    def act(self, action: Array, seeds: Array, numbers: Array, elapsed: Array) -> Array:
        """Return the actions `(A, N)` that take effect in the step of the actions `action` `(A, N)`.

        Args:
            action: The actions.
            seeds: `(N,)` int64.
            numbers: `(N,)` int64: numbers of the episodes.
            elapsed: `(N,)` int64: control steps before this step.
        """
        xp, delay = self._arrays.xp, self.values.get("action_delay")
        if (deviation := self.values.get("action_noise")) is not None:
            action = action + deviation * normal(seeds, numbers, action.shape[0], 2 * elapsed + 1)
        if delay is None or not self.delayed.shape[0]:
            return action
        taken = action
        for steps in range(1, self.delayed.shape[0] + 1):
            taken = xp.where(delay == steps, self.delayed[steps - 1], taken)
        self.delayed = xp.concat([action[None], self.delayed[:-1]])
        return taken

    def noise(self, measured: Array, seeds: Array, numbers: Array, elapsed: Array) -> Array | None:
        """Return the noise `(N, d)` of observations, or None.

        Args:
            measured: `(d,)`: 1 for values with noise, else 0.
            seeds: `(N,)` int64.
            numbers: `(N,)` int64: numbers of the episodes.
            elapsed: `(N,)` int64: control steps before the observation.
        """
        deviation = self.values.get("observation_noise")
        if deviation is None:
            return None
        noise: Array = deviation * normal(seeds, numbers, measured.shape[0], 2 * elapsed + 2)
        return noise.T * measured

    def variables(self) -> list[Array]:
        """Return the arrays that a step reads and may replace, in the order of `set_variables`."""
        return [*self.values.values(), self.delayed]

    def set_variables(self, arrays: Iterator[Array]) -> None:
        """Replace the arrays of `variables` by the next of `arrays`."""
        self.values = {name: next(arrays) for name in self.values}
        self.delayed = next(arrays)

    def state_dict(self) -> dict[str, Array]:
        """Return all that does not follow from seeds, numbers and steps."""
        return {"delayed": to_numpy(self.delayed).copy()}

    def load_state_dict(self, state: Mapping[str, Array], seeds: Array, numbers: Array) -> None:
        """Restore a `state_dict` of episodes `(N,)`."""
        self.begin(Rows.of_mask(numbers < math.inf), seeds, numbers)
        self.delayed = self._arrays.floats(state["delayed"])
