"""Final scores of settings: performance profiles, and scores over the values of a hyperparameter."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from mygym.errors import ConfigError, bad_value
from mygym.reporting.curves import band, is_rate, read_curve
from mygym.reporting.settings import Setting, different_keys, names_of
from mygym.reporting.statistics import SIGNIFICANCE, performance_profile, resamples
from mygym.types import FloatArray

THRESHOLDS = 101
"""Thresholds of a performance profile."""


@dataclass(frozen=True)
class Sensitivity:
    """Final scores of settings that differ in a single hyperparameter; the values are sorted."""

    name: str
    """Difference of the rest of the config from that of other groups."""
    values: tuple[Any, ...]
    """`V` values of the hyperparameter."""
    scores: tuple[FloatArray, ...]
    """Scores `(runs,)` of the runs with each value that have ended."""
    centre: FloatArray
    """`(V,)` aggregate of the runs; NaN without runs that have ended."""
    low: FloatArray
    """`(V,)` lower bounds; NaN with a single run."""
    high: FloatArray
    """`(V,)` upper bounds."""
    diverged: tuple[int, ...]
    """Number of diverged runs with each value."""
    failed: tuple[int, ...]
    """Number of failed runs with each value."""

    @property
    def is_numeric(self) -> bool:
        """Whether all values are numbers."""
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.values)


def final_scores(setting: Setting, metric: str = "success") -> FloatArray:
    """Return the scores `(runs, 1)` of the runs that have ended; diverged runs have a success rate alone.

    Success and return are those of the saved policy, other metrics the last recorded values.
    """
    if metric == "success":
        return setting.ended.scores.reshape(-1, 1)
    done = [record for record in setting.ended.records if record.status == "done"]
    returns = [record.mean_return for record in done if record.mean_return is not None]
    values = returns if metric == "return" else list(last_figures(setting).get(metric, {}).values())
    return np.array(values, float).reshape(-1, 1)


def last_figures(setting: Setting) -> Mapping[str, Mapping[str, float]]:
    """Return metric → seed → last recorded value, of the runs that are done."""
    if setting.figures:
        return setting.figures
    figures: dict[str, dict[str, float]] = {}
    for record in setting.ended.records:
        if record.status != "done" or (curve := read_curve(record)) is None:
            continue
        for metric in curve.series:
            figures.setdefault(metric, {})[str(record.seed)] = float(curve.along("steps", metric)[1][-1])
    return figures


def store(settings: Sequence[Setting]) -> str:
    """Return settings as JSON with their last figures, which `find_settings` reads again as a baseline."""
    contents = [asdict(replace(setting, figures=last_figures(setting))) for setting in settings]
    return json.dumps({"settings": contents}, indent=1) + "\n"


def profile_bands(
    settings: Sequence[Setting], metric: str = "success"
) -> tuple[FloatArray, list[tuple[FloatArray, FloatArray, FloatArray]]]:
    """Return thresholds `(T,)`, and for each setting the share `(T,)` of runs above them with its bounds.

    The thresholds cover [0, 1], for metrics that are no rates the range of all scores. With a single run the bounds are
    NaN.
    """
    scores = [final_scores(setting, metric) for setting in settings]
    known = np.concatenate(scores) if scores else np.zeros((0, 1))
    span = (0.0, 1.0) if is_rate(metric) or not len(known) else (float(known.min()), float(known.max()))
    thresholds = np.linspace(*span, THRESHOLDS)
    return thresholds, [_profile_band(each, thresholds) for each in scores]


def sensitivities(
    settings: Sequence[Setting], key: str, metric: str = "success", statistic: str = "iqm"
) -> dict[str, list[Sensitivity]]:
    """Return task → groups of settings that differ in `key` alone.

    Raises:
        ConfigError: No config has the key, or no two settings of a task differ in it.
    """
    if not any(key in setting.config for setting in settings):
        differing = [name for name in different_keys(*(setting.config for setting in settings)) if name != "task"]
        raise ConfigError(bad_value("--sensitivity", key, differing, "is a key of no config"))
    groups: dict[str, dict[str, list[Setting]]] = {}
    for setting in settings:
        rest = json.dumps(_without(setting, key), sort_keys=True, default=str)
        groups.setdefault(setting.records[0].task, {}).setdefault(rest, []).append(setting)
    if max(len(members) for task in groups.values() for members in task.values()) < 2:
        values = sorted({str(setting.config.get(key)) for setting in settings})
        why = f"has the value {values[0]}" if len(values) == 1 else "differs only together with other keys"
        raise ConfigError(bad_value("--sensitivity", key, "a key in which alone two settings of a task differ", why))
    return {task: _sensitivities(list(members.values()), key, metric, statistic) for task, members in groups.items()}


def _sensitivities(groups: list[list[Setting]], key: str, metric: str, statistic: str) -> list[Sensitivity]:
    names = names_of([_without(group[0], key) for group in groups])
    result = []
    for name, group in zip(names, groups, strict=True):
        ordered = sorted(group, key=lambda setting: _order(setting.config.get(key)))
        scores = [final_scores(setting, metric) for setting in ordered]
        bounds = [_final_band(setting, each, metric, statistic) for setting, each in zip(ordered, scores, strict=True)]
        centre, low, high = np.array(bounds).T
        result.append(
            Sensitivity(
                name,
                tuple(setting.config.get(key) for setting in ordered),
                tuple(each[:, 0] for each in scores),
                centre,
                low,
                high,
                diverged=tuple(_count(setting, "diverged") for setting in ordered),
                failed=tuple(_count(setting, "failed") for setting in ordered),
            )
        )
    return result


def _final_band(setting: Setting, scores: FloatArray, metric: str, statistic: str) -> tuple[float, float, float]:
    if not len(scores):
        return math.nan, math.nan, math.nan
    episodes = max(record.episodes for record in setting.records) if metric == "success" else 0
    centre, low, high = (float(value[0]) for value in band(scores, statistic, episodes))
    return centre, low, high


def _profile_band(scores: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    if not len(scores):
        nothing = np.full(len(thresholds), math.nan)
        return nothing, nothing, nothing
    value = performance_profile(scores, thresholds)
    if len(scores) < 2:
        nothing = np.full_like(value, math.nan)
        return value, nothing, nothing
    profiles = performance_profile(resamples(scores, np.random.default_rng(0)), thresholds)
    low, high = np.percentile(profiles, (50 * SIGNIFICANCE, 100 - 50 * SIGNIFICANCE), axis=0)
    return value, low, high


def _without(setting: Setting, key: str) -> dict[str, Any]:
    return {name: value for name, value in setting.config.items() if name != key}


def _order(value: Any) -> tuple[bool, float, str]:
    is_number = isinstance(value, int | float)
    return not is_number, float(value) if is_number else 0.0, str(value)


def _count(setting: Setting, status: str) -> int:
    return sum(record.status == status for record in setting.records)


def spans_decades(values: Sequence[float]) -> bool:
    """Return whether positive numbers span a factor of 10 or more: an axis of them is logarithmic."""
    return bool(values) and min(values) > 0 and max(values) >= 10 * min(values)
