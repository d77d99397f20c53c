"""What a sub-task does, in plain words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath

from mygym.tasks.stage import Stage
from mygym.tasks.subtask import SubTask

Called = Callable[[str], str]
"""Role → what the object that plays it is called."""


def sentence(one: SubTask, stages: Sequence[Stage], called: Called) -> str:
    """All that it does; what it acts on is named once."""
    thing, goal = _thing(one, stages, called), _goal(one, called)
    first, *others = stages
    later = thing if thing == "the goal" else "it"
    return ", ".join([first.words(thing, goal), *(stage.words(later, goal) for stage in others)])


def phrases(one: SubTask, stages: Sequence[Stage], called: Called) -> list[str]:
    """What each stage does, in words that stand by themselves."""
    return [stage.words(_thing(one, stages, called), _goal(one, called)) for stage in stages]


def plain(name: str) -> str:
    """The name of a role, a part or an object, or an object's file, as a word."""
    return PurePath(name).stem.replace("_", " ")


def _thing(one: SubTask, stages: Sequence[Stage], called: Called) -> str:
    """What it acts on."""
    if one.part:
        return f"the {one.part.rpartition('.')[2].replace('_', ' ')}"
    return f"the {called(one.object)}" if any(stage.needs_object for stage in stages) else "the goal"


def _goal(one: SubTask, called: Called) -> str:
    """Where that goes."""
    return one.words or (f"onto the {called(one.onto)}" if one.onto else "to the goal")
