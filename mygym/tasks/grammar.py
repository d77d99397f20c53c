"""Grammar of tasks: letters and names → stages, and whether each stage may follow those before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.registry import registry
from mygym.tasks.predicates import Predicate, load_predicates
from mygym.tasks.stage import Stage

BEFORE = -1
"""Giver of the predicates that hold when a sub-task begins."""


@dataclass(frozen=True)
class StageSequence:
    """The stages of all sub-tasks in order, and which predicates must hold during each."""

    stages: tuple[Stage, ...]
    kept: tuple[tuple[tuple[str, int], ...], ...]
    """Predicates that must hold in each stage and at the end: `(predicate, index of its giver)`, latest giver first.

    Without predicates that the stage itself ends (`withdraw` ends `near`), and without events.
    """
    gives: tuple[tuple[str, int], ...]
    """`(predicate, index of its giver)` of the predicates that hold at the end, earliest giver first."""
    firsts: tuple[int, ...]
    """Index of the first stage of each sub-task."""
    predicates: Mapping[str, Predicate] = field(compare=False)
    """Name → predicate: the built-in predicates and those that the stages mention."""


def letters() -> dict[str, str]:
    """Return letter → stage name."""
    return {letter: stage.name for letter, stage in _stages_by_letter().items()}


def _stages_by_letter() -> dict[str, Stage]:
    stages: list[Stage] = [entry.load() for entry in registry("stage")]
    return {stage.letter: stage for stage in stages if stage.letter}


def parse(task: str | Sequence[str], key: str = "task") -> tuple[Stage, ...]:
    """Return the stages for letters (`"AGMDW"`) or a list of stage names (`["approach", "push"]`).

    Raises:
        ConfigError: Empty, an unknown letter or an unknown stage.
    """
    if not task:
        allowed = "a name of `mygym list task`, letters such as AGMDW, or a list of stage names"
        raise ConfigError(bad_value(key, as_typed(task), allowed, "is empty"))
    if isinstance(task, str):
        known = _stages_by_letter()
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


def is_letters(task: str) -> bool:
    """Return whether a task consists of the letters of stages only."""
    return set(task) <= _stages_by_letter().keys()


def as_typed(stages: str | Sequence[str]) -> str | list[str]:
    """Return stages as the user types them, for messages."""
    return stages if isinstance(stages, str) else list(stages)


def stage_sequence(subtasks: Sequence[tuple[Sequence[Stage], str | Sequence[str], str]]) -> StageSequence:
    """Check that each stage may follow those before it, and that nothing is undone.

    Args:
        subtasks: For each sub-task: the stages, the letters or names from which they were parsed, and the name of the
            object or part that they act on.

    Raises:
        ConfigError: Not grammatical; the message names the stage, the missing predicate, and the stages that give it.
    """
    predicates = _known_predicates([stage for stages, _, _ in subtasks for stage in stages])
    initial = tuple(name for name, predicate in predicates.items() if predicate.initial)
    stages: list[Stage] = []
    kept: list[tuple[tuple[str, int], ...]] = []
    firsts: list[int] = []
    lasting: list[tuple[str, int]] = []
    acted_on: list[str] = []
    givers: dict[str, int] = dict.fromkeys(initial, BEFORE)
    for number, (composed, typed, target) in enumerate(subtasks):
        key = "task" if len(subtasks) == 1 else f"task.{number}"
        missing = [name for name in initial if name not in givers]
        if missing:
            why = f"the sub-task requires {' and '.join(missing)}, not given by the previous sub-task, which ends with"
            _refuse(key, typed, f"{why} {stages[-1].name}: end it with drop and withdraw")
        lasting += [(name, giver) for name, giver in givers.items() if giver != BEFORE and predicates[name].lasts]
        given_again = {name for stage in composed for name in stage.gives}  # its object may leave its place
        lasting = [(name, giver) for name, giver in lasting if name not in given_again or acted_on[giver] != target]
        givers = dict.fromkeys(initial, BEFORE)
        firsts.append(len(stages))
        seen = {frozenset(givers): "the start"}
        for stage in composed:
            givers, during = _after(stage, stages, givers, predicates, key, typed)
            kept.append(_must_hold(during, lasting, predicates))
            stages.append(stage)
            acted_on.append(target)
            state = frozenset(givers)
            if state in seen:
                _refuse(key, typed, f"{stage.name} undoes every stage after {seen[state]}")
            seen[state] = stage.name
    kept.append(_must_hold(givers, lasting, predicates))
    given = [*lasting, *((name, giver) for name, giver in givers.items() if giver != BEFORE)]
    gives = tuple(sorted(given, key=lambda item: item[1]))
    return StageSequence(tuple(stages), tuple(kept), gives, tuple(firsts), predicates)


def _known_predicates(stages: Sequence[Stage]) -> dict[str, Predicate]:
    """Return name → predicate, of the built-in predicates and those that the stages mention; refuse unknown ones."""
    predicates = load_predicates(name for stage in stages for name in (*stage.requires, *stage.gives, *stage.ends))
    for stage in stages:
        for key in ("requires", "gives", "ends"):
            for name in getattr(stage, key):
                if name not in predicates:
                    why = "is not a known predicate"
                    raise ConfigError(bad_value(f"stage {stage.name}: {key}", name, list(predicates), why))
    return predicates


def _after(
    stage: Stage,
    stages: Sequence[Stage],
    givers: dict[str, int],
    predicates: Mapping[str, Predicate],
    key: str,
    typed: str | Sequence[str],
) -> tuple[dict[str, int], dict[str, int]]:
    """Return predicate → giver, after a stage that follows `stages` and during it."""
    missing = [name for name in stage.requires if name not in givers]
    if missing:
        name = missing[0]
        given_by = ", ".join(entry.name for entry in registry("stage") if name in entry.load().gives) or "no stage"
        why = "which no stage before it gives"
        if predicates[name].initial or any(name in each.gives for each in stages):
            enders = [each.name for each in stages if name in each.ends or _is_excluded(name, each.gives, predicates)]
            why = f"which ends with {enders[-1]}"
        _refuse(key, typed, f"{stage.name} requires {name!r}, {why} (given by: {given_by})")
    repeated = [name for name in stage.gives if name in givers]
    if repeated:
        giver = givers[repeated[0]]
        since = f"since {stages[giver].name}: omit one of the two" if giver != BEFORE else "from the start"
        why = f"{stage.name} gives {' and '.join(repeated)}, which already holds {since}"
        _refuse(key, typed, f"{why}, or let the stage give another predicate, see `register_predicate`")
    ends = {*stage.ends, *(name for name in givers if _is_excluded(name, stage.gives, predicates))}
    during = {name: giver for name, giver in givers.items() if name not in ends}
    return {**during, **dict.fromkeys(stage.gives, len(stages))}, during


def _is_excluded(name: str, gives: Sequence[str], predicates: Mapping[str, Predicate]) -> bool:
    """Return whether a predicate ends when `gives` begin to hold."""
    return any(given in predicates[name].excludes or name in predicates[given].excludes for given in gives)


def held_after(stages: Sequence[Stage], predicates: Mapping[str, Predicate]) -> tuple[bool, ...]:
    """Return whether a hand holds the object after each stage of a sub-task."""
    holding: set[str] = set()
    result = []
    for stage in stages:
        holding = {
            name for name in holding if name not in stage.ends and not _is_excluded(name, stage.gives, predicates)
        }
        holding |= {name for name in stage.gives if predicates[name].holds_object}
        result.append(bool(holding))
    return tuple(result)


def _must_hold(
    givers: dict[str, int], lasting: Sequence[tuple[str, int]], predicates: Mapping[str, Predicate]
) -> tuple[tuple[str, int], ...]:
    """`(predicate, index of its giver)` of the given predicates that are not events, latest giver first."""
    given = [*lasting, *((name, giver) for name, giver in givers.items() if giver != BEFORE)]
    return tuple(sorted((item for item in given if not predicates[item[0]].event), key=lambda item: -item[1]))


def _refuse(key: str, typed: str | Sequence[str], why: str) -> None:
    allowed = "stages that follow from each other, e.g. A, AG, AGM, AGMDW, [approach, push]"
    raise ConfigError(bad_value(key, as_typed(typed), allowed, f"is an invalid composition: {why}"))
