"""The three rewards. `sparse` and `dense` depend on goal vectors alone; `staged` adds the stages' potential."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mygym.tasks.goals import GoalSpace, goal_distance, goal_reached
from mygym.tasks.state import Array, namespace

KINDS = ("sparse", "dense", "staged")


def sparse(space: GoalSpace, achieved: Array, desired: Array) -> Array:
    """`(…)`: 0 where the goal is reached, −1 elsewhere."""
    xp = namespace(achieved)
    return xp.where(goal_reached(space, achieved, desired), 0.0, -1.0)


def dense(space: GoalSpace, achieved: Array, desired: Array) -> Array:
    """`(…)`: minus the distance to the goal in metres."""
    return -goal_distance(space, achieved, desired)


def shaping(before: Array, after: Array, gamma: float) -> Array:
    """`(…)`: γΦ′ − Φ, which leaves the best policy unchanged (Ng, Harada and Russell, 1999)."""
    return gamma * after - before


GOAL_REWARDS: Mapping[str, Callable[[GoalSpace, Array, Array], Array]] = {
    "sparse": sparse,
    "dense": dense,
    "staged": sparse,
}
"""The part of each reward that hindsight can relabel."""
