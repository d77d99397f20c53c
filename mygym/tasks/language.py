"""Tasks in plain words: `read_sentence("pick up the apple and put it on the plate")`.

`mygym.tasks.language` has the grammar. A named task with the stages, nouns and goals of a sentence gives its numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mygym.errors import ConfigError, bad_value, did_you_mean
from mygym.registry import registry
from mygym.tasks.stage import Stage, SubTask, readable
from mygym.tasks.task import Task

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("go to {object}", "reach {object}", "reach for {object}", "move to {object}"), ("approach",)),
    **dict.fromkeys(("pick up {object}", "pick {object} up", "take {object}", "grab {object}"), ("grasp",)),
    **dict.fromkeys(("put {object} {goal}", "place {object} {goal}"), ("move", "drop", "withdraw")),
    **dict.fromkeys(("stack {object} {goal}", "set {object} {goal}"), ("move", "drop", "withdraw")),
    "carry {object} {goal}": ("move",),
    "let go of {object}": ("drop",),
    "touch {object}": ("poke",),
    "move away": ("withdraw",),
}
"""Phrase → stages, besides the phrases of the stages themselves."""

PREPARATION: Mapping[str, tuple[str, ...]] = {"near": ("approach",), "held": ("approach", "grasp")}
"""Predicate that a stage requires → the stages that give it, which a sentence may omit."""

GOAL, TO_THE_GOAL = "goal", "to the goal"

_SEPARATOR = re.compile(r"\s*(?:(;)(?:\s*then\b)?|,(?:\s*(?:and|then)\b)*|\.|\band(?:\s+then)?\b|\bthen\b)\s*")
_ARTICLE = re.compile(r"(?:the|a|an|its)\s+")
_ONTO = re.compile(r"(?:onto|on top of|on|upon)\s+(.+)")
_PREPOSITIONS = "to|onto|on|upon|into|in|at|through"


@dataclass
class ClauseGroup:
    """Consecutive clauses of a sentence on one object: a sub-task in words."""

    target: str = ""
    """Name of an object, part or role, in words."""
    stages: list[Stage] = field(default_factory=list)
    goal: str = ""
    """`to the goal`, `onto NOUN`, the goal of a named task, or empty."""
    base: str = ""
    """Name of the object under the goal; empty: none."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the stages."""
        return tuple(stage.name for stage in self.stages)

    @property
    def composition(self) -> str | list[str]:
        """Letters if all stages have letters, else names."""
        letters = [stage.letter for stage in self.stages]
        return "".join(letters) if all(letters) else list(self.names)


