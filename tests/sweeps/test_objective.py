"""Scores of runs and of trials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mygym.sweeps.settings import judge, parse_objective
from mygym.training.result import Result

NAMES = {"algo": "ppo", "framework": "pytorch", "robot": "panda", "task": "reach", "workspace": "table"}


def result(rates: list[float], status: str = "done", **figures: Any) -> Result:
    """A result with an evaluation every 10 steps, which take a second."""
    evaluations = [{"steps": 10 * i, "wall_time_s": float(i), "success_rate": rate} for i, rate in enumerate(rates)]
    values = {"engine": "pybullet", "seed": 0, "config_hash": "1", "steps": 50, "wall_time_s": 9.0, **figures}
    return Result(Path("run"), **NAMES, **values, status=status, evaluations=evaluations, success_rate=rates[-1])


@pytest.mark.parametrize(
    ("objective", "run", "score"),
    [
        ("success", result([0.0, 0.4]), 0.4),
        ("success", result([0.0, 0.4], "diverged"), 0.0),
        ("steps_to_0.9", result([0.0, 0.5, 0.9, 1.0]), 20.0),
        ("seconds_to_0.5", result([0.0, 0.5, 0.9, 1.0]), 1.0),
        ("steps_to_0.9", result([0.0, 0.45, 0.3]), 75.0),
        ("steps_to_0.9", result([0.0, 0.0]), 100.0),
        ("steps_to_0.9", result([0.0, 0.95], "diverged"), 100.0),
        ({"minimize": "wall_time_s"}, result([0.0, 0.1]), 9.0),
        ({"maximize": "strategy.curriculum.level"}, result([0.0, 0.1], strategy={"curriculum": {"level": 2}}), 2.0),
        ({"maximize": "strategy.curriculum.level"}, result([0.0, 0.1]), None),
        ({"maximize": "mean_return"}, result([0.0, 0.1], "diverged"), None),
        ({"maximize": "mean_return"}, result([0.0, 0.1], mean_return=float("nan")), None),
    ],
)
def test_scores(objective: Any, run: Result, score: float | None) -> None:
    assert parse_objective(objective).score(run) == score


def test_a_trial_is_judged_by_the_middle_half_of_its_seeds() -> None:
    assert judge([[0.0, 5.0], [0.8, 1.0], [0.9, 2.0], [1.0, 9.0]]) == pytest.approx([0.85, 3.5])
    assert judge([[0.7]]) == [0.7]


@pytest.mark.parametrize(
    ("objective", "figure"), [("success", 0.4), ("steps_to_0.9", -0.4), ({"minimize": "steps"}, -0.4)]
)
def test_pruners_prefer_success(objective: Any, figure: float) -> None:
    assert parse_objective(objective).intermediate(0.4) == figure
