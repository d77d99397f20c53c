"""Comparison of settings: success, returns and time to learn over seeds, and whether a difference is real."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mygym.errors import ConfigError, bad_value, counted
from mygym.reporting.curves import LABELS, SettingCurves, band, find_metric, is_rate, read_curve, read_curves
from mygym.reporting.records import DAMAGED, RunRecord, find_runs
from mygym.reporting.settings import ENDED, Setting, by_folder, different_keys, find_settings, names_of, setting_of
from mygym.reporting.statistics import (
    SIGNIFICANCE,
    Interval,
    bootstrap_interval,
    can_differ,
    iqm,
    mean,
    performance_profile,
    probability_of_improvement,
    resamples,
    runs_needed,
    success_interval,
)
from mygym.reporting.tables import with_interval
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
    nothing = np.full(len(thresholds), math.nan)
    value = performance_profile(scores, thresholds) if len(scores) else nothing
    if len(scores) < 2:
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


@dataclass(frozen=True)
class ComparedFigure:
    """The last values of a recorded figure of a setting, compared with the first setting."""

    value: float | None
    """IQM over the runs that are done; None if none has recorded it."""
    interval: Interval
    """Bootstrap interval over runs; NaN with a single run."""
    difference: float | None = None
    """Mean difference to the first setting, of equal seeds where both have them."""
    difference_interval: Interval | None = None


@dataclass(frozen=True)
class Comparison:
    """A setting, compared with the first setting."""

    name: str
    """Difference of the config from the first setting's; the algorithm for the first setting."""
    path: str
    runs: int
    diverged: int
    success_rate: float
    """IQM of the success rates over the runs."""
    success: Interval
    """The wider of the bootstrap interval over runs and Wilson's interval over all episodes."""
    mean_return: float | None
    """Mean over the runs that are done; None if the settings have different rewards."""
    steps_to_90: float | None
    """Median over the runs; None if half of the runs never reach 90 % success."""
    seconds_to_90: float | None
    difference: float | None = None
    """Mean difference of the success rates to the first setting, of equal seeds where both have them."""
    difference_interval: Interval | None = None
    improvement: float | None = None
    """Probability that a run has a higher success rate than a run of the first setting."""
    can_differ: bool = True
    """Whether so many runs could show any difference."""
    figures: Mapping[str, ComparedFigure] = field(default_factory=dict)
    """Metric → comparison of its last values."""

    def is_worse_by(self, amount: float) -> bool:
        """Return whether the success rate is lower by `amount` or more, and the interval excludes equality.

        Differences of decimal fractions are rounded: 0.80 - 0.85 is a little more than -0.05.
        """
        if self.difference is None or self.difference_interval is None or not self.can_differ:
            return False
        return self.difference <= -amount + 1e-9 and self.difference_interval.high < 0


def compare(settings: Sequence[Setting], metrics: Sequence[str] = ()) -> list[Comparison]:
    """Compare settings of a task with the first of them.

    A name in `metrics`, perhaps that in progress.jsonl, adds a recorded figure to success and return.

    Raises:
        ConfigError: Fewer than two settings, settings with different tasks, or a metric that no run has recorded.
    """
    if len(settings) < 2:
        paths = ", ".join(setting.path for setting in settings)
        raise ConfigError(bad_value("settings", paths, "two settings or more, e.g. runs/reach/panda/*/*"))
    first = settings[0]
    for setting in settings[1:]:
        for key in different_keys(first.config, setting.config):
            if key == "task" or key.startswith("task_params."):
                both = f"{first.config.get(key)} ({first.path}) and {setting.config.get(key)} ({setting.path})"
                raise ConfigError(f"{key} differs: {both}; only settings of the same task can be compared")
    same_reward = not different_rewards(settings)
    comparisons = [summarize(setting, first if setting is not first else None, same_reward) for setting in settings]
    if not metrics:
        return comparisons
    last = [last_figures(setting) for setting in settings]
    known = sorted({metric for each in last for metric in each})
    names = [name for name in (find_metric(metric, known) for metric in metrics) if name not in LABELS]

    def figures(index: int) -> dict[str, ComparedFigure]:
        first_values = last[0] if index else {}
        return {name: _figure(last[index].get(name, {}), first_values.get(name, {})) for name in names}

    return [replace(comparison, figures=figures(index)) for index, comparison in enumerate(comparisons)]


