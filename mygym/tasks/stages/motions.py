"""What experts and potentials are put together from; batched, numpy and torch alike."""

from __future__ import annotations

from mygym.tasks.context import StageContext
from mygym.tasks.predicates import distance, length
from mygym.tasks.state import namespace
from mygym.types import Array

CRUISE, CRUISE_TO_HANDLE = 0.10, 0.05
"""m above an object, or above a handle (which may be as high as the arm reaches), at which the tool flies there."""


def share_covered(left: Array, at_start: Array) -> Array:
    """1 − left / at_start within [0, 1]."""
    xp = namespace(left)
    return 1.0 - xp.clip(left / xp.clip(at_start, 1e-6, None), 0.0, 1.0)


def with_height(position: Array, height: Array) -> Array:
    """`(N, 3)`: the same place at another height `(N,)`."""
    xp = namespace(position)
    return xp.stack([position[:, 0], position[:, 1], height], axis=-1)


def lifted(position: Array, by: Array | float) -> Array:
    """`(N, 3)`: straight above, by metres or `(N,)` of them."""
    return with_height(position, position[:, 2] + by)


def planar_distance(a: Array, b: Array) -> Array:
    """`(N,)` m, seen from above."""
    return distance(a[:, :2], b[:, :2])


def limited(start: Array, end: Array, step: Array | float) -> Array:
    """The point at most `step` metres (or `(N, 1)` of them) from `start` on the way to `end`."""
    xp = namespace(start)
    away = distance(start, end)[:, None]
    return start + (end - start) * xp.clip(step / xp.clip(away, 1e-9, None), None, 1.0)


def over_then_down(context: StageContext, there: Array) -> Array:
    """Fly to `there` above the target and come down beside or onto it, so that nothing is knocked on the way."""
    xp = namespace(there)
    cruise = context.target[:, 2] + (CRUISE if context.bound.part is None else CRUISE_TO_HANDLE)
    above = planar_distance(context.ee_position, there) > 0.02
    return with_height(there, xp.where(above, xp.maximum(cruise, there[:, 2]), there[:, 2]))


def behind_object(context: StageContext, by: float) -> Array:
    """`(N, 3)`: beside the object, `by` metres from its centre, on the side that faces away from the goal."""
    return context.object_position - by * horizontal(context.goal - context.object_position)


def horizontal(way: Array) -> Array:
    """`(N, 3)`: unit vector along the horizontal part of a way `(N, 3)`."""
    xp = namespace(way)
    flat = with_height(way, xp.zeros_like(way[:, 0]))
    return flat / xp.clip(length(flat)[:, None], 1e-6, None)
