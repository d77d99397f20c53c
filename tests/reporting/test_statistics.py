"""Statistics against figures of the reference implementation, rliable 1.2.0, of Python's `statistics` and of SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import binomtest

from mygym.reporting.curves import STATISTICS
from mygym.reporting.statistics import (
    bootstrap_interval,
    can_differ,
    fisher_exact,
    paired_difference,
    performance_profile,
    probability_of_improvement,
    relative_medians,
    resamples,
    runs_needed,
    success_interval,
)

X = np.array([[0.746, 0.184, 0.752], [0.76, 0.489, 0.599], [0.214, 0.625, 0.576], [0.525, 0.998, 0.897],
              [0.323, 0.924, 0.726]])  # fmt: skip
Y = np.array([[0.944, 0.479, 0.78], [0.712, 0.251, 0.883], [0.338, 0.18, 0.455], [0.305, 0.497, 0.586],
              [0.963, 0.072, 0.256], [0.344, 0.752, 0.25], [0.906, 0.407, 0.496]])  # fmt: skip
REFERENCE = {
    "iqm": (0.644222, (0.504219, 0.763556)),
    "median": (0.625, (0.525, 0.752)),
    "mean": (0.622533, (0.5094, 0.733538)),
}
"""Aggregate of `X` and its interval after 20,000 resamples; the median over runs and tasks is that of `statistics`."""


@pytest.mark.parametrize("name", STATISTICS)
def test_aggregates_and_their_intervals_agree_with_the_reference(name: str) -> None:
    value, interval = REFERENCE[name]
    assert STATISTICS[name](X) == pytest.approx(value, abs=1e-6)
    assert bootstrap_interval(STATISTICS[name], X, count=20_000) == pytest.approx(interval, abs=0.01)


def test_the_probability_of_improvement_agrees_with_the_reference() -> None:
    assert probability_of_improvement(X, Y) == pytest.approx(0.619048, abs=1e-6)
    assert bootstrap_interval(probability_of_improvement, X, Y) == pytest.approx((0.438095, 0.790476), abs=0.03)
    assert probability_of_improvement(X, X[:, :]) == 0.5
    assert probability_of_improvement(X + 1, X) == 1


def test_the_performance_profile_agrees_with_the_reference() -> None:
    expected = [1.0, 0.866667, 0.733333, 0.333333, 0.133333]
    np.testing.assert_allclose(performance_profile(X, [0, 0.25, 0.5, 0.75, 0.9]), expected, atol=1e-6)


def test_resamples_stay_within_a_task() -> None:
    tasks = np.tile(np.arange(3.0), (5, 1))
    np.testing.assert_array_equal(resamples(tasks, np.random.default_rng(0), 50), np.tile(tasks, (50, 1, 1)))


def test_relative_medians_are_the_geometric_mean_over_tasks() -> None:
    """Half in one task and an eighth in the other are a quarter, between the ratios of the extreme seeds."""
    pairs = [([4, 5, 6], [8, 10, 12]), ([1, 1, 1], [8, 8, 8])]
    ratio, (low, high) = relative_medians([(np.array(own, float), np.array(first, float)) for own, first in pairs])
    assert ratio == pytest.approx(0.25)
    assert 0.2 < low < 0.25 < high < 0.31, "of the ratios 4 : 12 and 6 : 8"


def test_a_single_run_has_no_interval() -> None:
    assert all(math.isnan(bound) for bound in bootstrap_interval(STATISTICS["iqm"], X[:1]))


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_success_intervals_are_wilsons(counts: tuple[int, int]) -> None:
    successes, episodes = counts
    expected = binomtest(successes, episodes).proportion_ci(method="wilson")
    assert success_interval(successes, episodes) == pytest.approx((expected.low, expected.high), abs=1e-9)


def outcomes(both: int, first: int, second: int, neither: int) -> tuple[list[bool], list[bool]]:
    """Outcomes of the same episodes: solved by both, the first alone, the second alone, neither."""
    counts = {(True, True): both, (True, False): first, (False, True): second, (False, False): neither}
    rows = [outcome for outcome, count in counts.items() for _ in range(count)]
    return [row[0] for row in rows], [row[1] for row in rows]


@given(st.data())
def test_fishers_exact_test_agrees_with_scipy(data: st.DataObject) -> None:
    episodes = data.draw(st.tuples(st.integers(1, 200), st.integers(1, 200)), "episodes")
    first, second = (data.draw(st.integers(0, count), "successes") for count in episodes)
    table = [[first, episodes[0] - first], [second, episodes[1] - second]]
    assert fisher_exact((first, second), episodes) == pytest.approx(stats.fisher_exact(table).pvalue, rel=1e-9)


@pytest.mark.parametrize("episodes", [1, 5, 17, 33, 100])
def test_success_intervals_begin_at_0_and_end_at_1(episodes: int) -> None:
    assert success_interval(0, episodes).low == 0.0
    assert success_interval(episodes, episodes).high == 1.0


def test_paired_differences_have_newcombes_interval() -> None:
    """Calculated apart from the formulas of the paper; where all agree, the width is that of Wilson's interval."""
    difference, interval = paired_difference(*outcomes(36, 2, 12, 0))
    assert difference == pytest.approx(0.2)
    assert interval == pytest.approx((0.0569, 0.3404), abs=5e-5)
    difference, interval = paired_difference(*outcomes(14, 0, 5, 22))  # a strong association, with its correction
    assert (difference, *interval) == pytest.approx((5 / 41, 0.01148, 0.22649), abs=5e-5)
    difference, interval = paired_difference(*outcomes(36, 12, 2, 0))
    assert (difference, *interval) == pytest.approx((-0.2, -0.3404, -0.0569), abs=5e-5)
    z_squared = 3.8415
    half = z_squared / (100 + z_squared)
    for same in (outcomes(100, 0, 0, 0), outcomes(0, 0, 0, 100)):
        difference, interval = paired_difference(*same)
        assert (difference, *interval) == pytest.approx((0.0, -half, half), abs=1e-4)


def test_paired_differences_cover_the_truth() -> None:
    """Episodes of which many are hard in both: the interval that ignores the pairs would be twice as wide."""
    rng, covered, widths = np.random.default_rng(0), 0, []
    for _ in range(400):
        shared = rng.random(100) < 0.7
        first, second = shared & (rng.random(100) < 0.98), shared & (rng.random(100) < 0.9)
        difference, (low, high) = paired_difference(first, second)
        assert low <= difference <= high
        covered += low <= 0.7 * (0.9 - 0.98) <= high
        widths.append(high - low)
    assert covered / 400 >= 0.93
    assert np.mean(widths) < 0.17


def test_three_seeds_cannot_show_a_difference() -> None:
    assert runs_needed() == 4
    assert [can_differ(3, 3), can_differ(4, 4), can_differ(1, 50)] == [False, True, True]
