"""Letters and names → stages, and whether they make a task: derived from what stages require and give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.registry import registry
from mygym.tasks.predicates import EXCLUDES, INITIALLY, PREDICATES
from mygym.tasks.stage import Stage

BEFORE = -1
"""Giver of the facts that hold when a sub-task begins."""


@dataclass(frozen=True)
class Plan:
    """Grammatical compositions, one after the other: their stages, and which facts are in force when."""

    stages: tuple[Stage, ...]
    kept: tuple[tuple[tuple[str, int], ...], ...]
    """For each stage, and at the end: `(fact, index of its giver)` of what must keep holding, latest giver first.

    What a stage itself ends (withdrawing ends being near) need not hold during it. Events need not either.
    """
    gives: tuple[tuple[str, int], ...]
    """`(fact, index of its giver)` of what the whole leaves behind, earliest giver first."""
    firsts: tuple[int, ...]
    """Index of the first stage of each sub-task."""


def letters() -> dict[str, str]:
    """Letter → stage name."""
    return {letter: stage.name for letter, stage in _of_letters().items()}


def _of_letters() -> dict[str, Stage]:
    stages: list[Stage] = [entry.load() for entry in registry("stage")]
    return {stage.letter: stage for stage in stages if stage.letter}


def parse(task: str | Sequence[str], key: str = "task") -> tuple[Stage, ...]:
    """Stages from letters (`"AGMDW"`) or from a list of stage names (`["approach", "push"]`), said under `key`.

    Raises:
        ConfigError: Empty, an unknown letter or an unknown stage.
    """
    if not task:
        allowed = "a name of `mygym list task`, letters such as AGMDW, or a list of stage names"
        raise ConfigError(bad_value(key, said(task), allowed, "is empty"))
    if isinstance(task, str):
        known = _of_letters()
        unknown = next((letter for letter in task if letter not in known), None)
        if unknown is not None:
            names = ", ".join(f"{letter} {stage.name}" for letter, stage in sorted(known.items()))
            why = f"is neither a task nor made of the letters {names} ({unknown!r})"
            capitals = f"; letters are capitals: {task.upper()!r}?" if set(task.upper()) <= known.keys() else ""
            raise ConfigError(bad_value(key, task, registry("task").names(), why) + capitals)
        return tuple(known[letter] for letter in task)
    try:
        return tuple(registry("stage").get(name, key).load() for name in task)
    except RegistryError as error:
        raise ConfigError(str(error)) from None


def said(stages: str | Sequence[str]) -> str | list[str]:
    """Stages for messages, as the user says them."""
    return stages if isinstance(stages, str) else list(stages)


def plan(subtasks: Sequence[tuple[Sequence[Stage], str | Sequence[str], str]]) -> Plan:
    """Check that each stage may follow the ones before it and that nothing is undone.

    Args:
        subtasks: Of each the stages, what was said for them, and the name of what they act on.

    Raises:
        ConfigError: Not grammatical; the message says which stage lacks what, and which stage would give it.
    """
    stages: list[Stage] = []
    kept: list[tuple[tuple[str, int], ...]] = []
    firsts: list[int] = []
    lasting: list[tuple[str, int]] = []
    acted_on: list[str] = []
    givers: dict[str, int] = dict.fromkeys(INITIALLY, BEFORE)
    for number, (composed, said_as, thing) in enumerate(subtasks):
        key = "task" if len(subtasks) == 1 else f"task.{number}"
        missing = [fact for fact in INITIALLY if fact not in givers]
        if missing:
            before = stages[-1].name
            why = f"begins with a hand that is {' and '.join(INITIALLY)}, but {before} before it leaves it otherwise"
            _refuse(key, said_as, why + ": let what is before it end with drop and withdraw")
        lasting += [(fact, giver) for fact, giver in givers.items() if giver != BEFORE and PREDICATES[fact].lasts]
        again = {fact for stage in composed for fact in stage.gives}  # what is moved once more need not stay
        lasting = [(fact, giver) for fact, giver in lasting if fact not in again or acted_on[giver] != thing]
        givers = dict.fromkeys(INITIALLY, BEFORE)
        firsts.append(len(stages))
        seen = {frozenset(givers): "the start"}
        for stage in composed:
            givers, before_it = _after(stage, stages, givers, key, said_as)
            kept.append(_in_force(before_it, lasting))
            stages.append(stage)
            acted_on.append(thing)
            state = frozenset(givers)
            if state in seen:
                why = f"{stage.name} undoes what came after {seen[state]}: nothing would be left to show for it"
                _refuse(key, said_as, why)
            seen[state] = stage.name
    kept.append(_in_force(givers, lasting))
    given = [*lasting, *((fact, giver) for fact, giver in givers.items() if giver != BEFORE)]
    return Plan(tuple(stages), tuple(kept), tuple(sorted(given, key=lambda item: item[1])), tuple(firsts))


def _after(
    stage: Stage, stages: Sequence[Stage], givers: dict[str, int], key: str, said_as: str | Sequence[str]
) -> tuple[dict[str, int], dict[str, int]]:
    """Facts and their givers after a stage that follows `stages`, and those among them that must hold during it."""
    missing = [fact for fact in stage.requires if fact not in givers]
    if missing:
        names = [entry.name for entry in registry("stage") if missing[0] in entry.load().gives]
        given_by = ", ".join(names) or "no stage"
        _refuse(
            key, said_as, f"{stage.name} requires {missing[0]!r}, which nothing before it gives (given by: {given_by})"
        )
    again = [fact for fact in stage.gives if fact in givers]
    if again:
        giver = givers[again[0]]
        since = f"since {stages[giver].name}: leave one of the two out" if giver != BEFORE else "from the start"
        why = f"{stage.name} gives {' and '.join(again)}, which holds already {since}"
        _refuse(key, said_as, f"{why}, or let a stage of yours give another fact, such as the event 'traced'")
    ends = {*stage.ends, *(EXCLUDES[fact] for fact in stage.gives if fact in EXCLUDES)}
    during = {fact: giver for fact, giver in givers.items() if fact not in ends}
    return {**during, **dict.fromkeys(stage.gives, len(stages))}, during


def _in_force(givers: dict[str, int], lasting: Sequence[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    given = [*lasting, *((fact, giver) for fact, giver in givers.items() if giver != BEFORE)]
    return tuple(sorted((item for item in given if not PREDICATES[item[0]].event), key=lambda item: -item[1]))


def _refuse(key: str, said_as: str | Sequence[str], why: str) -> None:
    allowed = "stages that follow from each other, e.g. A, AG, AGM, AGMDW, [approach, push]"
    raise ConfigError(bad_value(key, said(said_as), allowed, f"makes no sense: {why}"))
