"""Descriptions of sub-tasks in plain words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath

from mygym.tasks.stage import Stage
from mygym.tasks.subtask import SubTask

ObjectName = Callable[[str], str]
"""Role → name of its object in descriptions."""


def describe_subtask(subtask: SubTask, stages: Sequence[Stage], object_name: ObjectName) -> str:
    """Return a sentence of all stages, which names the target once."""
    target, goal = _target(subtask, stages, object_name), _goal(subtask, object_name)
    first, *further = stages
    pronoun = target if target == "the goal" else "it"
    return ", ".join([first.words(target, goal), *(stage.words(pronoun, goal) for stage in further)])


def stage_phrases(subtask: SubTask, stages: Sequence[Stage], object_name: ObjectName) -> list[str]:
    """Return a description of each stage, complete in itself."""
    return [stage.words(_target(subtask, stages, object_name), _goal(subtask, object_name)) for stage in stages]


def readable(name: str) -> str:
    """Return the name of a role, a part or an object, or the stem of an object's file, with spaces."""
    return PurePath(name).stem.replace("_", " ")


def _target(subtask: SubTask, stages: Sequence[Stage], object_name: ObjectName) -> str:
    """Return the name of the object or part that the stages act on."""
    if subtask.part:
        return f"the {subtask.part.rpartition('.')[2].replace('_', ' ')}"
    return f"the {object_name(subtask.object)}" if any(stage.needs_object for stage in stages) else "the goal"


def _goal(subtask: SubTask, object_name: ObjectName) -> str:
    """Return the phrase for the goal of the target."""
    return subtask.words or (f"onto the {object_name(subtask.onto)}" if subtask.onto else "to the goal")
