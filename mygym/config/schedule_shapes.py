"""The built-in shapes of schedules."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

from mygym.config.schedules import register_schedule


def _between(first: float, last: float, share: float) -> float:
    """Interpolate from `first` at 0 to `last` at 1; exact at both ends, and never outside them."""
    return last if share >= 1.0 else _clipped(first + (last - first) * share, first, last)


def _clipped(value: float, first: float, last: float) -> float:
    """Return `value` clipped to both ends, because rounding may exceed them."""
    return min(max(value, min(first, last)), max(first, last))


@register_schedule("constant")
def constant(value: float) -> float:
    """Constant value."""
    return value


@register_schedule("linear")
def linear(progress: float, from_: float, to: float) -> float:
    """Linear change: the same amount in each step."""
    return _between(from_, to, progress)


@register_schedule("exponential")
def exponential(progress: float, from_: float, to: float) -> float:
    """Exponential change: the same factor in each step; both ends above 0."""
    if from_ <= 0 or to <= 0:
        raise ValueError("needs ends above 0")
    if progress <= 0.0 or progress >= 1.0:  # exact at both ends
        return from_ if progress <= 0.0 else to
    return _clipped(math.exp(_between(math.log(from_), math.log(to), progress)), from_, to)


@register_schedule("cosine")
def cosine(progress: float, from_: float, to: float) -> float:
    """Half a cosine: slow at both ends, fast in the middle."""
    return _between(from_, to, (1.0 - math.cos(math.pi * progress)) / 2.0)


@register_schedule("inverse")
def inverse(progress: float, from_: float, to: float) -> float:
    """Decay as 1/(1 + k·steps) that ends at `to`: fast at first, then slow; both ends above 0."""
    if from_ <= 0 or to <= 0:
        raise ValueError("needs ends above 0")
    return to if progress >= 1.0 else _clipped(from_ / (1.0 + (from_ / to - 1.0) * progress), from_, to)


@register_schedule("piecewise")
def piecewise(env_steps: int, points: Sequence[tuple[int, float]]) -> float:
    """Linear interpolation between points [env steps, value]; constant before the first and after the last."""
    index = bisect_right(points, env_steps, key=lambda point: point[0])
    if index == 0:
        return points[0][1]
    if index == len(points):
        return points[-1][1]
    (before, first), (after, last) = points[index - 1], points[index]
    return _between(first, last, (env_steps - before) / (after - before))
