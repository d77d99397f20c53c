"""Discrete actions: a wrapper of any controller whose actions select commands from a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mygym.config.schema import ActionParams
from mygym.errors import ConfigError, bad_value
from mygym.types import FloatArray

MAX_ACTIONS = 1000
"""Largest number of combined actions: a value network has an output for each, and must try each."""

GRIPPER_VALUES = 2
"""Number of values of a gripper: closed and open."""


class DiscreteActions:
    """Actions that select one of several values for each component of a command.

    Args:
        names: Name of each component of a command `(A,)`; the names of grippers end with `gripper`.
        values: Number of values of each component, evenly spaced in [-1, 1]; a gripper has two.
        combined: Whether an action is a single number for a combination of values (`Discrete`), or has a number for
            each component (`MultiDiscrete`).

    Raises:
        ConfigError: More than `MAX_ACTIONS` combinations.
    """

    def __init__(self, names: Sequence[str], values: int, combined: bool) -> None:
        counts = [GRIPPER_VALUES if name.endswith("gripper") else values for name in names]
        combinations = math.prod(counts)
        if combined and combinations > MAX_ACTIONS:
            why = f"gives {combinations} combinations of {len(counts)} components"
            allowed = f"fewer values, another control, or actions.combined: false; at most {MAX_ACTIONS} combinations"
            raise ConfigError(bad_value("actions.discrete", values, allowed, why))
        self.counts = np.array(counts, dtype=np.int64)
        """`(A,)`: number of values of each component."""
        self.space: spaces.Discrete | spaces.MultiDiscrete = (
            spaces.Discrete(combinations) if combined else spaces.MultiDiscrete(self.counts)
        )

    def command(self, action: Any) -> FloatArray:
        """Return the command `(A,)` in [-1, 1] that an action selects.

        Raises:
            ValueError: The action is not in the space.
        """
        if not self.space.contains(action):
            raise ValueError(f"action {action!r:.100} is not in {self.space}")
        return self.commands(np.asarray(action))

    def commands(self, actions: NDArray[Any]) -> FloatArray:
        """Return the commands `(N, A)` of a batch of actions `(N,)` or `(N, A)`.

        Raises:
            ValueError: An action is not in the space.
        """
        combined = isinstance(self.space, spaces.Discrete)
        limits = self.counts.prod() if combined else self.counts
        if actions.dtype.kind not in "iu" or not ((actions >= 0) & (actions < limits)).all():
            raise ValueError(f"action {actions.tolist()!r:.100} is not in {self.space}")
        numbers = np.stack(np.unravel_index(actions, self.counts), axis=-1) if combined else actions
        return 2.0 * numbers / (self.counts - 1) - 1.0

    def nearest(self, command: FloatArray) -> NDArray[np.int64]:
        """Return the action whose command is nearest to a command `(A,)`; values outside [-1, 1] are clipped."""
        numbers = np.rint((np.clip(command, -1.0, 1.0) + 1.0) / 2.0 * (self.counts - 1)).astype(np.int64)
        if isinstance(self.space, spaces.Discrete):
            return np.asarray(np.ravel_multi_index(tuple(numbers), tuple(self.counts)), dtype=np.int64)
        return numbers


def discrete_actions(params: ActionParams, names: Sequence[str]) -> DiscreteActions | None:
    """Return the discrete actions of a config for components with these names; None for continuous actions.

    Raises:
        ConfigError: Continuous actions cannot be combined, or the combinations are too many.
    """
    if params.discrete is not None:
        return DiscreteActions(names, params.discrete, params.combined)
    if params.combined:
        why = "needs discrete actions"
        raise ConfigError(bad_value("actions.combined", True, "false, or a number for actions.discrete", why))
    return None
