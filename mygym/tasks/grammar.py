"""Letters and names → stages, and whether they make a task: derived from what stages require and give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.registry import registry
from mygym.tasks.facts import EXCLUDES, INITIALLY
from mygym.tasks.stages import Stage

BEFORE = -1
"""Giver of the facts that hold at a reset."""


@dataclass(frozen=True)
class Plan:
    """A grammatical composition: its stages, and which facts are in force when."""

    stages: tuple[Stage, ...]
    kept: tuple[tuple[tuple[str, int], ...], ...]
    """For each stage, and at the end: `(fact, index of its giver)` of what must keep holding, latest first.

    What a stage itself ends (withdrawing ends being near) need not hold during it.
    """

    @property
    def gives(self) -> dict[str, int]:
        """Facts that the whole composition leaves behind → index of the stage that gave them."""
        return dict(self.kept[-1])


def letters() -> dict[str, str]:
    """Letter → stage name."""
    return {entry.load().letter: entry.name for entry in registry("stage") if entry.load().letter}


def parse(task: str | Sequence[str]) -> tuple[Stage, ...]:
    """Stages from letters (`"AGMDW"`) or from a list of stage names (`["approach", "push"]`).

    Raises:
        ConfigError: Empty, an unknown letter or an unknown stage.
    """
    if not task:
        raise ConfigError(bad_value("task", task, sorted(registry("task").names()), "is empty"))
    stages = registry("stage")
    if isinstance(task, str):
        known = letters()
        unknown = next((letter for letter in task if letter not in known), None)
        if unknown is not None:
            names = ", ".join(f"{letter} {name}" for letter, name in sorted(known.items()))
            tasks = registry("task").names()
            raise ConfigError(
                bad_value("task", task, tasks, f"is neither a task nor made of the letters {names} ({unknown!r})")
            )
        task = [known[letter] for letter in task]
    try:
        return tuple(stages.get(name, "task").load() for name in task)
    except RegistryError as error:
        raise ConfigError(str(error)) from None


def plan(stages: Sequence[Stage], said_as: str | Sequence[str]) -> Plan:
    """Check that each stage may follow the ones before it and that nothing is undone.

    Raises:
        ConfigError: Not grammatical; the message says which stage lacks what, and which stage would give it.
    """
    givers: dict[str, int] = dict.fromkeys(INITIALLY, BEFORE)
    kept = []
    seen = {frozenset(givers): "the start"}
    for index, stage in enumerate(stages):
        missing = [fact for fact in stage.requires if fact not in givers]
        if missing:
            givers_of = [entry.name for entry in registry("stage") if missing[0] in entry.load().gives]
            _refuse(said_as, f"{stage.name} requires {missing[0]!r}, which nothing before it gives "
                    f"(given by: {', '.join(givers_of) or 'no stage'})")  # fmt: skip
        if all(fact in givers for fact in stage.gives):
            _refuse(said_as, f"{stage.name} gives {' and '.join(stage.gives)}, which holds already")
        ends = {*stage.ends, *(EXCLUDES[fact] for fact in stage.gives if fact in EXCLUDES)}
        givers = {fact: giver for fact, giver in givers.items() if fact not in ends}
        kept.append(_in_force(givers))
        givers.update(dict.fromkeys(stage.gives, index))
        state = frozenset(givers)
        if state in seen:
            _refuse(said_as, f"{stage.name} undoes what came after {seen[state]}: nothing would be left to show for it")
        seen[state] = stage.name
    kept.append(_in_force(givers))
    return Plan(tuple(stages), tuple(kept))


def _in_force(givers: dict[str, int]) -> tuple[tuple[str, int], ...]:
    given = [(fact, giver) for fact, giver in givers.items() if giver != BEFORE]
    return tuple(sorted(given, key=lambda item: -item[1]))


def _refuse(said_as: str | Sequence[str], why: str) -> None:
    examples = "e.g. A, AG, AGM, AGMDW, [approach, push]"
    raise ConfigError(
        bad_value("task", said_as, f"stages that follow from each other, {examples}", f"makes no sense: {why}")
    )
