"""Conflicting sub-goals are refused in either order; other sub-goals are accepted."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.errors import ConfigError
from mygym.registry import registry
from mygym.tasks.lookup import find_task
from mygym.tasks.predicates import at_goal, register_predicate
from mygym.tasks.stage import register_stage
from tests.components import TASKS, several, tower
from tests.tasks.states import SAME_AGAIN

OBJECTS = ("cube", "die", "plate", "book")


def onto(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
    """Return sub-tasks that put the first object of each pair onto the second, pair after pair."""
    return [{"stages": "AGMDW", "object": top, "onto": base} for top, base in pairs]


@pytest.mark.parametrize(
    ("composition", "words"),
    [
        (onto(("cube", "plate"), ("plate", "cube")), ["task.1.object", "'plate' has cube on it", "before sub-task 0"]),
        (onto(("cube", "plate"), ("die", "plate")), ["task.1.onto", "'plate' has cube on it", "such as cube", "area"]),
        ([*onto(("cube", "plate")), *several("plate")], ["task.1.object", "'plate' has cube on it by sub-task 0"]),
        (
            [*onto(("cube", "plate")), {"stages": ["approach", "push"], "object": "plate"}],
            ["task.1.object", "'plate' has cube on it"],
        ),
        (onto(("cube", "plate"), ("cube", "book")), ["task.1.object", "'cube' is put onto plate by sub-task 0"]),
        (onto(("cube", "plate"), ("cube", "plate")), ["task.1.object", "'cube' is put onto plate"]),
        ([*several("book"), *onto(("cube", "plate")), *several("cube")], ["task.2.object", "by sub-task 1"]),
        (list(reversed(tower("a", "b", "c")[1:])), ["task.1.object", "'b' has c on it by sub-task 0"]),
    ],
)
def test_conflicting_sub_goals_are_refused_with_key_and_remedy(composition: Any, words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        find_task(composition)
    for word in (*words, "allowed"):
        assert word in str(error.value)


def test_sub_goals_without_a_conflict_are_accepted() -> None:
    for composition in [
        *TASKS,
        SAME_AGAIN,
        tower("a", "b", "c", "d"),
        [*several("plate"), *onto(("cube", "plate"))],
        [*onto(("cube", "plate")), {"stages": ["approach", "poke", "withdraw"], "object": "plate"}],
        [*onto(("cube", "plate")), {"stages": ["approach", "open"], "part": "cabinet.drawer"}],
        [{"stages": ["approach", "open", "withdraw"], "part": "cabinet.drawer"}] * 2,
        onto(("cube", "plate"), ("die", "book")),
        onto(("cube", "plate"), ("die", "cube")),
    ]:
        find_task(composition)


@pytest.mark.parametrize("properties", [{"moves_object": True}, {"holds_object": True}, {"places_object": True}])
def test_a_user_defined_predicate_that_moves_objects_undoes_sub_goals(properties: dict[str, bool]) -> None:
    sweep = replace(registry("stage").get("push").load(), name="sweep", gives=("swept",))
    register_stage("sweep", sweep, override=True)
    sequence = [*onto(("cube", "plate")), {"stages": ["approach", "sweep"], "object": "cube"}]
    register_predicate("swept", override=True)(at_goal)
    find_task(sequence)
    register_predicate("swept", **properties, override=True)(at_goal)
    with pytest.raises(ConfigError, match=r"task\.1\.object: 'cube' .*plate.* 0"):
        find_task(sequence)


def test_a_user_defined_predicate_that_places_objects_occupies_the_base() -> None:
    carry = replace(registry("stage").get("move").load(), name="carry", letter="", gives=("swept",))
    register_stage("carry", carry, override=True)
    stages = ["approach", "grasp", "carry", "drop", "withdraw"]
    sequence = [{"stages": stages, "object": "cube", "onto": "plate"}, *several("cube")]
    register_predicate("swept", moves_object=True, override=True)(at_goal)
    find_task(sequence)
    register_predicate("swept", places_object=True, override=True)(at_goal)
    with pytest.raises(ConfigError, match=r"task\.1\.object: 'cube' .*plate.* 0"):
        find_task(sequence)


@given(order=st.permutations(OBJECTS), length=st.integers(2, len(OBJECTS)), first=st.integers(0, 3))
def test_a_cycle_of_bases_is_refused(order: list[str], length: int, first: int) -> None:
    ring = order[:length]
    pairs = [(ring[(i + first) % length], ring[(i + first + 1) % length]) for i in range(length)]
    for sequence in (pairs, pairs[::-1]):
        with pytest.raises(ConfigError, match=r"task\.\d\.(object|onto)"):
            find_task(onto(*sequence))


@given(pairs=st.lists(st.sampled_from(list(itertools.permutations(OBJECTS, 2))), min_size=1, max_size=4))
def test_accepted_sub_goals_are_possible_in_a_blocks_world(pairs: list[tuple[str, str]]) -> None:
    """Compare with a blocks world: the hand moves one block at a time, onto a free top."""
    under: dict[str, str] = {}
    possible = True
    for top, base in pairs:
        possible &= top not in under and top not in under.values() and base not in under.values()
        under[top] = base
    try:
        find_task(onto(*pairs))
    except ConfigError:
        assert not possible
    else:
        assert possible
        assert all(under[top] == base for top, base in pairs)
