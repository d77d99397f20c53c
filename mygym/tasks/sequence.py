"""Whether sub-goals go together: none is in another's place, or undone on the way to a later one."""

from __future__ import annotations

from collections.abc import Sequence

from mygym.errors import ConfigError, bad_value
from mygym.tasks.stage import Stage
from mygym.tasks.subtask import SubTask

MOVING = ("held", "placed", "launched")
"""Facts of which the stage that gives one moves the object."""


def check_sequence(subtasks: Sequence[SubTask], composed: Sequence[Sequence[Stage]]) -> None:
    """Refuse sub-goals that collide: what is put onto an object stays there, and alone.

    What was put down in an area may be moved once more, and so may parts.

    Args:
        subtasks: In their order.
        composed: The stages of each.

    Raises:
        ConfigError: A sub-task moves what another has put onto something, or what something was put onto; or it puts a
            second thing where one stands.
    """
    bases: dict[str, tuple[str, int]] = {}
    """Object → what it was put onto, and by which sub-task."""
    for number, (one, stages) in enumerate(zip(subtasks, composed, strict=True)):
        given = {fact for stage in stages for fact in stage.gives}
        if one.part or not given.intersection(MOVING):
            continue
        tops = {base: (top, by) for top, (base, by) in bases.items()}
        if one.object in bases:
            base, by = bases[one.object]
            why = f"is put onto {base} by sub-task {by}, which moving it would undo"
            allowed = "another object, or one sub-task for the place where it is to end"
            raise ConfigError(bad_value(f"task.{number}.object", one.object, allowed, why))
        if one.object in tops:
            top, by = tops[one.object]
            why = f"has {top} on it by sub-task {by}, which moving it would undo"
            raise ConfigError(
                bad_value(f"task.{number}.object", one.object, f"this sub-task before sub-task {by}", why)
            )
        if one.onto in tops:
            top, by = tops[one.onto]
            why = f"has {top} on it by sub-task {by}, and room for one"
            allowed = f"another object, such as {top} for a tower, or an area"
            raise ConfigError(bad_value(f"task.{number}.onto", one.onto, allowed, why))
        if one.onto and "placed" in given:
            bases[one.object] = one.onto, number
