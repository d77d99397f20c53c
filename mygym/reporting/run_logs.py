"""Logs of a run as arrays: everything that the rules of the doctor read."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mygym.errors import ConfigError, RegistryError
from mygym.nested import at
from mygym.reporting.curves import read_log, read_text
from mygym.reporting.records import RunRecord, find_runs
from mygym.reporting.statistics import Interval, success_interval
from mygym.tasks.lookup import find_task
from mygym.tasks.task import Task, actions_within, episode_limit
from mygym.training import directory
from mygym.types import FloatArray

RECENT = 100
"""Training episodes at the end of a run that show its present success."""

SUCCESS = "eval/success_rate"


@dataclass(frozen=True)
class RunLogs:
    """Config, result and logged series of a run."""

    record: RunRecord
    config: Mapping[str, Any]
    """Content of config.yaml."""
    lines: tuple[Mapping[str, Any], ...]
    """Lines of progress.jsonl; null stands for a number that was not finite."""
    episodes: Mapping[str, FloatArray]
    """Column of monitor.csv → its values `(episodes,)`, booleans as 0 and 1; older runs lack some columns."""

    def setting(self, key: str) -> Any:
        """Return the value of a dotted key of the config; None if it is absent."""
        return at(self.config, tuple(key.split(".")))

    def number(self, key: str) -> float | None:
        """Return the number of a dotted key of the config; None for schedules, names and absent keys."""
        value = self.setting(key)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def series(self, key: str) -> FloatArray:
        """Return the finite values `(n,)` of a key of progress.jsonl, in the order of the steps."""
        values = [line[key] for line in self.lines if isinstance(line.get(key), int | float)]
        return np.array(values, dtype=float)

    def column(self, name: str) -> FloatArray:
        """Return a column `(episodes,)` of monitor.csv; empty if it is absent."""
        return self.episodes.get(name, np.zeros(0))

    def steps_of(self, key: str) -> FloatArray:
        """Return the env steps `(n,)` of the values of `series`."""
        return np.array([line["steps"] for line in self.lines if isinstance(line.get(key), int | float)], dtype=float)

    @cached_property
    def task(self) -> Task | None:
        """The task; None if it is not registered here, or if the run trains several tasks."""
        if "multitask" in str(self.setting("strategy")):
            return None
        try:
            return find_task(self.config["task"])
        except (ConfigError, RegistryError, LookupError):
            return None

    @property
    def limit(self) -> int:
        """Env steps after which a training episode is truncated; 0 for several tasks."""
        horizon = self.number("task_params.horizon") or (self.task.horizon if self.task else 0)
        steps = episode_limit(horizon, self.number("task_params.training_horizon"))
        return actions_within(steps, int(self.number("control.action_repeat") or 1))

    @property
    def steps(self) -> int:
        """Env steps that were trained."""
        return self.record.steps

    @property
    def configured_steps(self) -> int:
        """Env steps that the config asks for."""
        return int(self.number("steps") or 0)

    @property
    def length(self) -> int:
        """Env steps of the whole run: those of the config unless it is done, since success may end it early."""
        return self.steps if self.record.status == "done" else self.configured_steps

    @property
    def is_young(self) -> bool:
        """Whether less than half of the run has been trained, so that its episodes prove little."""
        return self.steps < self.length / 2

    @property
    def success(self) -> float:
        """Success rate of the final episodes, or else of the last evaluation; 0 before the first."""
        evaluated = self.series(SUCCESS)
        if self.record.episodes and self.record.success_rate is not None:
            return self.record.success_rate
        return float(evaluated[-1]) if len(evaluated) else 0.0

    @property
    def success_bounds(self) -> Interval:
        """Wilson's interval of `success`."""
        episodes = self.record.episodes or int(self.number("eval.episodes") or 0)
        return success_interval(self.success * episodes, episodes)

    @property
    def recent_success(self) -> FloatArray:
        """Outcomes (0 or 1) of the last training episodes before `success` was measured; at most `RECENT`."""
        outcomes, ends = self.column("is_success"), np.cumsum(self.column("l"))
        evaluated = self.steps_of(SUCCESS)
        until = self.steps if self.record.episodes else evaluated[-1] if len(evaluated) else 0
        return outcomes[ends <= until][-RECENT:]

    @property
    def scale(self) -> float:
        """Largest size of a return of a training episode, at least 1."""
        return max(1.0, float(np.abs(self.column("r")).max(initial=0.0)))


def read_logs(run: str | Path) -> RunLogs:
    """Read the logs of a run; files that are missing or damaged count as empty.

    Raises:
        ConfigError: The path is not a run directory, or its config.yaml cannot be read.
    """
    path = directory.find(run)
    (record,) = find_runs(path)
    lines = tuple(line for line in read_log(path / directory.PROGRESS) if isinstance(line.get("steps"), int))
    return RunLogs(record, directory.saved_config(path), lines, _episodes(path / directory.MONITOR))


def _episodes(path: Path) -> dict[str, FloatArray]:
    """Return the columns of monitor.csv without incomplete rows; nothing if the file lacks a column of every run."""
    rows = csv.reader(line for line in read_text(path).splitlines() if not line.startswith("#"))
    header = next(rows, [])
    if not {"r", "l", "is_success"} <= set(header):
        return {}
    values = [numbers for row in rows if len(numbers := _numbers(row)) == len(header)]
    table = np.array(values, dtype=float).reshape(len(values), len(header))
    return dict(zip(header, table.T, strict=True))


def _numbers(row: list[str]) -> list[float]:
    """Return the numbers of a row; none if a cell is neither a number nor a truth value."""
    try:
        return [float(cell == "True") if cell in ("True", "False") else float(cell) for cell in row]
    except ValueError:
        return []
