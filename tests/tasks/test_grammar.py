"""Which stages follow from each other, and what is said when they do not."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.errors import ConfigError
from mygym.registry import registry
from mygym.tasks.grammar import BEFORE, letters, parse
from mygym.tasks.lookup import find_task
from mygym.tasks.task import register_task
from tests.components import LONGEST, TASKS, compositions, is_grammatical
from tests.tasks.states import EXCLUDES, INITIAL, PREDICATES

STAGES = registry("stage").names()
WORDS = st.text(st.sampled_from(sorted(letters())), max_size=7)
LISTS = st.lists(st.sampled_from(STAGES), max_size=7)


@pytest.mark.parametrize("name", STAGES)
def test_stages_speak_of_known_facts_and_give_one(name: str) -> None:
    stage = registry("stage").get(name).load()
    assert stage.gives
    assert {*stage.requires, *stage.gives, *stage.ends} <= PREDICATES.keys()
    assert stage.letter == "" or (len(stage.letter) == 1 and stage.letter.isupper())


def test_no_two_stages_share_a_letter() -> None:
    known = [entry.load().letter for entry in registry("stage") if entry.load().letter]
    assert len(known) == len(set(known))
    assert {"A", "G", "M", "D", "W"} <= set(known)


@pytest.mark.parametrize("said", ["A", "AG", "AGM", "AGMD", "AGMDW", ["approach", "push"], ["approach"]])
def test_what_makes_sense_is_a_task(said: str | list[str]) -> None:
    task = find_task(said)
    names = said if isinstance(said, list) else [letters()[letter] for letter in said]
    assert list(task.stage_names) == names


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("GA", ["'GA'", "grasp requires 'near'", "given by: approach"]),
        ("M", ["'M'", "move requires 'held'", "given by: grasp"]),
        ("AM", ["'AM'", "move requires 'held'", "given by: grasp"]),
        ("AX", ["'AX'", "'X'", "A approach", "W withdraw"]),
        ("ax", ["'ax'", "'a'", "A approach"]),
        ("", ["''", "is empty"]),
        ([], ["task: [] is empty", "a list of stage names"]),
        ("AA", ["'AA'", "approach gives near, which holds already since approach", "leave one of the two out"]),
        ("AGG", ["'AGG'", "grasp requires 'free'"]),
        ("AGD", ["'AGD'", "drop undoes every stage after approach"]),
        ("AW", ["'AW'", "withdraw undoes"]),
        ("reech", ["'reech'", "did you mean 'reach'"]),
        ("pick_and_plaec", ["did you mean 'pick_and_place'"]),
        (["approach", "grasp", "grasp"], ["['approach', 'grasp', 'grasp']", "grasp requires 'free'"]),
        ("agmdw", ["'agmdw'", "letters are capitals: 'AGMDW'?"]),
        (["approach", "pusch"], ["'pusch'", "did you mean 'push'"]),
        (["push", "approach"], ["push requires 'near'", "given by: approach"]),
        (None, ["None", "a name, letters"]),
        (5, ["5", "a name, letters"]),
        ({"stages": "A"}, ["{'stages': 'A'}", "sub-tasks"]),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(said: Any, words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        find_task(said)
    assert str(error.value).startswith("task: ")
    for word in words:
        assert word in str(error.value)


def check(said: str | list[str]) -> None:
    """Refused as a ConfigError, or every stage has what it requires, and nothing is given twice or in vain."""
    try:
        task = find_task(said)
    except ConfigError:
        return
    stages = task.plan.stages
    assert stages == parse(said)
    assert len(task.plan.kept) == len(stages) + 1
    holds, seen = set(INITIAL), [set(INITIAL)]
    for index, stage in enumerate(stages):
        assert set(stage.requires) <= holds
        assert not set(stage.gives) <= holds
        ended = {*stage.ends, *(excluded for name in stage.gives for excluded in EXCLUDES.get(name, ()))}
        kept = dict(task.plan.kept[index])
        assert not any(PREDICATES[fact].event for fact in kept)
        assert set(kept) <= holds - ended
        assert all(fact in stages[giver].gives for fact, giver in kept.items())
        givers = [giver for _, giver in task.plan.kept[index]]
        assert givers == sorted(givers, reverse=True)
        assert all(BEFORE < giver < index for giver in givers)
        holds = (holds - ended) | set(stage.gives)
        assert holds not in seen
        seen.append(holds)
    given = [fact for fact, _ in task.plan.gives]
    assert set(given) == holds - {fact for fact in INITIAL if fact not in given}
    assert set(stages[-1].gives) <= set(given)
    assert all(fact in stages[giver].gives for fact, giver in task.plan.gives)
    assert task.describe()
    assert task.horizon > 0


@given(WORDS)
def test_any_letters_are_refused_or_consistent(said: str) -> None:
    if said not in TASKS:
        check(said)


@given(LISTS)
def test_any_stages_are_refused_or_consistent(said: list[str]) -> None:
    check(said)


@given(st.one_of(st.text(max_size=8), st.lists(st.text(max_size=8), max_size=4)))
def test_any_text_is_refused_or_a_task(said: str | list[str]) -> None:
    with contextlib.suppress(ConfigError):
        assert find_task(said).plan.stages


def test_every_composition_is_consistent_and_they_are_finitely_many() -> None:
    assert {"A", "AG", "AGM", "AGMD", "AGMDW"} <= set(compositions())
    assert max(map(len, compositions())) < LONGEST
    for said in compositions():
        check(said)


@given(WORDS)
def test_the_beginning_of_a_composition_is_a_composition(said: str) -> None:
    if is_grammatical(said):
        assert all(is_grammatical(said[:length]) for length in range(1, len(said)))


def test_letters_of_a_named_task_are_that_task() -> None:
    assert find_task("AGM").horizon == find_task("pick_and_place").horizon
    assert find_task(["approach", "push"]).run_defaults == find_task("push").run_defaults


def test_a_task_from_a_list_of_stages_is_registered_under_its_name() -> None:
    task = register_task("tap", ["approach", "push"], help="touch and go", horizon=33)
    assert find_task("tap") == task
    assert (task.horizon, task.stage_names) == (33, ("approach", "push"))


@pytest.mark.parametrize("name", TASKS)
def test_named_tasks_are_consistent(name: str) -> None:
    check(list(find_task(name).stage_names))