def summary_in_words(folder: str | Path) -> str:
    """Return the success of a setting with its interval, and its time to learn; empty if no run has ended."""
    try:
        (setting,) = find_settings([folder])
    except ConfigError:
        return ""
    summary = summarize(setting)
    success = with_interval(summary.success_rate, summary.success, ".1%")
    text = f"success {success} over {counted(summary.runs, 'seed')}"
    if summary.steps_to_90 is None or summary.seconds_to_90 is None:
        return text
    return f"{text}; 90 % after {summary.steps_to_90:,.0f} env steps, {summary.seconds_to_90:.0f} s (medians)"


def different_rewards(settings: Sequence[Setting]) -> list[str]:
    """Return the keys of the reward that differ between settings, whose returns cannot be compared then."""
    return [key for key in different_keys(*(setting.config for setting in settings)) if key.startswith("reward")]


def summarize(setting: Setting, first: Setting | None = None, same_reward: bool = True) -> Comparison:
    """Return the figures of a setting whose runs have ended, compared with the first if it is given.

    Returns are left out unless the settings have the same reward.
    """
    records, scores = setting.records, setting.scores
    returns = final_scores(setting, "return")
    comparison = Comparison(
        name=_name(setting, first),
        path=setting.path,
        runs=len(records),
        diverged=sum(record.status == "diverged" for record in records),
        success_rate=float(iqm(scores)),
        success=success_bounds(scores, sum(record.episodes for record in records)),
        mean_return=float(returns.mean()) if len(returns) and same_reward else None,
        steps_to_90=_median([record.steps_to_90 for record in records]),
        seconds_to_90=_median([record.seconds_to_90 for record in records]),
    )
    if first is None:
        return comparison
    difference, interval = _difference(_rates(setting), _rates(first))
    return replace(
        comparison,
        difference=difference,
        difference_interval=interval,
        improvement=float(probability_of_improvement(scores, first.scores)),
        can_differ=can_differ(len(scores), len(first.scores)),
    )


def _name(setting: Setting, first: Setting | None) -> str:
    algo = str(setting.config.get("algo"))
    if first is None:
        return algo
    keys = different_keys(first.config, setting.config)
    if "algo" in keys:  # the algorithms' own parameters differ as well, which explains nothing
        keys = [key for key in keys if not key.startswith(("algo", "framework", "training_params"))]
        return ", ".join([algo, *(f"{key}={setting.config.get(key)}" for key in keys)])
    return ", ".join(f"{key}={setting.config.get(key)}" for key in keys) or "the same config"


def success_bounds(scores: FloatArray, episodes: int) -> Interval:
    """Return bounds of the interquartile mean: the wider of a bootstrap over runs and Wilson's interval over episodes.

    Args:
        scores: `(runs, tasks)` success rates, as many of each task; the bootstrap is stratified by task.
        episodes: Number of episodes of all runs.
    """
    over_episodes = success_interval(float(iqm(scores)) * episodes, episodes)  # of the mean, it may not contain it
    over_runs = bootstrap_interval(iqm, scores)
    return Interval(
        float(np.fmin(over_runs.low, over_episodes.low)), float(np.fmax(over_runs.high, over_episodes.high))
    )


def _figure(values: Mapping[str, float], first: Mapping[str, float]) -> ComparedFigure:
    """Compare the last values of a figure, by seed, with those of the first setting, if it has any."""
    if not values:
        return ComparedFigure(None, Interval(math.nan, math.nan))
    scores = np.array([[value] for value in values.values()])
    figure = ComparedFigure(float(iqm(scores)), bootstrap_interval(iqm, scores))
    if not first:
        return figure
    difference, interval = _difference(values, first)
    return replace(figure, difference=difference, difference_interval=interval)