class Vocabulary:
    """Phrases, nouns and goals that sentences may have, for one sentence."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.objects = {in_sentences(name): name for name in registry("object").names()}
        self.tasks: list[Task] = [entry.load() for entry in registry("task")]
        self.stages: dict[str, Stage] = {entry.name: entry.load() for entry in registry("stage")}
        subtasks = [(task, subtask) for task in self.tasks for subtask in task.subtasks]
        self.machines = {part_word(subtask) for _, subtask in subtasks if subtask.part}
        self.roles = {
            task.object_name(role).lower() for task in self.tasks for role in task.roles
        } - self.objects.keys()
        self.goals = {subtask.words.lower() for _, subtask in subtasks if subtask.words}
        of_stages = ((stage.phrase, (stage.name,)) for stage in self.stages.values())
        self.phrases = [
            (_pattern(phrase.lower(), self.goals), names) for phrase, names in (*of_stages, *SYNONYMS.items())
        ]

    def error(self, why: str, allowed: str) -> str:
        """Return the message for a sentence."""
        return bad_value("task", self.text, allowed, why)

    def clause_groups(self) -> list[ClauseGroup]:
        """Return the clauses of the sentence, grouped by sub-task; refuse unknown and ambiguous clauses."""
        groups = [ClauseGroup()]
        for clause, begins in self._clauses():
            names, noun, goal, base = self._read(clause, groups[-1].target)
            if groups[-1].stages and (begins or (noun and groups[-1].target and noun != groups[-1].target)):
                groups.append(ClauseGroup())
            group = groups[-1]
            group.target = noun or group.target
            if goal and group.goal and goal != group.goal:
                raise ConfigError(self.error(f"has two goals, {group.goal!r} and {goal!r}", "one goal for each object"))
            group.goal, group.base = goal or group.goal, base or group.base
            for name in names:
                self._append(group, self.stages[name])
        return groups

    def _clauses(self) -> Iterator[tuple[str, bool]]:
        """Yield each clause, and whether a semicolon precedes it."""
        pieces = _SEPARATOR.split(" ".join(self.text.lower().split()))
        marks = [None, *pieces[1::2]]
        for clause, mark in zip(pieces[::2], marks, strict=True):
            if clause:
                yield clause, mark == ";"

    def _append(self, group: ClauseGroup, stage: Stage) -> None:
        """Append a stage, and the stages that it requires and the sentence omits."""
        for predicate in stage.requires:
            for name in PREPARATION.get(predicate, ()):
                if name not in group.names:
                    group.stages.append(self.stages[name])
        group.stages.append(stage)

    def _read(self, clause: str, target: str) -> tuple[tuple[str, ...], str, str, str]:
        """Return stages, noun, goal and base of a clause; all but the stages may be empty."""
        matches = [(match, names) for pattern, names in self.phrases if (match := pattern.fullmatch(clause))]
        if not matches:
            verb = clause.split()[0]
            phrases = sorted({*(stage.phrase for stage in self.stages.values()), *SYNONYMS})
            near = [phrase for phrase in phrases if phrase.split()[0] == verb]
            hint = "" if near else did_you_mean(verb, {phrase.split()[0] for phrase in phrases})
            why = f"has {clause!r}, which is no phrase of a stage"
            raise ConfigError(self.error(why, ", ".join(near or phrases)) + hint)
        readings, errors, possible = [], [], dict[str, None]()
        for match, names in sorted(matches, key=lambda item: len(item[0].groupdict().get("object") or "")):
            groups = match.groupdict()
            try:
                noun = self._noun(groups["object"], target) if groups.get("object") else ""
                goal, base = self._goal(groups["goal"]) if groups.get("goal") else ("", "")
            except ConfigError as error:
                errors.append(error)
                continue
            if all(self._acts_on(self.stages[name], noun) for name in names):
                readings.append((names, noun, goal, base))
            possible |= dict.fromkeys(stage.phrase for stage in self.stages.values() if self._acts_on(stage, noun))
        if not readings and errors:
            raise errors[0]
        if not readings:
            raise ConfigError(self.error(f"has {clause!r}, which no stage can do", ", ".join(possible)))
        if len(readings) > 1:
            meanings = " or ".join(" ".join(names) for names, *_ in readings)
            raise ConfigError(self.error(f"has {clause!r}, which has several meanings", meanings))
        return readings[0]

    def _acts_on(self, stage: Stage, noun: str) -> bool:
        """Return whether a stage can act on a noun: a part of the workspace or an object."""
        if not noun:
            return True
        is_part = noun in self.machines and noun not in self.objects
        if noun == GOAL or not stage.needs_object:
            return not stage.needs_object
        return is_part == stage.needs_part

    def _noun(self, words: str, target: str) -> str:
        """Return an object, a part, a role or `GOAL` in words."""
        if words == "it":
            if not target:
                raise ConfigError(self.error("has 'it' before any object", "the name of an object first"))
            return target
        noun = _ARTICLE.sub("", words, count=1)
        known = {*self.objects, *self.machines, *self.roles, GOAL}
        if noun in known:
            return noun
        longer = sorted(name for name in self.objects if name.endswith(f" {noun}"))
        if len(longer) == 1:
            return longer[0]
        if longer:
            raise ConfigError(self.error(f"has {noun!r}, which has several meanings", " or ".join(longer)))
        why = f"is no object and no part of a workspace (in {self.text!r})"
        raise ConfigError(bad_value("task", noun, "names of `mygym list object`", why) + did_you_mean(noun, known))

    def _goal(self, words: str) -> tuple[str, str]:
        """Return `to the goal`, `onto NOUN`, or the goal of a named task; and the noun."""
        if words in (TO_THE_GOAL, "to its goal"):
            return TO_THE_GOAL, ""
        if words in self.goals:
            return words, ""
        if match := _ONTO.fullmatch(words):
            base = self._noun(match[1], "")
            return f"onto {base}", base
        allowed = [TO_THE_GOAL, "onto the OBJECT", *sorted(self.goals)]
        raise ConfigError(bad_value("task", words, allowed, f"is no goal (in {self.text!r})"))


def _pattern(phrase: str, goals: Iterable[str]) -> re.Pattern[str]:
    """Return the pattern of a phrase; its goal is optional, one of `goals` or words that begin with a preposition."""
    goal = "|".join([rf"(?:{_PREPOSITIONS})\b.*", *map(re.escape, goals)])
    text = re.escape(phrase).replace(r"\ \{goal\}", rf"(?:\ (?P<goal>{goal}))?")
    return re.compile(text.replace(r"\{object\}", r"(?P<object>[\w ]+?)"))


def in_sentences(name: str) -> str:
    """Return a name as it is in sentences."""
    return readable(name).lower()


def part_word(subtask: SubTask) -> str:
    """Return the name of a sub-task's part in sentences."""
    return in_sentences(subtask.part.rpartition(".")[2])


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
    """Return the meaning of a sentence; refuse unknown phrases, nouns and goals, and several meanings."""
    known = Vocabulary(text)
    groups = known.clause_groups()
    matches = [(*match, task) for task in known.tasks if (match := _match(groups, task, known)) is not None]
    best = max((score for score, *_ in matches), default=0)
    chosen = [(objects, task) for score, objects, task in matches if score == best]
    # The meaning of a sentence that a built-in task has must not depend on the user's files.
    chosen = [each for each in chosen if registry("task").get(each[1].name).built_in] or chosen
    if len(chosen) > 1:
        raise ConfigError(known.error("has several meanings", "; or ".join(task.describe() for _, task in chosen)))
    if chosen:
        ((objects, task),) = chosen
        described = _in_words(groups, task.composed)
        return Reading(task.name, objects, (), f"{task.name} = {described}")
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
    """Return a sub-task as in configs; refuse nouns and goals that belong to named tasks only."""
    nouns = [noun for noun in (group.target, group.base) if noun and noun != GOAL]
    if group.goal in known.goals or any(noun not in known.objects for noun in nouns):
        words = {*nouns, group.goal} - known.objects.keys()
        near = [task.describe() for task in known.tasks if any(word and word in task.describe() for word in words)]
        raise ConfigError(known.error("is not what a named task with these words does", "; or ".join(near)))
    target = {"object": known.objects[group.target]} if group.target != GOAL and group.target else {}
    base = {"onto": known.objects[group.base]} if group.base else {}
    return {"stages": group.composition, **target, **base}


def _match(groups: list[ClauseGroup], task: Task, known: Vocabulary) -> tuple[int, dict[str, str]] | None:
    """Return the agreement of the clause groups of a sentence with a task; None if they do not fit.

    These are the number of nouns that are those of the task, and of clause groups with all of its stages; and role →
    object, where it is not the object of the task.
    """
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
    return score, objects


def _is_within(short: tuple[str, ...], long: tuple[str, ...]) -> bool:
    """Return whether a sequence is a subsequence of another."""
    rest = iter(long)
    return all(any(name == other for other in rest) for name in short)
