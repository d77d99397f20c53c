"""Marks, records and lines."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.logger import Logger

from mygym.runs.evaluation import Episode, Evaluation
from mygym.runs.evaluation_callback import EvaluationCallback, StopTraining
from mygym.runs.marks import Marks


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


def test_checkpoints_begin_at_the_first_mark_not_at_the_start() -> None:
    marks = Marks(10, first=10)
    assert [marks.passed(steps) for steps in (0, 9, 10, 11, 35, 36)] == [False, False, True, False, True, False]


def evaluations(rates: list[float], stop_at: float | None) -> tuple[list[bool], list[int], EvaluationCallback]:
    """Whether training goes on after each evaluation, and which were the best so far."""
    best: list[int] = []

    def evaluate(number: int) -> Evaluation:
        solved = round(rates[number] * 100)
        return Evaluation(tuple(Episode(i, i < solved, -1.0, 1, 0.0, "done") for i in range(100)))

    callback = EvaluationCallback(
        evaluate, 10, stop_at, lambda: 0.0, lambda: best.append(len(callback.records)), lambda record: None
    )
    callback.model = SimpleNamespace(logger=Logger(None, []), num_timesteps=0)  # what a callback asks of its model
    goes_on = []
    for number in range(len(rates)):
        callback.model.num_timesteps = 10 * number
        try:
            callback.on_rollout_start()
        except StopTraining:
            goes_on.append(False)
        else:
            goes_on.append(True)
    return goes_on, best, callback


def test_two_good_evaluations_in_a_row_stop_the_training() -> None:
    assert evaluations([0.0, 0.99, 0.5, 0.98, 1.0], 0.98)[0] == [True, True, True, True, False]
    assert evaluations([1.0, 1.0], 0.98)[0] == [True, False]
    assert evaluations([1.0, 1.0, 1.0], None)[0] == [True] * 3


def test_the_best_evaluation_is_kept() -> None:
    assert evaluations([0.0, 0.5, 0.4, 0.5, 0.6], None)[1] == [1, 2, 5]


def test_an_evaluation_callback_continues_where_its_state_was_taken() -> None:
    callback = evaluations([0.2, 0.99], 0.98)[2]
    other = evaluations([], 0.98)[2]
    other.load_state_dict(callback.state_dict())
    assert (other.records, other.best, other.marks.next) == (callback.records, callback.best, 20)
    assert [record["steps"] for record in other.records] == [0, 10]
