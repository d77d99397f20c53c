"""Grammar of compositions, and its messages."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, RegistryError
from mygym.registry import registry
from mygym.tasks.context import ArmCommand
from mygym.tasks.grammar import BEFORE, letters, parse
from mygym.tasks.lookup import find_task
from mygym.tasks.stage import register_stage
from mygym.tasks.task import register_task
from tests.components import MAX_LETTERS, TASKS, compositions, is_grammatical
from tests.tasks.states import EXCLUDES, INITIAL

STAGES = registry("stage").names()
WORDS = st.text(st.sampled_from(sorted(letters())), max_size=7)
LISTS = st.lists(st.sampled_from(STAGES), max_size=7)


def test_stages_use_known_predicates_and_give_at_least_one() -> None:
    for name in STAGES:
        stage = registry("stage").get(name).load()
        assert stage.gives
        assert {*stage.requires, *stage.gives, *stage.ends} <= set(registry("predicate").names())
        assert stage.letter == "" or (len(stage.letter) == 1 and stage.letter.isupper())


def test_no_two_stages_share_a_letter() -> None:
    known = [entry.load().letter for entry in registry("stage") if entry.load().letter]
    assert len(known) == len(set(known))
    assert {"A", "G", "M", "D", "W"} <= set(known)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"letter": "G"}, r"stage hoist: letter: 'G' is the letter of grasp \(.*\); allowed: B, .*"),
        ({"letter": "QQ"}, "stage hoist: letter: 'QQ' .*one capital letter"),
        ({"letter": "q"}, "stage hoist: letter: 'q' .*one capital letter"),
        ({"name": "lift"}, "stage hoist: name: 'lift' .*; allowed: hoist"),
        ({"weight": -1.0}, "stage hoist: weight: -1.0 .*; allowed: a positive number"),
        ({"weight": float("nan")}, "stage hoist: weight: nan .*; allowed: a positive number"),
        ({"arms": 3}, "stage hoist: arms: 3 .*; allowed: 1, 2"),
    ],
    ids=str,
)
def test_a_stage_with_a_wrong_value_is_not_registered(changes: dict[str, Any], message: str) -> None:
    move = registry("stage").get("move").load()
    with pytest.raises(RegistryError, match=message):
        register_stage("hoist", replace(move, **{"name": "hoist", "letter": "", **changes}))
    assert "hoist" not in registry("stage")


@pytest.mark.parametrize(
    ("field", "result", "named"),
    [
        ("potential", None, ("stage hoist", "None", "(1,)")),
        ("potential", 0.5, ("stage hoist", "float", "(1,)")),
        ("expert", None, ("stage hoist", "None", "ArmCommand")),
        ("expert", ArmCommand(np.zeros((1, 2)), 1.0), ("stage hoist: target", "(1, 2)", "(1, 3)")),
        ("expert", ArmCommand((0.0, 0.0, 0.3), 1.0), ("stage hoist: target", "tuple", "(1, 3)")),  # type: ignore[arg-type]
        ("expert", ArmCommand(np.zeros((1, 3)), 1.0, None, np.zeros(3)), ("second_target", "(3,)", "(1, 3)")),
        ("complete", np.zeros((1, 3), dtype=bool), ("stage hoist", "(1, 3)", "(1,)")),
        ("waypoint", None, ("stage hoist", "None", "(1, 3)")),
        ("waypoint", np.zeros(3), ("stage hoist", "(3,)", "(1, 3)")),
    ],
    ids=str,
)
def test_a_result_of_a_stage_of_another_form_is_refused_by_name(
    field: str, result: Any, named: tuple[str, ...]
) -> None:
    push = registry("stage").get("push").load()
    register_stage("hoist", replace(push, name="hoist", letter="", requires=(), **{field: lambda *_: result}))
    with pytest.raises(RegistryError) as caught:
        play_a_step(["hoist"])
    assert all(word in str(caught.value) for word in (*named, f"{__file__}:"))


def play_a_step(task: list[str]) -> None:
    with RobotEnv(task, reward="shaped") as env:
        env.reset(seed=0)
        env.step(env.expert_action())


def test_a_task_replaces_no_composition() -> None:
    with pytest.raises(RegistryError, match="task: 'AGM' is a composition"):
        register_task("AGM", stages=["approach", "push"])
    assert find_task("AGM").stage_names == ("approach", "grasp", "move")
    assert register_task("ABC", stages=["approach", "push"]).name == "ABC"  # no stage has the letter B


@pytest.mark.parametrize("composition", ["A", "AG", "AGM", "AGMD", "AGMDW", ["approach", "push"], ["approach"]])
def test_valid_compositions(composition: str | list[str]) -> None:
    task = find_task(composition)
    names = composition if isinstance(composition, list) else [letters()[letter] for letter in composition]
    assert list(task.stage_names) == names


@pytest.mark.parametrize(
    ("composition", "words"),
    [
        ("GA", ["'GA'", "grasp requires 'near'", "given by: approach"]),
        ("M", ["'M'", "move requires 'held'", "given by: grasp"]),
        ("AM", ["'AM'", "move requires 'held'", "given by: grasp"]),
        ("AX", ["'AX'", "'X'", "A approach", "W withdraw"]),
        ("ax", ["'ax'", "'a'", "A approach"]),
        ("", ["''", "is empty"]),
        ([], ["task: [] is empty", "a list of stage names"]),
        ("AA", ["'AA'", "approach gives near, which already holds since approach", "omit one of the two"]),
        ("AGG", ["'AGG'", "grasp requires 'free'"]),
        ("AGD", ["'AGD'", "drop undoes every stage after approach"]),
        ("AW", ["'AW'", "withdraw undoes"]),
        ("reech", ["'reech'", "did you mean 'reach'"]),
        ("pick_and_plaec", ["did you mean 'pick_and_place'"]),
        (["approach", "grasp", "grasp"], ["['approach', 'grasp', 'grasp']", "grasp requires 'free'"]),
        ("agmdw", ["'agmdw'", "letters are capitals: 'AGMDW'?"]),
        (["approach", "pusch"], ["'pusch'", "did you mean 'push'"]),
        (["push", "approach"], ["push requires 'near'", "which no stage before it gives", "given by: approach"]),
        (["approach", "push", "push"], ["push requires 'near'", "which ends with push", "given by: approach"]),
        (None, ["None", "a name, letters"]),
        (5, ["5", "a name, letters"]),
        ({"stages": "A"}, ["{'stages': 'A'}", "sub-tasks"]),
    ],
)
def test_invalid_compositions_are_refused_with_the_reason(composition: Any, words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        find_task(composition)
    assert str(error.value).startswith("task: ")
    for word in words:
        assert word in str(error.value)


def check(composition: str | list[str]) -> None:
    """Check a composition: a ConfigError, or a sequence whose predicates follow the grammar.

    Each stage has the predicates that it requires, and gives predicates that do not hold yet.
    """
    try:
        task = find_task(composition)
    except ConfigError:
        return
    stages = task.sequence.stages
    assert stages == parse(composition)
    assert len(task.sequence.kept) == len(stages) + 1
    holds, seen = set(INITIAL), [set(INITIAL)]
    for index, stage in enumerate(stages):
        assert set(stage.requires) <= holds
        assert not set(stage.gives) <= holds
        ended = {*stage.ends, *(excluded for name in stage.gives for excluded in EXCLUDES.get(name, ()))}
        kept = dict(task.sequence.kept[index])
        assert not any(task.sequence.predicates[name].event for name in kept)
        assert set(kept) <= holds - ended
        assert all(name in stages[giver].gives for name, giver in kept.items())
        givers = [giver for _, giver in task.sequence.kept[index]]
        assert givers == sorted(givers, reverse=True)
        assert all(BEFORE < giver < index for giver in givers)
        holds = (holds - ended) | set(stage.gives)
        assert holds not in seen
        seen.append(holds)
    given = [name for name, _ in task.sequence.gives]
    assert set(given) == holds - {name for name in INITIAL if name not in given}
    assert set(stages[-1].gives) <= set(given)
    assert all(name in stages[giver].gives for name, giver in task.sequence.gives)
    assert task.describe()
    assert task.horizon > 0


@given(WORDS)
def test_any_letters_are_consistent_or_a_config_error(composition: str) -> None:
    if composition not in TASKS:
        check(composition)


@given(LISTS)
def test_any_stages_are_consistent_or_a_config_error(composition: list[str]) -> None:
    check(composition)


@given(st.one_of(st.text(max_size=8), st.lists(st.text(max_size=8), max_size=4)))
def test_any_text_is_a_task_or_a_config_error(composition: str | list[str]) -> None:
    with contextlib.suppress(ConfigError):
        assert find_task(composition).sequence.stages


def test_compositions_are_consistent_and_finite() -> None:
    assert {"A", "AG", "AGM", "AGMD", "AGMDW"} <= set(compositions())
    assert max(map(len, compositions())) < MAX_LETTERS
    for composition in compositions():
        check(composition)


@given(WORDS)
def test_a_prefix_of_a_composition_is_a_composition(composition: str) -> None:
    if is_grammatical(composition):
        assert all(is_grammatical(composition[:length]) for length in range(1, len(composition)))


def test_letters_of_a_named_task_have_its_parameters() -> None:
    assert find_task("AGM").horizon == find_task("pick_and_place").horizon
    assert find_task(["approach", "push"]).run_defaults == find_task("push").run_defaults


def test_a_task_from_a_list_of_stages_is_registered_under_its_name() -> None:
    task = register_task("tap", ["approach", "push"], help="touch and go", horizon=33)
    assert find_task("tap") == task
    assert (task.horizon, task.stage_names) == (33, ("approach", "push"))


def test_named_tasks_are_consistent() -> None:
    for name in TASKS:
        check(list(find_task(name).stage_names))
