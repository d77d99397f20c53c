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

    Where hardly any are that far away it is the corner that is farthest.

    Raises:
        ConfigError: The area has no such point.
    """
    low, high = area
    for _ in range(TRIES):
        point = low + rng.random(3) * (high - low)
        if away_from is None or _is_away(point, away_from, distance):
            return point
    assert away_from is not None
    corner = np.where(np.abs(low - away_from) > np.abs(high - away_from), low, high)
    if _is_away(corner, away_from, distance):
        return corner
    where = f"{low.round(3).tolist()} … {high.round(3).tolist()}"
    why = f"has no point at least {distance:.2f} m from {away_from.round(3).tolist()}, where nothing is solved yet"
    raise ConfigError(bad_value("task_params.areas", where, "a larger area, or a smaller tolerance", why))


def _is_away(point: NDArray[np.float64], place: NDArray[np.float64], distance: float) -> bool:
    difference = point - place
    return bool(difference @ difference >= distance * distance)
