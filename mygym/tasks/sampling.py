"""Seeded sampling of positions of objects and goals, so that no episode is solved at its reset."""

from __future__ import annotations

import numpy as np

from mygym.errors import ConfigError, bad_value
from mygym.tasks.state import namespace
from mygym.types import Array, FloatArray

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


def sample_batch(numbers: Array, area: Area, away_from: Array, distance: float) -> Array:
    """Return points `(3, N)` in `area`, at least `distance` metres from `away_from`, for a batch of episodes.

    It is the twin of `sample_in`: each episode takes the first of its candidates that is far enough, or else the corner
    that is farthest from `away_from`, which must be far enough.

    Args:
        numbers: `(K, 3, N)` random numbers in [0, 1): `K` candidates for each episode.
        area: The box.
        away_from: `(3,)` m, or `(3, N)` m for points of each episode.
        distance: m.
    """
    xp = namespace(numbers)
    low, high = area[0].tolist(), area[1].tolist()
    zero = xp.zeros_like(numbers[0, 0])
    origin = [zero + (float(value) if value.ndim == 0 else value) for value in away_from]
    points = xp.stack([xp.where(abs(low[i] - origin[i]) > abs(high[i] - origin[i]), low[i], high[i]) for i in range(3)])
    points = xp.astype(points, numbers.dtype)
    for candidate in reversed(range(numbers.shape[0])):
        point = xp.stack([low[i] + numbers[candidate, i] * (high[i] - low[i]) for i in range(3)])
        squares = [(point[i] - origin[i]) ** 2 for i in range(3)]
        points = xp.where(squares[0] + squares[1] + squares[2] >= distance * distance, point, points)
    return points
