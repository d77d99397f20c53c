"""Conflicts between sub-goals: equal positions, or a sub-goal that a later sub-task undoes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mygym.errors import ConfigError, bad_value
from mygym.tasks.predicate import Predicate
from mygym.tasks.stage import Stage
from mygym.tasks.subtask import SubTask


def check_subgoals(
    subtasks: Sequence[SubTask], composed: Sequence[Sequence[Stage]], predicates: Mapping[str, Predicate]
) -> None:
    """Check that an object which was put onto another stays on it, and that each base carries one object.

    An object that was put down in an area may be moved again, and so may parts.

    Args:
        subtasks: In their order.
        composed: The stages of each.
        predicates: Name → predicate.

    Raises:
        ConfigError: A sub-task moves an object that an earlier sub-task put onto another object, or the base of such an
            object; or it puts a second object onto a base.
    """
    bases: dict[str, tuple[str, int]] = {}  # object → its base, and the sub-task that put it there
    for number, (subtask, stages) in enumerate(zip(subtasks, composed, strict=True)):
        given = [predicates[name] for stage in stages for name in stage.gives]
        if subtask.part or not any(predicate.moves_object for predicate in given):
            continue
        tops = {base: (top, by) for top, (base, by) in bases.items()}
        if subtask.object in bases:
            base, by = bases[subtask.object]
            why = f"is put onto {base} by sub-task {by}, which this sub-task would undo"
            allowed = "another object, or a single sub-task that puts it to its final position"
            raise ConfigError(bad_value(f"task.{number}.object", subtask.object, allowed, why))
        if subtask.object in tops:
            top, by = tops[subtask.object]
            why = f"has {top} on it by sub-task {by}, which this sub-task would undo"
            allowed = f"this sub-task before sub-task {by}"
            raise ConfigError(bad_value(f"task.{number}.object", subtask.object, allowed, why))
        if subtask.onto in tops:
            top, by = tops[subtask.onto]
            why = f"has {top} on it by sub-task {by}, and room for one object"
            allowed = f"another object, such as {top} for a tower, or an area"
            raise ConfigError(bad_value(f"task.{number}.onto", subtask.onto, allowed, why))
        if subtask.onto and any(predicate.places_object for predicate in given):
            bases[subtask.object] = subtask.onto, number
