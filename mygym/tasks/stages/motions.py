"""Building blocks of experts and potentials; batched, numpy and torch alike."""

from __future__ import annotations

import math

from mygym.tasks.context import StageContext
from mygym.tasks.predicates import distance, length
from mygym.tasks.state import namespace
from mygym.types import Array

OVER, OVER_BESIDE, BESIDE = 0.02, 0.025, 0.04
"""m, horizontal: a tool this near is over its target, or over a place farther than `BESIDE` from it: a short arm gets
nearer to a place behind an object only as it goes down."""

CRUISE, CRUISE_TO_HANDLE = 0.10, 0.05
"""m above an object, or above a handle (which may be as high as the arm reaches), at which the tool travels."""


STAND_SHARE = 0.3
"""Share of the potential of a pushing stage that rewards the position from which the tool pushes."""

STAND_RADIUS, STAND_HALF = 0.02, 0.1
"""m from the position from which the tool pushes: full reward within the first, half beyond it by the second."""

TRAVEL, FARTHEST = 0.3, 0.6
"""m from the goal of an object that travels: at the first half of the slow half of its progress is left; the
logarithmic half ends at the second."""

TOLERANCES = 6.0
"""Tolerances away from the goal at which half of the progress is left."""


def closeness(away: Array, half: Array | float) -> Array:
    """Return 1 at distance 0, 0.5 at the distance `half`, and less everywhere farther: it always has a slope."""
    return half / (half + away)


def closeness_outside(away: Array, radius: float, half: float) -> Array:
    """Return the closeness for the distance beyond `radius`: 1 within it, so that hovering earns no more."""
    return closeness(namespace(away).maximum(away - radius, 0.0), half)


def progress_to_goal(context: StageContext, away: Array) -> Array:
    """`(N,)`: 1 at the goal, 0.5 at 6 tolerances from it; linear between, because the whole way must be worth it.

    `away` `(N,)` is the distance from the goal, in the unit of the tolerance.
    """
    return progress(away, TOLERANCES * context.thresholds.tolerance)


def progress(away: Array, half: Array | float) -> Array:
    """`(N,)`: 1 at distance 0, 0.5 at the distance `half`; linear between, slower beyond."""
    xp = namespace(away)
    return xp.where(away < half, 1.0 - 0.5 * away / half, 0.5 * half / xp.maximum(away, half))


def travel_progress(away: Array, near: float) -> Array:
    """`(N,)`: progress of an object that travels far and must stop precisely, `away` `(N,)` m from its goal.

    One half falls slowly over the whole way, the other half logarithmically: each halving of a distance beyond `near` m
    counts about the same.
    """
    xp = namespace(away)
    precise = 1.0 - xp.log(1.0 + xp.minimum(away, FARTHEST) / near) / math.log(1.0 + FARTHEST / near)
    return 0.5 * precise + 0.5 * progress(away, TRAVEL)


def with_stand(context: StageContext, progress: Array, stand: Array) -> Array:
    """`(N,)`: a pushing stage's potential: the progress of the object or part, and the closeness of the tool.

    `progress` `(N,)` is in [0, 1], and `stand` `(N, 3)` m the position from which the tool pushes.
    """
    stands = closeness_outside(distance(context.ee_position, stand), STAND_RADIUS, STAND_HALF)
    return (1.0 - STAND_SHARE) * progress + STAND_SHARE * stands


def with_height(position: Array, height: Array) -> Array:
    """`(N, 3)` m: `position` with another height `(N,)`."""
    xp = namespace(position)
    return xp.concat([position[:, :2], height[:, None]], axis=-1)


def lifted(position: Array, by: Array | float) -> Array:
    """`(N, 3)` m: `position` moved up by `by` m, a number or `(N,)`."""
    return with_height(position, position[:, 2] + by)


def flat(vector: Array) -> Array:
    """`(N, 3)`: horizontal component of `vector` `(N, 3)`."""
    return with_height(vector, namespace(vector).zeros_like(vector[:, 2]))


def planar_distance(a: Array, b: Array) -> Array:
    """`(N,)` m: horizontal distance."""
    return distance(a[:, :2], b[:, :2])


def limited(start: Array, end: Array, largest: Array | float) -> Array:
    """`(N, 3)` m: the point towards `end` that is at most `largest` m, a number or `(N, 1)`, from `start`."""
    xp = namespace(start)
    away = distance(start, end)[:, None]
    return start + (end - start) * xp.minimum(largest / xp.maximum(away, 1e-9), 1.0)


def over_then_down(context: StageContext, position: Array) -> Array:
    """`(N, 3)` m: the next target on the way to `position`: above the object until over it, then down onto it."""
    xp = namespace(position)
    cruise = context.target[:, 2] + (CRUISE if context.bound.part is None else CRUISE_TO_HANDLE)
    is_beside = xp.astype(planar_distance(position, context.target) > BESIDE, position.dtype)
    is_far = planar_distance(context.ee_position, position) > OVER + (OVER_BESIDE - OVER) * is_beside
    return with_height(position, xp.where(is_far, xp.maximum(cruise, position[:, 2]), position[:, 2]))


def behind_object(context: StageContext, by: float) -> Array:
    """`(N, 3)` m: beside the object, `by` metres from its centre, on the side away from the goal."""
    return context.object_position - by * horizontal(context.goal - context.object_position)


def horizontal(vector: Array) -> Array:
    """`(N, 3)`: unit vector along the horizontal component of `vector` `(N, 3)`."""
    along = flat(vector)
    return along / namespace(vector).maximum(length(along)[:, None], 1e-6)
