"""Goal vectors: what a task achieves in the end, as numbers that rewards can be computed from alone.

They are put together from what the stages leave behind. Of each sub-task: a position in metres (of the object if it is
placed, else of the end effector, relative to the object if there is one; of a part its one number, m or rad), the
cosine and sine of the object's heading if it is turned, and a flag for each fact that comes with or after the position
(released, held, withdrawn, thrown).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from array_api_compat import device

from mygym.tasks.context import BoundStage, StageContext
from mygym.tasks.predicates import PREDICATES, length
from mygym.tasks.progress import Progress
from mygym.tasks.state import State, namespace
from mygym.tasks.task import Task
from mygym.types import Array

BOUND = 5.0
"""Every number of a goal vector is within ± this."""

FLAG_METRES = 0.1
"""What a wrong flag adds to the distance of the dense reward, in metres."""

ANGLE_METRES = 0.1
"""What a radian of a wrong heading adds to it, about."""

SIZES = {"object": 3, "struck": 3, "end_effector": 3, "end_effector_from_object": 3, "part": 1, "yaw": 2}
"""How many numbers each kind of part of a goal vector has; of a flag, named by its fact, it is one."""


@dataclass(frozen=True)
class GoalPart:
    """One part of goal vectors."""

    kind: str
    """One of `SIZES`, or the fact that a flag is for."""
    bound: BoundStage
    """What it is about."""
    giver: int
    """Index of the stage that gives the fact."""
    first: int
    """Where it begins in the vector."""

    @property
    def is_flag(self) -> bool:
        """Whether it is 0 or 1."""
        return self.kind not in SIZES

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return SIZES.get(self.kind, 1)

    @property
    def tolerance(self) -> float:
        """Distance, in its own unit, that counts as there."""
        if self.is_flag:
            return 0.5
        return self.bound.thresholds.angle if self.kind == "yaw" else self.bound.thresholds.tolerance

    @property
    def metres(self) -> float:
        """What one of its unit counts in the dense reward."""
        if self.is_flag:
            return FLAG_METRES
        return ANGLE_METRES if self.kind == "yaw" else 1.0


@dataclass(frozen=True)
class GoalSpace:
    """How a task's goal vectors are made up."""

    parts: tuple[GoalPart, ...]
    room: int | None = None
    """Length of a goal vector with room for what the task has not, which is 0, as in shared spaces; None: no such."""

    @cached_property
    def size(self) -> int:
        """Length of a goal vector."""
        return self.room or sum(part.size for part in self.parts)

    @property
    def names(self) -> tuple[str, ...]:
        """Kinds of the parts, and facts of the flags."""
        return tuple(part.kind for part in self.parts)

    @cached_property
    def is_a_point(self) -> bool:
        """Whether it is three metres and nothing else, which is quick."""
        return len(self.parts) == 1 and self.size == 3

    @cached_property
    def has_gaps(self) -> bool:
        """Whether there are numbers in it that are no part's."""
        return sum(part.size for part in self.parts) < self.size


def goal_space(task: Task) -> GoalSpace:
    """The goal vectors of `task`, derived from the facts that its stages leave behind."""
    parts: list[GoalPart] = []
    first = 0
    for kind, giver in _kinds(task):
        part = GoalPart(kind, task.bound_stages[giver], giver, first)
        parts.append(part)
        first += part.size
    return GoalSpace(tuple(parts))


def _kinds(task: Task) -> Sequence[tuple[str, int]]:
    """Kinds of the parts with the stages that give them."""
    kinds: list[tuple[str, int]] = []
    for number in range(len(task.subtasks)):
        given = [(fact, giver) for fact, giver in task.plan.gives if task.bound_stages[giver].subtask == number]
        givers = dict(given)
        fact = next((fact for fact in ("struck", "placed", "near") if fact in givers), None)
        if fact is not None:
            kinds.append((_position(fact, task.bound_stages[givers[fact]]), givers[fact]))
        if "turned" in givers:
            kinds.append(("yaw", givers["turned"]))
        since = givers[fact] if fact is not None else -1
        kinds += [(one, giver) for one, giver in given if giver >= since and one not in (fact, "turned")]
    return kinds


