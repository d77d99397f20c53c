"""Where an episode's objects and goal are: seeded, and never solved at the reset."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mygym.errors import ConfigError, bad_value

Area = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Lowest and highest corner `(3,)` of a box in the world frame, m."""

TRIES = 200


def sample_in(
    rng: np.random.Generator, area: Area, away_from: NDArray[np.float64] | None = None, distance: float = 0.0
) -> NDArray[np.float64]:
    """A point `(3,)` uniform in `area`, at least `distance` metres from `away_from`.

    Raises:
        ConfigError: The area has no such point, or hardly any.
    """
    low, high = area
    for _ in range(TRIES):
        point = low + rng.random(3) * (high - low)
        if away_from is None:
            return point
        difference = point - away_from
        if difference @ difference >= distance * distance:
            return point
    where = f"{low.round(3).tolist()} … {high.round(3).tolist()}"
    why = f"has no point at least {distance:.2f} m from {away_from.round(3).tolist() if away_from is not None else ''}"
    raise ConfigError(bad_value("task_params.areas", where, "a larger area", why))
