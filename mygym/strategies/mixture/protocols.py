"""Forward protocols of super-networks, and checks of their numbers; without torch, because help texts import it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mygym.errors import ConfigError, bad_value

Protocol = Literal["single", "sum", "softmax", "gumbel_softmax"]
PROTOCOLS: tuple[Protocol, ...] = ("single", "sum", "softmax", "gumbel_softmax")
Units = Literal["whole", "blocks"]

SUM_TOLERANCE = 1e-4
"""Maximum difference of a sum of weights from 1."""


def check_candidates(key: str, candidates: int | list[Any] | None, units: Units) -> int | None:
    """Check a number of candidates, or a list of their `net_arch`; return their number.

    Raises:
        ConfigError: Fewer than one candidate, an invalid `net_arch`, or different sizes with units `blocks`.
    """
    archs = candidates if isinstance(candidates, list) else []
    count = len(candidates) if isinstance(candidates, list) else candidates
    if count is not None and count < 1:
        raise ConfigError(bad_value(key, candidates, "1 or more"))
    for number, arch in enumerate(archs):
        if not _is_arch(arch):
            allowed = "sizes of its hidden layers, each 1 or more, e.g. [64, 64]; or a mapping {pi: …, qf: …}"
            raise ConfigError(bad_value(f"{key}.{number}", arch, allowed))
    if archs and units == "blocks":
        why = "sets a size for each candidate, but layers that are chosen one by one must have equal sizes"
        raise ConfigError(bad_value(key, candidates, "a number, or units whole", why))
    return count


def _is_arch(arch: Any) -> bool:
    """Return whether `arch` is a `net_arch` that SB3 can build."""
    if isinstance(arch, Mapping):
        return all(isinstance(sizes, list) and _is_arch(sizes) for sizes in arch.values())
    return isinstance(arch, list) and all(type(size) is int and size > 0 for size in arch)


def check_weights(key: str, weights: ArrayLike, candidates: int) -> NDArray[np.float32]:
    """Check the weights of protocol `sum` and return them as an array `(candidates,)` or `(layers, candidates)`.

    Raises:
        ConfigError: A wrong number of weights, a weight below 0 or not finite, or a sum other than 1.
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
    """Check a temperature.

    Raises:
        ConfigError: The temperature is not above 0.
    """
    if not 0 < tau < np.inf:
        raise ConfigError(bad_value(key, tau, "above 0"))


def usage_entropy(usage: NDArray[np.floating]) -> float:
    """Return the normalised entropy of usage shares `(…, candidates)`, averaged over layers.

    1: all candidates are used equally. 0: one candidate does everything.
    """
    count = usage.shape[-1]
    if count == 1:
        return 1.0
    positive = np.where(usage > 0, usage, 1.0)
    return float(np.mean(-(positive * np.log(positive)).sum(-1) / np.log(count)))
