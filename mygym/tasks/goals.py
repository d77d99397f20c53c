"""Goal vectors: numbers that describe the result of a task; a reward can be computed from them alone.

They follow from the predicates that hold after the stages. For each sub-task: its position in metres (of the object
if the object is placed, else of the end effector, relative to the object if the sub-task has one; for a part its joint
position in m or rad); the other terms, such as cosine and sine of the object's yaw if it is turned; and a flag for
each predicate that is given with or after the position (released, held, withdrawn, thrown).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from array_api_compat import device

from mygym.registry.signatures import wrong_result
from mygym.tasks.context import StageBinding, StageContext
from mygym.tasks.predicates import FLAG_METRES, GoalTerm, Predicate, length
from mygym.tasks.state import Progress, State, namespace
from mygym.tasks.task import Task
from mygym.types import Array

BOUND = 5.0
"""Largest absolute value in a goal vector."""


@dataclass(frozen=True)
class GoalSection:
    """Section of goal vectors: the term of a predicate, or its flag."""

    predicate: Predicate
    term: GoalTerm | None
    """None: a flag."""
    bound: StageBinding
    """The stage that gives the predicate."""
    giver: int
    """Index of that stage."""
    first: int
    """Index of the section's first number in the vector."""

    @property
    def name(self) -> str:
        """Name of the term, or of the predicate that the flag is for."""
        return self.predicate.name if self.term is None else self.term.name

    @property
    def size(self) -> int:
        """Number of values."""
        return 1 if self.term is None else self.term.size

    @property
    def tolerance(self) -> float:
        """Distance within which the section's goal is reached, in the section's unit."""
        return 0.5 if self.term is None else self.term.tolerance(self.bound.thresholds)

    @property
    def metres(self) -> float:
        """Metres that a unit of error adds to the distance of the dense reward."""
        return FLAG_METRES if self.term is None else self.term.metres

    def achieved(self, progress: Progress, state: State, goals: Array) -> Array:
        """`(N, size)`: the achieved values in `state`."""
        context = StageContext(state, progress, goals, self.bound)
        xp = namespace(state.time)
        is_over = progress.stage > self.giver
        if self.term is None:
            holds = is_over if self.predicate.event else self.predicate.begins(context)
            return xp.astype(holds, state.time.dtype)[:, None]
        achieved = self._of_size(self.term.achieved, goals, context)
        if self.term.achieved_later is None:
            return achieved
        return xp.where(is_over[:, None], self._of_size(self.term.achieved_later, goals, context), achieved)

    def desired(self, goals: Array) -> Array:
        """`(N, size)`: the desired values, from the goal points `(N, G, 3)`."""
        if self.term is None:
            return namespace(goals).ones_like(goals[:, self.bound.goal_slot, :1])
        return self._of_size(self.term.desired, goals, goals, self.bound)

    def _of_size(self, function: Callable[..., Array], goals: Array, *args: Any) -> Array:
        """Return the result `(N, size)` of a function of the term; refuse other shapes: numpy may broadcast."""
        result, shape = function(*args), (goals.shape[0], self.size)
        if getattr(result, "shape", None) != shape:
            key = f"predicate {self.predicate.name}: goal term {self.name}"
            raise wrong_result(key, function, result, f"shape {shape}, the values for each episode")
        return result


@dataclass(frozen=True)
class GoalSpace:
    """Layout of a task's goal vectors."""

    sections: tuple[GoalSection, ...]
    fixed_size: int | None = None
    """Length of the vector in shared spaces, where unused numbers are 0; None: the length of the sections."""

    @cached_property
    def size(self) -> int:
        """Length of a goal vector."""
        return self.fixed_size or sum(section.size for section in self.sections)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sections."""
        return tuple(section.name for section in self.sections)

    @cached_property
    def is_a_point(self) -> bool:
        """Whether goal vectors are just a point in metres, for a fast path."""
        return len(self.sections) == 1 and self.size == 3 and self.sections[0].metres == 1.0

    @cached_property
    def has_gaps(self) -> bool:
        """Whether some numbers are unused."""
        return sum(section.size for section in self.sections) < self.size


def goal_space(task: Task) -> GoalSpace:
    """Return the layout of the goal vectors of `task`, derived from the predicates that hold after its stages."""
    sections: list[GoalSection] = []
    first = 0
    for number in range(len(task.subtasks)):
        for predicate, term, giver in _goal_predicates(task, number):
            sections.append(GoalSection(predicate, term, task.stage_bindings[giver], giver, first))
            first += sections[-1].size
    return GoalSpace(tuple(sections))


def _goal_predicates(task: Task, subtask: int) -> list[tuple[Predicate, GoalTerm | None, int]]:
    """Return a sub-task's goal predicates, terms (None: a flag) and givers: position, further terms, flags."""
    given = [(task.sequence.predicates[name], giver) for name, giver in task.sequence.gives]
    given = [(predicate, giver) for predicate, giver in given if task.stage_bindings[giver].subtask == subtask]
    terms = [(predicate, predicate.goal_term(task.stage_bindings[giver]), giver) for predicate, giver in given]
    with_term = [(predicate, term, giver) for predicate, term, giver in terms if term is not None]
    positions = sorted((item for item in with_term if item[1].position_rank), key=lambda item: -item[1].position_rank)
    chosen = [*positions[:1], *(item for item in with_term if not item[1].position_rank)]
    since = positions[0][2] if positions else -1
    names = [predicate.name for predicate, _, _ in chosen]
    flags = [(predicate, None, giver) for predicate, giver in given if giver >= since and predicate.name not in names]
    return [*chosen, *flags]


def achieved_goal(space: GoalSpace, progress: Progress, state: State, goals: Array) -> Array:
    """`(N, size)`: the goal achieved in `state`."""
    return _vector(space, [section.achieved(progress, state, goals) for section in space.sections])


def desired_goal(space: GoalSpace, goals: Array) -> Array:
    """`(N, size)`: the goal to achieve, from the goal points `(N, G, 3)`."""
    return _vector(space, [section.desired(goals) for section in space.sections])


def _vector(space: GoalSpace, values: Sequence[Array]) -> Array:
    """`(N, size)`: the values `(N, …)` of the sections, each at its index."""
    xp = namespace(values[0])
    if space.has_gaps:
        vector = xp.zeros((values[0].shape[0], space.size), dtype=values[0].dtype, device=device(values[0]))
        for section, value in zip(space.sections, values, strict=True):
            vector[:, section.first : section.first + section.size] = value
        return vector
    return values[0] if len(values) == 1 else xp.concat(values, axis=-1)


def goal_distance(space: GoalSpace, achieved: Array, desired: Array) -> Array:
    """Return the distance in m between goal vectors `(…, size)`; a wrong flag counts as `FLAG_METRES`."""
    difference = achieved - desired
    if space.is_a_point:
        return length(difference)
    metres = 0.0
    for section in space.sections:
        metres = metres + section.metres * length(difference[..., section.first : section.first + section.size])
    return metres


def goal_reached(space: GoalSpace, achieved: Array, desired: Array) -> Array:
    """Bool `(…)`: whether every section is within its tolerance, and every flag is correct."""
    difference = achieved - desired
    if space.is_a_point:
        return (difference * difference).sum(-1) < space.sections[0].tolerance ** 2
    reached = None
    for section in space.sections:
        values = difference[..., section.first : section.first + section.size]
        within = (values * values).sum(-1) < section.tolerance**2
        reached = within if reached is None else reached & within
    return reached
