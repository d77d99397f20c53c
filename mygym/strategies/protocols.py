"""How a super-network may be passed, and what its numbers must be; without torch, as help shows them."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mygym.errors import ConfigError, bad_value

Protocol = Literal["single", "sum", "softmax", "gumbel_softmax"]
PROTOCOLS: tuple[Protocol, ...] = ("single", "sum", "softmax", "gumbel_softmax")
Units = Literal["whole", "blocks"]

SUM_TOLERANCE = 1e-4
"""By how much the sum of weights may differ from 1."""


def check_weights(key: str, weights: ArrayLike, candidates: int) -> NDArray[np.float32]:
    """Weights `(candidates,)` or `(layers, candidates)` of a sum.

    Raises:
        ConfigError: Another number of them, one below 0 or not finite, or a sum other than 1.
    """
    values = np.asarray(weights, dtype=np.float32)
    if values.ndim == 0 or values.shape[-1] != candidates:
        raise ConfigError(bad_value(key, weights, f"{candidates} numbers, one for each candidate"))
    if not np.isfinite(values).all() or (values < 0).any():
        raise ConfigError(bad_value(key, weights, "numbers of 0 or more"))
    if (np.abs(values.sum(-1) - 1.0) > SUM_TOLERANCE).any():
        raise ConfigError(bad_value(key, weights, "numbers whose sum is 1", "do not sum to 1"))
    return values


def check_tau(key: str, tau: float) -> None:
    """Refuse a temperature that is none.

    Raises:
        ConfigError: Not above 0.
    """
    if not 0 < tau < np.inf:
        raise ConfigError(bad_value(key, tau, "above 0"))


def usage_entropy(usage: NDArray[np.floating]) -> float:
    """Entropy of shares `(…, candidates)` by that of equal ones, mean of the layers: 1 all alike, 0 one does all."""
    count = usage.shape[-1]
    if count == 1:
        return 1.0
    held = np.where(usage > 0, usage, 1.0)
    return float(np.mean(-(held * np.log(held)).sum(-1) / np.log(count)))