def _position(fact: str, bound: BoundStage) -> str:
    if fact == "near":
        return "end_effector_from_object" if bound.object is not None or bound.part is not None else "end_effector"
    if bound.part is not None:
        return "part"
    return "struck" if fact == "struck" else "object"


def achieved_goal(space: GoalSpace, progress: Progress, state: State, goals: Array) -> Array:
    """`(N, size)`: what has been achieved in `state`."""
    return _vector(space, [_achieved(part, StageContext(state, progress, goals, part.bound)) for part in space.parts])


def _achieved(part: GoalPart, context: StageContext) -> Array:
    xp = namespace(context.state.time)
    if part.kind == "object":
        return context.object_position
    if part.kind == "end_effector":
        return context.ee_position
    if part.kind == "end_effector_from_object":
        return context.ee_position - context.target
    if part.kind == "part":
        return context.part_position[:, None]
    if part.kind == "yaw":
        return xp.stack([xp.cos(context.object_yaw), xp.sin(context.object_yaw)], axis=-1)
    past = context.progress.stage > part.giver
    if part.kind == "struck":  # where it struck, as soon as it has
        return xp.where(past[:, None], context.start_object_position, context.object_position)
    fact = PREDICATES[part.kind]
    return xp.astype(past if fact.event else fact.begins(context), context.state.time.dtype)[:, None]


def desired_goal(space: GoalSpace, goals: Array) -> Array:
    """`(N, size)`: what is to be achieved, from the goal points `(N, G, 3)`."""
    return _vector(space, [_desired(part, goals) for part in space.parts])


def _vector(space: GoalSpace, values: Sequence[Array]) -> Array:
    """`(N, size)`: the parts' values `(N, …)` at their places."""
    xp = namespace(values[0])
    if space.has_gaps:
        vector = xp.zeros((values[0].shape[0], space.size), dtype=values[0].dtype, device=device(values[0]))
        for part, value in zip(space.parts, values, strict=True):
            vector[:, part.first : part.first + part.size] = value
        return vector
    return values[0] if len(values) == 1 else xp.concat(values, axis=-1)


def _desired(part: GoalPart, goals: Array) -> Array:
    xp = namespace(goals)
    place = goals[:, part.bound.goal_slot]
    if part.kind in ("object", "struck", "end_effector"):
        return place
    if part.kind == "end_effector_from_object":
        return xp.zeros_like(place)
    if part.kind == "part":
        return place[:, :1]
    if part.kind == "yaw":
        angle = goals[:, part.bound.yaw_slot or 0, 0]
        return xp.stack([xp.cos(angle), xp.sin(angle)], axis=-1)
    return xp.ones_like(place[:, :1])


def goal_distance(space: GoalSpace, achieved: Array, desired: Array) -> Array:
    """Metres between goal vectors `(…, size)`, a wrong flag counting as `FLAG_METRES`."""
    difference = achieved - desired
    if space.is_a_point:
        return length(difference)
    away = 0.0
    for part in space.parts:
        own = difference[..., part.first : part.first + part.size]
        away = away + part.metres * length(own)
    return away


def goal_reached(space: GoalSpace, achieved: Array, desired: Array) -> Array:
    """Bool `(…)`: every part within its tolerance, and every flag right."""
    difference = achieved - desired
    if space.is_a_point:
        return (difference * difference).sum(-1) < space.parts[0].tolerance ** 2
    reached = None
    for part in space.parts:
        own = difference[..., part.first : part.first + part.size]
        within = (own * own).sum(-1) < part.tolerance**2
        reached = within if reached is None else reached & within
    return reached
