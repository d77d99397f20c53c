"""Objective of a sweep: score of a run from its result, and of a trial from its runs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mygym.errors import ConfigError, bad_value
from mygym.nested import at
from mygym.reporting.statistics import iqm
from mygym.runs.result import Result

NAMES = ("success", "seconds", "steps_to_0.9", "seconds_to_0.9", "{maximize: KEY}", "{minimize: KEY}")
FORMS = f"{', '.join(NAMES)}; KEY: a number in result.json, e.g. mean_return"

NUMBERS = ("steps", "success_rate", "mean_return", "wall_time_s", "steps_per_second")
NESTED = ("strategy", "success_by_task", "stage_reached")
"""Fields of a result that are numbers, and mappings with numbers."""

COSTS = {"steps": "steps", "seconds": "wall_time_s"}
"""Cost in the name of an objective → its field of an evaluation and of a result."""


@dataclass(frozen=True)
class Objective:
    """Number that a sweep maximizes or minimizes."""

    name: str
    """Name for tables and axes, e.g. `steps_to_0.9`."""
    maximize: bool
    path: tuple[str, ...] = ()
    """Path of a number in result.json; empty for a cost."""
    cost: str = ""
    """`steps` or `wall_time_s` until the threshold; empty for a number in result.json."""
    threshold: float = 0.0
    """Success rate in (0, 1]."""

    @property
    def metric(self) -> str:
        """Figure of the evaluations that a pruner compares: `return` if it is the objective, else `success`."""
        return "return" if self.path == ("mean_return",) else "success"

    def intermediate(self, figure: float) -> float:
        """Return a figure of an evaluation with the sign of the objective: success is good if a cost is minimized."""
        return figure if self.maximize or self.metric == "return" else -figure

    def score(self, result: Result) -> float | None:
        """Return the score of a run that is done or diverged; None if its result has no such number.

        A diverged run has a success rate of 0. A run that never reaches the threshold costs up to twice its whole cost,
        the less the nearer its best evaluation came.
        """
        if self.cost:
            return self._cost(result)
        if result.status == "diverged":
            return 0.0 if self.path == ("success_rate",) else None
        number = at(result.to_json(), self.path)
        known = isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)
        return float(number) if known else None

    def _cost(self, result: Result) -> float:
        reached = result.first_at(self.threshold)
        if reached is not None and result.status != "diverged":
            return float(reached[self.cost])
        rates = [float(evaluation["success_rate"]) for evaluation in result.evaluations]
        nearest = max(rates, default=0.0) if result.status != "diverged" else 0.0
        return float(getattr(result, self.cost)) * (2 - min(1.0, nearest / self.threshold))


def parse_objective(setting: str | Mapping[Any, str]) -> Objective:
    """Return the objective of a setting, e.g. `success` or `{"minimize": "wall_time_s"}`.

    Raises:
        ConfigError: It has no such form, or names no number in result.json.
    """
    if setting == "success":
        return Objective("success", True, ("success_rate",))
    if setting == "seconds":
        return Objective("seconds", False, ("wall_time_s",))
    if isinstance(setting, str):
        match = re.fullmatch(r"(steps|seconds)_to_(0\.\d+|1|1\.0)", setting)
        if match is None or float(match[2]) == 0:
            raise ConfigError(bad_value("sweep.objective", setting, NAMES))
        return Objective(setting, False, cost=COSTS[match[1]], threshold=float(match[2]))
    if len(setting) != 1:
        raise ConfigError(bad_value("sweep.objective", dict(setting), FORMS))
    (direction, key), *_ = setting.items()
    path = tuple(key.split("."))
    if path[0] not in (*NUMBERS, *NESTED) or (path[0] in NUMBERS) != (len(path) == 1):
        names = [*NUMBERS, *(f"{name}.KEY" for name in NESTED)]
        raise ConfigError(bad_value(f"sweep.objective.{direction}", key, names, "is no number in result.json"))
    return Objective(key, direction == "maximize", path)


def judge(scores: Sequence[Sequence[float]]) -> list[float]:
    """Return a score for each objective: the interquartile mean over the seeds, from scores `(seeds, objectives)`."""
    return [float(iqm(np.array(of_seeds, float).reshape(-1, 1))) for of_seeds in zip(*scores, strict=True)]
