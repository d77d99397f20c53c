"""Tasks in plain words: `read_sentence("pick up the apple and put it on the plate")`.

`mygym.tasks.clauses` has the grammar. A named task with the stages, nouns and goals of a sentence gives its numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mygym.errors import ConfigError
from mygym.registry import registry
from mygym.tasks.clauses import GOAL, TO_THE_GOAL, ClauseGroup, Vocabulary, part_word
from mygym.tasks.stage import Stage
from mygym.tasks.task import Task


@dataclass(frozen=True)
class Reading:
    """Meaning of a sentence."""

    named: str
    """Named task that gives the numbers; empty: none."""
    objects: Mapping[str, str]
    """Role of the named task → object, if it is not the object of the task."""
    subtasks: tuple[dict[str, Any], ...]
    """Sub-tasks as in configs, if no named task does this."""
    words: str
    """The reading in words: `stack = AGMDW, object apple, onto plate`."""


def is_sentence(task: object) -> bool:
    """Return whether a value of `task` is plain words: text with spaces that is no list or mapping."""
    return isinstance(task, str) and " " in task.strip() and not task.startswith(("[", "{"))


def read_sentence(text: str) -> Reading:
    """Return the meaning of a sentence.

    Raises:
        ConfigError: A phrase, noun or goal is unknown, or the sentence has several meanings.
    """
    known = Vocabulary(text)
    groups = known.clause_groups()
    matches = [(match, task) for task in known.tasks if (match := _match(groups, task, known)) is not None]
    best = max((match.score for match, _ in matches), default=0)
    chosen = [(match, task) for match, task in matches if match.score == best]
    # The meaning of a sentence that a built-in task has must not depend on the user's files.
    chosen = [(match, task) for match, task in chosen if registry("task").get(task.name).built_in] or chosen
    if len(chosen) > 1:
        raise ConfigError(known.error("has several meanings", "; or ".join(task.describe() for _, task in chosen)))
    if chosen:
        ((match, task),) = chosen
        described = _in_words(groups, task.composed)
        return Reading(task.name, match.objects, (), f"{task.name} = {described}")
    subtasks = tuple(_subtask(group, known) for group in groups)
    return Reading("", {}, subtasks, _in_words(groups, [group.stages for group in groups]))


def _in_words(groups: Iterable[ClauseGroup], composed: Iterable[Iterable[Stage]]) -> str:
    """Return clause groups as `AGMDW, object apple, onto plate`."""
    texts = []
    for group, stages in zip(groups, composed, strict=True):
        letters = "".join(stage.letter or " " for stage in stages)
        names = letters if " " not in letters else " ".join(stage.name for stage in stages)
        kind = "part" if any(stage.needs_part for stage in stages) else "object"
        target = [] if group.target == GOAL else [f"{kind} {group.target}"]
        texts.append(", ".join([names, *target, *([group.goal] if group.goal else [])]))
    return "; then ".join(texts)


def _subtask(group: ClauseGroup, known: Vocabulary) -> dict[str, Any]:
    """Return a sub-task as in configs.

    Raises:
        ConfigError: A noun or goal belongs to named tasks only.
    """
    nouns = [noun for noun in (group.target, group.base) if noun and noun != GOAL]
    if group.goal in known.goals or any(noun not in known.objects for noun in nouns):
        words = {*nouns, group.goal} - known.objects.keys()
        near = [task.describe() for task in known.tasks if any(word and word in task.describe() for word in words)]
        raise ConfigError(known.error("is not what a named task with these words does", "; or ".join(near)))
    target = {"object": known.objects[group.target]} if group.target != GOAL and group.target else {}
    base = {"onto": known.objects[group.base]} if group.base else {}
    return {"stages": group.composition, **target, **base}


@dataclass(frozen=True)
class _Match:
    """Agreement of a sentence with a named task."""

    score: int
    """Number of nouns that are those of the task, and of clause groups with all of its stages."""
    objects: Mapping[str, str]


def _match(groups: list[ClauseGroup], task: Task, known: Vocabulary) -> _Match | None:
    """Return the agreement of the clause groups of a sentence with a task; None if they do not fit."""
    if len(groups) != len(task.subtasks):
        return None
    score, nouns_of, objects = 0, dict[str, str](), dict[str, str]()
    for group, subtask, composed in zip(groups, task.subtasks, task.composed, strict=True):
        names = tuple(stage.name for stage in composed)
        is_special = bool(subtask.part or subtask.words)
        if group.names != names and not (is_special and _is_within(group.names, names)):
            return None
        goal = "onto" if subtask.onto else subtask.words.lower() or TO_THE_GOAL
        given = "onto" if group.base else group.goal or (TO_THE_GOAL if not subtask.words else "")
        if goal != given:
            return None
        score += group.names == names
        nouns = [(group.target, subtask.object)] if subtask.object in task.roles else []
        nouns += [(group.base, subtask.onto)] if subtask.onto else []
        if not nouns and group.target != (part_word(subtask) if subtask.part else GOAL):
            return None
        for noun, role in nouns:
            if nouns_of.setdefault(role, noun) != noun:
                return None
            if noun == task.object_name(role).lower():
                score += 1
            elif noun in known.objects:
                objects[role] = known.objects[noun]
            else:
                return None
    return _Match(score, objects)


def _is_within(short: tuple[str, ...], long: tuple[str, ...]) -> bool:
    """Return whether a sequence is a subsequence of another."""
    rest = iter(long)
    return all(any(name == other for other in rest) for name in short)
