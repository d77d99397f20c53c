"""Learning curves of runs and of settings: recorded figures, aligned on env steps or seconds, with bands."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mygym.errors import ConfigError, bad_value
from mygym.reporting.records import RUNNING, RunRecord
from mygym.reporting.settings import Setting
from mygym.reporting.statistics import RESAMPLES, SIGNIFICANCE, iqm, mean, median, success_interval
from mygym.training import directory
from mygym.training.result import Result
from mygym.types import FloatArray

AXES = {"steps": "env steps", "seconds": "training time"}
"""Field of a curve that an axis shows → its label."""

LABELS = {"success": "success rate", "return": "mean return"}
"""Metric of a run's outcome → its label; other metrics are recorded figures, whose label is their name."""

STATISTICS: Mapping[str, Callable[[FloatArray], FloatArray]] = {"iqm": iqm, "mean": mean, "median": median}
"""Name of an aggregate over runs → its function."""

LOGGED = {
    "steps": "steps",
    "wall_time_s": "time/wall_time_s",
    **{
        f"{source}{key}": f"{source.rstrip('_') or 'eval'}/{key}"
        for source in ("", "train_", "test_")
        for key in ("success_rate", "mean_return")
    },
}
"""Figure of an evaluation in result.json → its name in progress.jsonl."""

SHORT_NAMES = {
    "eval/success_rate": "success",
    "eval/mean_return": "return",
    "train/success_rate": "train_success",
    "train/mean_return": "train_return",
    "test/success_rate": "test_success",
    "test/mean_return": "test_return",
}
"""Name in progress.jsonl → the metric."""

_NO_METRICS = frozenset({"steps", "time/wall_time_s", "time/time_elapsed", "time/total_timesteps"})
"""Names in progress.jsonl of positions along an axis."""

MAX_POINTS = 50
"""Points of a curve of several runs; with fewer evaluations, all of their positions."""


@dataclass(frozen=True)
class Curve:
    """Figures that a run has recorded, in the order of their env steps."""

    series: Mapping[str, tuple[FloatArray, FloatArray]]
    """Metric → env steps `(n,)` and values `(n,)`; see `metric_names`."""
    times: tuple[FloatArray, FloatArray]
    """Env steps `(T,)`, and s `(T,)` since the run began."""
    stages: tuple[Mapping[str, int], ...] = ()
    """Number of episodes that ended in each stage, for each evaluation; empty if unknown."""
    status: str = "done"
    """Status of the run, see `RunRecord`."""

    def along(self, axis: str, metric: str) -> tuple[FloatArray, FloatArray]:
        """Return positions and values `(n,)` of a metric where both are known; times lie between recorded times."""
        nothing = np.zeros(0)
        x, y = self.series.get(metric, (nothing, nothing))
        if axis == "seconds":
            known = np.isfinite(self.times[1])
            steps, seconds = self.times[0][known], self.times[1][known]
            x = np.interp(x, steps, seconds, left=math.nan, right=math.nan) if len(steps) else np.full(len(x), math.nan)
        known = np.isfinite(x) & np.isfinite(y)
        return x[known], y[known]


class Band(NamedTuple):
    """Aggregate of several runs with its interval, along an axis."""

    x: FloatArray
    """`(P,)`."""
    value: FloatArray
    """`(P,)`."""
    low: FloatArray
    """`(P,)`; NaN with a single run."""
    high: FloatArray
    """`(P,)`."""


@dataclass(frozen=True)
class SettingCurves:
    """Curves of the runs of a setting."""

    setting: Setting
    curves: tuple[Curve, ...] = field(repr=False)
    """Curves of the runs that have evaluations."""


def read_curve(record: RunRecord, evaluations_only: bool = False) -> Curve | None:
    """Return the curve of a run; None if it has no evaluation.

    `evaluations_only` leaves out the lines of the log between the evaluations, which may be thousands.
    """
    run = Path(record.path)
    result = Result.read(run) if record.status != RUNNING else None
    needed = LOGGED["success_rate"] if evaluations_only else ""
    lines = [] if result and evaluations_only else read_log(run / directory.PROGRESS, needed)
    entries = result.evaluations if result else [line for line in lines if LOGGED["success_rate"] in line]
    if not entries:
        return None
    if result:
        lines += [_as_logged(entry) for entry in (*entries, result.last_interval)]  # the log may have been lost
    series = _series(lines)
    stages = tuple(entry["stage_reached"] for entry in entries if _are_counts(entry.get("stage_reached")))
    if len(stages) != len(series.get(LOGGED["success_rate"], ((),))[0]):
        stages = ()
    times = series.get(LOGGED["wall_time_s"], (np.zeros(0), np.zeros(0)))
    names = metric_names(series)
    recorded = {names[key]: (x, y) for key, (x, y) in series.items() if key in names and np.isfinite(y).any()}
    return Curve(recorded, times, stages, record.status)


