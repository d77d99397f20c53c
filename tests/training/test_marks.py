"""Marks are passed once each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mygym.training.run_callbacks import Marks


@given(every=st.integers(1, 50), moves=st.lists(st.integers(1, 120), max_size=40))
def test_each_mark_is_passed_once(every: int, moves: list[int]) -> None:
    marks, steps = Marks(every), 0
    assert marks.passed(0)
    assert not marks.passed(0)
    for move in moves:
        crossed = (steps + move) // every > steps // every
        steps += move
        assert marks.passed(steps) == crossed
        assert not marks.passed(steps)


def test_first_mark_can_be_later_than_the_start() -> None:
    marks = Marks(10, first=10)
    assert [marks.passed(steps) for steps in (0, 9, 10, 11, 35, 36)] == [False, False, True, False, True, False]
