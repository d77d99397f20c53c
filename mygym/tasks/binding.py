"""Binding of the stages of a task: slots of their goals, and the stages to which each stage refers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mygym.tasks.predicate import Predicate
from mygym.tasks.stage import Stage
from mygym.tasks.subtask import SubTask


@dataclass(frozen=True)
class GoalSlots:
    """Slots of a sub-task in the goals `(N, G, 3)`."""

    goal: int
    path: tuple[int, ...]
    """Slots of the points before the goal, in order."""
    yaw: int | None
    """Slot whose first number is the object's goal yaw in rad; None: any yaw."""


def goal_slots(
    subtasks: Sequence[SubTask], composed: Sequence[Sequence[Stage]], path_points: Mapping[str, int]
) -> tuple[GoalSlots, ...]:
    """Return the slots of each sub-task in the goals `(N, G, 3)`.

    Args:
        subtasks: The sub-tasks.
        composed: Stages of each sub-task.
        path_points: Path of the workspace → number of its points.
    """
    slots, first = [], 0
    for subtask, stages in zip(subtasks, composed, strict=True):
        points = 1 if subtask.via else path_points.get(subtask.path, 0)
        path = tuple(range(first, first + points))
        first += len(path)
        has_yaw = any(stage.needs_tool_yaw for stage in stages)
        slots.append(GoalSlots(first, path, first + 1 if has_yaw else None))
        first += 2 if has_yaw else 1
    return tuple(slots)


def index_of_put_down(
    stages: Sequence[Stage], held_after: Sequence[bool], first: int, predicates: Mapping[str, Predicate]
) -> int | None:
    """Return the index in the task of the stage that puts the object of a sub-task down; None: no stage does.

    Args:
        stages: Stages of the sub-task.
        held_after: Whether the object is held after each of them.
        first: Index in the task of the sub-task's first stage.
        predicates: Name → predicate.
    """
    is_carried = was_held = False
    for index, (stage, is_held) in enumerate(zip(stages, held_after, strict=True), first):
        stays = not any(name in predicates and predicates[name].places_object for name in stage.ends)
        if is_carried and was_held and not is_held and stays:
            return index
        is_carried, was_held = stage.stops_above or (is_carried and stays), is_held
    return None


def led_by(
    stages: Sequence[Stage], subtasks: Sequence[int], predicates: Mapping[str, Predicate]
) -> tuple[tuple[int, ...], ...]:
    """Return for each stage itself and the later stages of the same sub-task whose progress counts already.

    They end before a stage that counts something since it began, and before a stage that restores what holds at the
    reset (`drop`, `withdraw`): an untouched object is not yet released.

    Args:
        stages: All stages of the task.
        subtasks: Index of the sub-task of each stage.
        predicates: Name → predicate.
    """
    result = []
    for index, subtask in enumerate(subtasks):
        led = [index]
        for later in range(index + 1, len(stages)):
            restores = any(predicates[name].initial for name in stages[later].gives)
            if subtasks[later] != subtask or stages[later].count is not None or restores:
                break
            led.append(later)
        result.append(tuple(led))
    return tuple(result)
