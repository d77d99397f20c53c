"""Goal vectors: what a task achieves in the end, as numbers that rewards can be computed from alone.

A goal vector is a position in metres (of the object if the task places it, else of the end effector, relative to the
object if there is one), followed by one flag for each fact that later stages give (released, held, withdrawn).
"""

from __future__ import annotations

from dataclasses import dataclass

from mygym.tasks.facts import FACTS
from mygym.tasks.state import Array, State, namespace
from mygym.tasks.task import Task

BOUND = 5.0
"""Every number of a goal vector is within ± this."""

FLAG_METRES = 0.1
"""What a wrong flag adds to the distance of the dense reward, in metres."""


@dataclass(frozen=True)
class GoalSpace:
    """How a task's goal vectors are made up."""

    position: str
    """`object`, `end_effector`, or `end_effector_from_object`."""
    flags: tuple[str, ...]
    """Facts that must hold besides the position."""

    @property
    def size(self) -> int:
        """Length of a goal vector."""
        return 3 + len(self.flags)


def goal_space(task: Task) -> GoalSpace:
    """The goal vectors of `task`, derived from the facts that its stages leave behind."""
    gives = task.plan.gives
    if "placed" in gives:
        position, since = "object", gives["placed"]
    else:
        position, since = ("end_effector_from_object" if task.has_object else "end_effector"), gives.get("near", -1)
    return GoalSpace(
        position, tuple(fact for fact, giver in sorted(gives.items(), key=lambda g: g[1]) if giver > since)
    )


def achieved_goal(space: GoalSpace, task: Task, state: State, goal: Array) -> Array:
    """`(N, size)`: what has been achieved in `state`."""
    xp = namespace(state.time)
    if space.position == "object":
        position = state.object_position[:, 0]
    elif space.position == "end_effector":
        position = state.ee_position
    else:
        position = state.ee_position - state.object_position[:, 0]
    if not space.flags:
        return position
    flags = [xp.astype(FACTS[fact].begins(state, goal, task.thresholds), position.dtype) for fact in space.flags]
    return xp.concat([position, xp.stack(flags, axis=-1)], axis=-1)


def desired_goal(space: GoalSpace, goal: Array) -> Array:
    """`(N, size)`: what is to be achieved, from the target position `(N, 3)` in the world frame."""
    xp = namespace(goal)
    position = xp.zeros_like(goal) if space.position == "end_effector_from_object" else goal
    return xp.concat([position, xp.ones((goal.shape[0], len(space.flags)), dtype=goal.dtype)], axis=-1)


def goal_distance(achieved: Array, desired: Array) -> Array:
    """Metres between goal vectors `(…, size)`, a wrong flag counting as `FLAG_METRES`."""
    difference = achieved - desired
    away = (difference[..., :3] * difference[..., :3]).sum(-1) ** 0.5
    if difference.shape[-1] == 3:
        return away
    return away + FLAG_METRES * abs(difference[..., 3:]).sum(-1)


def goal_reached(achieved: Array, desired: Array, tolerance: float) -> Array:
    """Bool `(…)`: position within `tolerance` and every flag right."""
    difference = achieved - desired
    at = (difference[..., :3] * difference[..., :3]).sum(-1) < tolerance * tolerance
    if difference.shape[-1] == 3:
        return at
    return at & (abs(difference[..., 3:]) < 0.5).all(-1)