def _rates(setting: Setting) -> dict[int | None, float]:
    """Return seed → success rate."""
    return {record.seed: float(score) for record, (score,) in zip(setting.records, setting.scores, strict=True)}


def _difference(values: Mapping[Any, float], first: Mapping[Any, float]) -> tuple[float, Interval]:
    """Return the mean difference of values by seed and its interval.

    It is paired if all seeds of one side are on the other, at least two; else only if the pairs could show a difference
    by themselves, because the other seeds do not count then.
    """
    seeds = [seed for seed in values if seed in first]
    are_all = len(seeds) == min(len(values), len(first))
    if len(seeds) > 1 and (are_all or can_differ(len(seeds), len(seeds))):
        differences = np.array([[values[seed] - first[seed]] for seed in seeds])
        return float(differences.mean()), bootstrap_interval(mean, differences)
    scores, first_scores = (np.array([[value] for value in each.values()]) for each in (values, first))
    difference = float(scores.mean() - first_scores.mean())
    return difference, bootstrap_interval(lambda a, b: mean(a) - mean(b), scores, first_scores)


def _median(values: Sequence[float | None]) -> float | None:
    """Return the median, with None as infinity; None if it is infinite."""
    median = float(np.median([math.inf if value is None else value for value in values]))
    return median if math.isfinite(median) else None


def too_few(comparisons: Sequence[Comparison]) -> str:
    """Return a sentence if the runs of a comparison are too few to show any difference; else an empty text."""
    if all(comparison.can_differ for comparison in comparisons):
        return ""
    runs = min(comparison.runs for comparison in comparisons)
    return f"{counted(runs, 'seed')} cannot show a difference: {runs_needed()} of each setting are needed"


@dataclass(frozen=True)
class Selection:
    """Runs below some folders."""

    records: tuple[RunRecord, ...]
    """All runs, sorted by path."""
    settings: tuple[SettingCurves, ...]
    """Settings whose configs can be read; of damaged runs none."""
    left_out: tuple[str, ...]
    """Sentences on runs and settings that cannot be read."""
    notes: tuple[str, ...]
    """The same, and sentences on runs without an evaluation or an end, and on settings with one seed."""


def select_runs(folders: Iterable[str | Path], where: Mapping[str, Any] | None = None) -> Selection:
    """Read the runs below folders; `where` has the values that a run must have, see `find_runs`.

    Raises:
        ConfigError: A folder does not exist or has no runs.
    """
    records: dict[str, RunRecord] = {}
    for folder in folders:
        more = find_runs(folder, where)
        if not more:
            why = "has no runs" if not where else "has no runs with these values"
            raise ConfigError(bad_value("folder", str(folder), "a folder with runs, e.g. runs", why))
        records |= {record.path: record for record in more}
    left_out = [f"{record.path}: {record.error}" for record in records.values() if record.status == DAMAGED]
    settings = []
    for members in by_folder(record for record in records.values() if record.status != DAMAGED):
        try:
            settings.append(read_curves(setting_of(members)))
        except ConfigError as error:
            left_out.append(f"{error}; the setting is left out")
    notes = (*left_out, *_notes(settings))
    return Selection(tuple(records.values()), tuple(settings), tuple(left_out), notes)


def _notes(settings: Sequence[SettingCurves]) -> list[str]:
    empty = sum(len(each.setting.records) - len(each.curves) for each in settings)
    unfinished = sum(curve.status not in ENDED for each in settings for curve in each.curves)
    single = sum(len(each.curves) == 1 for each in settings)
    notes = {
        f"{counted(empty, 'run')} without an evaluation: left out of the curves": empty,
        f"{counted(unfinished, 'run')} not ended: the curve of a setting ends with its shortest such run": unfinished,
        f"{counted(single, 'setting')} with one seed: no interval": single,
    }
    return [note for note, number in notes.items() if number]
