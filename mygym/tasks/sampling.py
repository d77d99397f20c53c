"""Seeded sampling of positions of objects and goals, so that no episode is solved at its reset."""

from __future__ import annotations

import numpy as np

from mygym.errors import ConfigError, bad_value
from mygym.types import FloatArray

Area = tuple[FloatArray, FloatArray]
"""Lowest and highest corner `(3,)` of a box in the world frame, m."""

TRIES = 200
"""Samples before the farthest corner is taken."""


def sample_in(
    rng: np.random.Generator, area: Area, away_from: FloatArray | None = None, distance: float = 0.0
) -> FloatArray:
    """Sample a point `(3,)` uniformly in `area`, at least `distance` metres from `away_from`.

    If `TRIES` samples are too close, it is the corner that is farthest from `away_from`.

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
    corners = f"{low.round(3).tolist()} … {high.round(3).tolist()}"
    why = f"has no point at least {distance:.2f} m from {away_from.round(3).tolist()}, to start unsolved"
    raise ConfigError(bad_value("task_params.areas", corners, "a larger area, or a smaller tolerance", why))


def _is_away(point: FloatArray, center: FloatArray, distance: float) -> bool:
    difference = point - center
    return bool(difference @ difference >= distance * distance)
