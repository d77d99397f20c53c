"""What a sub-task does, in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from mygym.tasks.stage import Stage
from mygym.tasks.subtask import SubTask


def sentence(one: SubTask, stages: Sequence[Stage]) -> str:
    """All that it does; what it acts on is named once."""
    thing, goal = _thing(one, stages), _goal(one)
    first, *others = [stage.phrase for stage in stages]
    later = thing if thing == "the goal" else "it"
    return ", ".join(
        [first.format(object=thing, goal=goal), *(phrase.format(object=later, goal=goal) for phrase in others)]
    )


def phrases(one: SubTask, stages: Sequence[Stage]) -> list[str]:
    """What each stage does, in words that stand by themselves."""
    thing, goal = _thing(one, stages), _goal(one)
    return [stage.phrase.format(object=thing, goal=goal) for stage in stages]


def _thing(one: SubTask, stages: Sequence[Stage]) -> str:
    """What it acts on."""
    if one.part:
        return f"the {one.part.rpartition('.')[2].replace('_', ' ')}"
    return f"the {_plain(one.object)}" if any(stage.needs_object for stage in stages) else "the goal"


def _goal(one: SubTask) -> str:
    """Where that goes."""
    return one.words or (f"onto the {_plain(one.onto)}" if one.onto else "to the goal")


def _plain(role: str) -> str:
    return PurePath(role).stem.replace("_", " ")
