"""Statistics of few seeds: aggregates with stratified bootstrap intervals (Agarwal et al., 2021), and success rates.

Scores have the shape `(…, runs, tasks)`; every function also takes leading axes, e.g. those of resamples.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mygym.types import FloatArray

CONFIDENCE = 0.95
"""Confidence of every interval."""

RESAMPLES = 2_000
"""Bootstrap resamples of an interval."""

SIGNIFICANCE = 1 - CONFIDENCE
"""Largest probability, under equality, of a difference that counts as real."""


class Interval(NamedTuple):
    """Bounds of a value at `CONFIDENCE`."""

    low: float
    high: float


def iqm(scores: FloatArray) -> FloatArray:
    """Return the interquartile mean `(…)`: the mean of the middle half of all scores."""
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = flat.shape[-1] // 4
    return np.asarray(flat[..., cut : flat.shape[-1] - cut].mean(axis=-1))


def median(scores: FloatArray) -> FloatArray:
    """Return the median `(…)` of all scores; that of Agarwal et al. is over the tasks of the mean over the runs."""
    return np.asarray(np.median(scores, axis=(-2, -1)))


def mean(scores: FloatArray) -> FloatArray:
    """Return the mean `(…)`."""
    return np.asarray(scores.mean(axis=(-2, -1)))


def performance_profile(scores: FloatArray, thresholds: ArrayLike) -> FloatArray:
    """Return the share `(…, T)` of scores above each of the thresholds `(T,)`."""
    above = scores[..., None] > np.asarray(thresholds, dtype=float)
    return np.asarray(above.mean(axis=(-3, -2)))


def probability_of_improvement(scores: FloatArray, baseline: FloatArray) -> FloatArray:
    """Return the probability `(…)` that a run has a higher score than a run of the baseline, averaged over the tasks.

    Equal scores count half. The number of runs may differ, the number of tasks may not.
    """
    difference = scores[..., :, None, :] - baseline[..., None, :, :]
    return np.asarray((np.sign(difference).mean(axis=(-3, -2, -1)) + 1) / 2)


def resamples(scores: FloatArray, rng: np.random.Generator, count: int = RESAMPLES) -> FloatArray:
    """Return `(count, runs, tasks)`: bootstrap resamples of scores `(runs, tasks)`, stratified by task."""
    drawn = rng.integers(len(scores), size=(count, *scores.shape))
    return np.asarray(scores[drawn, np.arange(scores.shape[1])])


def bootstrap_interval(statistic: Callable[..., FloatArray], *scores: FloatArray, count: int = RESAMPLES) -> Interval:
    """Return the percentile interval of a statistic of one or more sets of scores `(runs, tasks)`.

    Each set is resampled independently. A single run gives no interval: both bounds are NaN.
    """
    if min(map(len, scores)) < 2:
        return Interval(math.nan, math.nan)
    rng = np.random.default_rng(0)
    values = statistic(*(resamples(each, rng, count) for each in scores))
    low, high = np.percentile(values, (50 * SIGNIFICANCE, 100 - 50 * SIGNIFICANCE))
    return Interval(float(low), float(high))


def relative_medians(pairs: Sequence[tuple[FloatArray, FloatArray]]) -> tuple[float, Interval]:
    """Return the geometric mean, over tasks, of the ratios of medians, and its percentile interval.

    Args:
        pairs: For each task values `(runs,)`, and those `(runs,)` to which they are relative. Each is resampled; a pair
            of single runs has no spread.
    """
    rng = np.random.default_rng(0)

    def log_medians(values: FloatArray) -> FloatArray:
        """Return the logarithms of the median of values `(runs,)`, and of the medians of their resamples."""
        drawn = values[rng.integers(len(values), size=(RESAMPLES, len(values)))]
        return np.log(np.append(np.median(values), np.median(drawn, axis=1)))

    ratio, *ratios = np.exp(np.mean([log_medians(own) - log_medians(first) for own, first in pairs], axis=0))
    low, high = np.percentile(ratios, (50 * SIGNIFICANCE, 100 - 50 * SIGNIFICANCE))
    return float(ratio), Interval(float(low), float(high))


def success_interval(successes: float, episodes: int) -> Interval:
    """Return Wilson's interval of a success rate over independent episodes; [0, 1] without episodes.

    For seeds that all reach 100 % a bootstrap would return a point; this interval knows the number of episodes.
    """
    if not episodes:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf(1 - SIGNIFICANCE / 2)
    rate, share = successes / episodes, z * z / episodes
    centre = (rate + share / 2) / (1 + share)
    half = z * math.sqrt(rate * (1 - rate) / episodes + share / episodes / 4) / (1 + share)
    return Interval(centre - half if successes > 0 else 0.0, centre + half if successes < episodes else 1.0)


def fisher_exact(successes: tuple[int, int], episodes: tuple[int, int]) -> float:
    """Return the two-sided p-value of Fisher's exact test on the successes of two policies in so many episodes each."""
    total = sum(successes)

    def ways(first: int) -> int:
        return math.comb(episodes[0], first) * math.comb(episodes[1], total - first)

    possible = map(ways, range(max(0, total - episodes[1]), min(total, episodes[0]) + 1))
    return sum(each for each in possible if each <= ways(successes[0])) / math.comb(sum(episodes), total)


def paired_difference(first: ArrayLike, second: ArrayLike) -> tuple[float, Interval]:
    """Return the success rate of `second` minus that of `first`, over the same episodes, and its interval.

    The interval is method 10 of Newcombe, "Improved confidence intervals for the difference between binomial
    proportions based on paired data", 1998: it joins the two intervals of Wilson by the correlation of the outcomes.
    Where no episode differs, a bootstrap would return a point; this interval knows the number of episodes.

    Args:
        first: `(N,)` bool: outcomes of the episodes.
        second: `(N,)` bool: outcomes of the same episodes in the other condition.
    """
    a, b = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    count, rate_a, rate_b = len(a), float(a.mean()), float(b.mean())
    both, neither = int((a & b).sum()), int((~a & ~b).sum())
    association = both * neither - int((a & ~b).sum()) * int((~a & b).sum())
    corrected = max(association - count / 2, 0.0) if association > 0 else float(association)
    spread = count**2 * math.sqrt(rate_a * (1 - rate_a) * rate_b * (1 - rate_b))
    correlation = corrected / spread if spread else 0.0
    (low_a, high_a), (low_b, high_b) = success_interval(a.sum(), count), success_interval(b.sum(), count)

    def joined(of_a: float, of_b: float) -> float:
        return math.sqrt(max(0.0, of_a**2 - 2 * correlation * of_a * of_b + of_b**2))

    difference = int(b.sum() - a.sum()) / count
    low = difference - joined(high_a - rate_a, rate_b - low_b)
    return difference, Interval(low, difference + joined(rate_a - low_a, high_b - rate_b))


def can_differ(runs: int, baseline_runs: int) -> bool:
    """Return whether the most extreme outcome of a permutation test of so many runs is significant."""
    return 2 / math.comb(runs + baseline_runs, runs) <= SIGNIFICANCE


def runs_needed() -> int:
    """Return the number of runs on each side from which a difference can be shown."""
    return next(runs for runs in itertools.count(1) if can_differ(runs, runs))
