"""Evaluations at marks: early stop, best model, state."""

from __future__ import annotations

from types import SimpleNamespace

from stable_baselines3.common.logger import Logger

from mygym.training.evaluation import EVALUATION, Episode, Evaluation, episode_seeds
from mygym.training.run_callbacks import EvaluationCallback, StopTraining


def evaluations(rates: list[float], stop_at: float | None) -> tuple[list[bool], list[int], EvaluationCallback]:
    """Return whether training continues after each evaluation, and the numbers of the best evaluations so far."""
    best: list[int] = []

    def evaluate(number: int) -> Evaluation:
        solved = round(rates[number] * 100)
        return Evaluation(tuple(Episode(i, i < solved, -1.0, 1, 0.0, "done") for i in range(100)))

    callback = EvaluationCallback(
        evaluate, 10, stop_at, lambda: 0.0, lambda: best.append(len(callback.records)), lambda record: None
    )
    callback.model = SimpleNamespace(logger=Logger(None, []), num_timesteps=0)  # the attributes that callbacks use
    continues = []
    for number in range(len(rates)):
        callback.model.num_timesteps = 10 * number
        try:
            callback.on_rollout_start()
        except StopTraining:
            continues.append(False)
        else:
            continues.append(True)
    return continues, best, callback


def test_two_successive_good_evaluations_stop_the_training() -> None:
    assert evaluations([0.0, 0.99, 0.5, 0.98, 1.0], 0.98)[0] == [True, True, True, True, False]
    assert evaluations([1.0, 1.0], 0.98)[0] == [True, False]
    assert evaluations([1.0, 1.0, 1.0], None)[0] == [True] * 3


def test_best_evaluations_are_reported() -> None:
    assert evaluations([0.0, 0.5, 0.4, 0.5, 0.6], None)[1] == [1, 2, 5]


def test_state_is_restored() -> None:
    callback = evaluations([0.2, 0.99], 0.98)[2]
    other = evaluations([], 0.98)[2]
    other.load_state_dict(callback.state_dict())
    assert (other.records, other.best, other.marks.next) == (callback.records, callback.best, 20)
    assert [record["steps"] for record in other.records] == [0, 10]


def test_extra_evaluations_play_other_episodes_than_those_at_marks() -> None:
    numbers: list[int] = []

    def evaluate(number: int) -> Evaluation:
        numbers.append(number)
        return Evaluation((Episode(0, True, -1.0, 1, 0.0, "done"),))

    def callback_of(steps: int) -> EvaluationCallback:
        callback = EvaluationCallback(evaluate, 10, None, lambda: 0.0, lambda: None, lambda record: None)
        callback.model = SimpleNamespace(logger=Logger(None, []), num_timesteps=steps)
        return callback

    first = callback_of(0)
    first.on_rollout_start()
    first.extra()
    first.extra()
    resumed = callback_of(10)
    resumed.load_state_dict(first.state_dict())
    resumed.extra()
    resumed.on_rollout_start()
    assert len(set(numbers)) == len(numbers) == 5
    assert (numbers[0], numbers[-1]) == (0, 1)
    assert len(resumed.records) == 2
    seeds = [seed for number in numbers for seed in episode_seeds(0, EVALUATION, 50, number)]
    assert len(set(seeds)) == 250