def metric_names(logged: Collection[str]) -> dict[str, str]:
    """Return name in progress.jsonl → metric: scores of episodes first, then other figures in alphabetical order.

    A figure of `Loop.record` has its name as it was recorded, unless another metric has it.
    """
    names = {key: name for key, name in SHORT_NAMES.items() if key in logged}
    for key in sorted({*logged} - {*SHORT_NAMES} - _NO_METRICS):
        short = key.removeprefix("figures/")
        is_taken = short in SHORT_NAMES.values() or (short != key and short in logged)
        names[key] = key if is_taken else short
    return names


def metrics_of(curves: Iterable[Curve]) -> list[str]:
    """Return the metrics that any of the runs has recorded: those of episodes, those of runners, those of the log."""
    names = dict.fromkeys(name for curve in curves for name in curve.series)
    scores = [name for name in SHORT_NAMES.values() if name in names]
    return [*scores, *sorted(names.keys() - {*scores}, key=lambda name: ("/" in name, name))]


def find_metric(name: str, known: Collection[str]) -> str:
    """Return a metric that a run has recorded, by its name, or by its name in progress.jsonl; refuse any other."""
    for candidate in (name, SHORT_NAMES.get(name, name), name.removeprefix("figures/")):
        if candidate in known or candidate in LABELS:
            return candidate
    raise ConfigError(bad_value("--metric", name, dict.fromkeys([*LABELS, *known]), "is in no run"))


def is_rate(metric: str) -> bool:
    """Return whether a metric is a share of successful episodes."""
    return metric in ("success", "train_success", "test_success") or "/success_rate" in metric


def read_curves(setting: Setting) -> SettingCurves:
    """Return the curves of a setting's runs; runs without an evaluation have none."""
    curves = (read_curve(record) for record in setting.records)
    return SettingCurves(setting, tuple(curve for curve in curves if curve is not None))


def align(curves: Sequence[Curve], axis: str = "steps", metric: str = "success") -> tuple[FloatArray, FloatArray]:
    """Return common positions `(P,)` on an axis and the values `(runs, P)`, interpolated between the evaluations.

    A run that is done keeps its last value up to the end of the longest run: it has stopped because it was good enough.
    A diverged run has success rates of 0 after its last evaluation. The values end with the shortest of the runs whose
    further values are unknown: those that have not ended, and for other metrics the diverged runs. Curves without known
    values are left out.
    """
    known = [(curve, *curve.along(axis, metric)) for curve in curves]
    known = [entry for entry in known if len(entry[1])]
    if not known:
        return np.zeros(0), np.zeros((0, 0))
    open_ends = [x[-1] for curve, x, _ in known if not _has_end(curve, metric)]
    end = min(open_ends) if open_ends else max(x[-1] for _, x, _ in known)
    positions = np.unique(np.concatenate([x for _, x, _ in known]))
    positions = positions[positions <= end]
    if len(positions) > MAX_POINTS:
        positions = np.linspace(positions[0], end, MAX_POINTS)
    values = [np.interp(positions, x, y, right=0.0 if curve.status == "diverged" else None) for curve, x, y in known]
    return positions, np.stack(values)


def band(values: FloatArray, statistic: str = "iqm", episodes: int = 0) -> tuple[FloatArray, ...]:
    """Return the aggregate `(P,)` of runs, and the lower and upper bounds of its bootstrap interval over the runs.

    Args:
        values: `(runs, P)`.
        statistic: A name in `STATISTICS`.
        episodes: If the values are success rates: episodes of each; the bounds then include Wilson's interval over all
            episodes of a point, because a bootstrap of equal rates has no width.
    """
    function = STATISTICS[statistic]
    runs = len(values)
    centre = function(values.T[:, :, None])
    if runs < 2:
        nothing = np.full_like(centre, math.nan)
        return centre, nothing, nothing
    drawn = np.random.default_rng(0).integers(runs, size=(RESAMPLES, runs))
    resampled = function(values.T[:, drawn, None])
    low, high = np.percentile(resampled, (50 * SIGNIFICANCE, 100 - 50 * SIGNIFICANCE), axis=-1)
    if episodes:
        total = runs * episodes
        wilson = np.array([success_interval(rate * total, total) for rate in centre])
        low, high = np.minimum(low, wilson[:, 0]), np.maximum(high, wilson[:, 1])
    return centre, low, high


