"""Sampling of points: in their area, away from the start, seeded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.envs.placement import sample_in
from mygym.errors import ConfigError

COORDINATES = st.tuples(*[st.floats(-0.5, 0.5)] * 3)


@given(
    low=COORDINATES,
    size=st.tuples(*[st.floats(0, 0.5)] * 3),
    start=COORDINATES,
    far=st.floats(0, 0.4),
    seed=st.integers(0, 99),
)
def test_a_sample_is_in_the_area_and_away_from_the_start(low, size, start, far: float, seed: int) -> None:
    low, high = np.array(low), np.array(low) + np.array(size)
    try:
        point = sample_in(np.random.default_rng(seed), (low, high), np.array(start), far)
    except ConfigError:
        corner = np.where(np.array(start) < (low + high) / 2, high, low)
        assert np.linalg.norm(corner - start) <= far
        return
    assert (point >= low).all()
    assert (point <= high).all()
    assert np.linalg.norm(point - start) >= far - 1e-9


def test_samples_are_seeded() -> None:
    box = (np.zeros(3), np.ones(3))
    points = [sample_in(np.random.default_rng(7), box, np.full(3, 0.5), 0.3) for _ in range(2)]
    np.testing.assert_array_equal(*points)


def test_samples_cover_the_area() -> None:
    rng = np.random.default_rng(0)
    points = np.array([sample_in(rng, (np.zeros(3), np.ones(3))) for _ in range(500)])
    assert (points.min(axis=0) < 0.05).all()
    assert (points.max(axis=0) > 0.95).all()


def test_an_area_that_is_too_small_is_refused() -> None:
    with pytest.raises(ConfigError, match="areas"):
        sample_in(np.random.default_rng(0), (np.zeros(3), np.full(3, 0.01)), np.zeros(3), 0.1)