def setting_band(curves: SettingCurves, axis: str, metric: str, statistic: str = "iqm") -> Band:
    """Return the curve of a setting with its band, see `align` and `band`."""
    x, values = align(curves.curves, axis, metric)
    if not len(x):
        return Band(*(np.zeros(0) for _ in range(4)))
    episodes = curves.setting.eval_episodes if metric == "success" else 0
    return Band(x, *band(values, statistic, episodes))


def stage_curves(curves: SettingCurves) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Return common env steps `(P,)`, and stage → share `(P,)` of the episodes that have completed it, over all runs.

    Runs whose evaluations do not record stages are left out; without any, both are empty.
    """
    recorded = [curve for curve in curves.curves if curve.stages]
    order = stage_order([counts for curve in recorded for counts in curve.stages])
    x: FloatArray = np.zeros(0)
    shares = {}
    for index, stage in enumerate(order):
        if not _is_last(stage):
            up_to = {earlier for earlier in order[: index + 1] if _task_of(earlier) == _task_of(stage)}
            completed = [
                replace(curve, series={"success": (curve.series["success"][0], _shares_beyond(curve.stages, up_to))})
                for curve in recorded
            ]
            x, values = align(completed)
            shares[stage] = values.mean(axis=0)
    return x, shares


def stage_order(counts: Iterable[Mapping[str, int]]) -> list[str]:
    """Return the stages of all mappings, each of which has some of them in their order; `done` last."""
    before: dict[str, set[str]] = {}
    for stages in counts:
        for stage in stages:
            before.setdefault(stage, set())
        for first, second in pairwise(stages):
            before[second].add(first)
    try:
        order = list(TopologicalSorter(before).static_order())
    except CycleError:  # of older runs, which list the stages in the order of their first episodes
        order = list(before)
    return sorted(order, key=_is_last)


def _is_last(stage: str) -> bool:
    return stage.rpartition(": ")[2] == "done"


def _task_of(stage: str) -> str:
    """Return the task that precedes the stage in runs of several tasks; else an empty text."""
    return stage.rpartition(": ")[0]


def _shares_beyond(evaluations: Sequence[Mapping[str, int]], stages: Collection[str]) -> FloatArray:
    """Return, for each evaluation `(E,)`, the share of the episodes of the stages' task that ended in another stage."""
    task = _task_of(next(iter(stages)))
    totals = [sum(count for stage, count in counts.items() if _task_of(stage) == task) for counts in evaluations]
    inside = [sum(counts.get(stage, 0) for stage in stages) for counts in evaluations]
    return np.array([1 - count / total if total else math.nan for count, total in zip(inside, totals, strict=True)])


def read_log(path: Path, needed: str = "") -> list[dict[str, Any]]:
    """Return the complete lines of a log that contain a text; nothing if it cannot be read."""
    return parsed(line for line in read_text(path).splitlines() if needed in line)


def parsed(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Return the mappings in lines of JSON; lines that are half-written are left out."""
    contents = []
    for line in lines:
        with contextlib.suppress(ValueError):
            contents.append(json.loads(line))
    return [content for content in contents if isinstance(content, dict)]


def read_text(path: Path) -> str:
    """Return a text file; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError:
        return ""


def _as_logged(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of an evaluation in result.json with their names in progress.jsonl."""
    figures = record.get("figures")
    named = {f"figures/{name}": value for name, value in figures.items()} if isinstance(figures, dict) else {}
    return {**named, **{key: record[name] for name, key in LOGGED.items() if name in record}}


def _series(lines: Iterable[Mapping[str, Any]]) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return name → env steps and values `(n,)`, sorted by steps; of repeated values at a step, the last."""
    known: dict[str, dict[float, float]] = {}
    for line in lines:
        steps = _number(line.get("steps"))
        for key, value in line.items():
            if steps == steps and (isinstance(value, int | float) or value is None):
                known.setdefault(key, {})[steps] = _number(value)
    return {
        key: (np.array(list(points)), np.array(list(points.values())))
        for key, unsorted in known.items()
        for points in [dict(sorted(unsorted.items()))]
    }


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _are_counts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(count, int) for count in value.values())


def _has_end(curve: Curve, metric: str) -> bool:
    return curve.status == "done" or (curve.status == "diverged" and is_rate(metric))
