"""Comparison of settings: success, returns and time to learn over seeds, and whether a difference is real."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mygym.errors import ConfigError, bad_value
from mygym.reporting.curves import LABELS, find_metric
from mygym.reporting.final_scores import last_figures
from mygym.reporting.settings import Setting, different_keys, find_settings
from mygym.reporting.statistics import (
    Interval,
    bootstrap_interval,
    can_differ,
    iqm,
    mean,
    probability_of_improvement,
    runs_needed,
    success_interval,
)


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
    """Mean over the runs; None if the settings have different rewards."""
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
        """Return whether the success rate is lower by `amount` or more, and the interval excludes equality."""
        if self.difference is None or self.difference_interval is None or not self.can_differ:
            return False
        return self.difference <= -amount and self.difference_interval.high < 0


def compare(settings: Sequence[Setting], metrics: Sequence[str] = ()) -> list[Comparison]:
    """Compare settings with the first of them.

    Args:
        settings: Two settings or more, of the same task.
        metrics: Recorded figures to compare besides success and return; a figure may have its name in progress.jsonl.

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
    names = [name for name in (find_metric("--metric", metric, known) for metric in metrics) if name not in LABELS]

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
    low, high = summary.success
    text = f"success {summary.success_rate:.1%} ({low:.1%} to {high:.1%}) over {count(summary.runs, 'seed')}"
    if summary.steps_to_90 is None or summary.seconds_to_90 is None:
        return text
    return f"{text}; 90 % after {summary.steps_to_90:,.0f} env steps, {summary.seconds_to_90:.0f} s (medians)"


def count(number: int, noun: str) -> str:
    """Return a number and its noun: `1 seed`, `5 seeds`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def different_rewards(settings: Sequence[Setting]) -> list[str]:
    """Return the keys of the reward that differ between settings, whose returns cannot be compared then."""
    return [key for key in different_keys(*(setting.config for setting in settings)) if key.startswith("reward")]


def summarize(setting: Setting, first: Setting | None = None, same_reward: bool = True) -> Comparison:
    """Return the figures of a setting, compared with the first if it is given.

    Args:
        setting: Runs that have ended.
        first: Setting with which to compare.
        same_reward: Whether returns can be compared; if not, they are left out.
    """
    records, scores = setting.records, setting.scores
    returns = [record.mean_return for record in records if record.mean_return is not None]
    comparison = Comparison(
        name=_name(setting, first),
        path=setting.path,
        runs=len(records),
        diverged=sum(record.status == "diverged" for record in records),
        success_rate=float(iqm(scores)),
        success=_success(setting),
        mean_return=float(np.mean(returns)) if returns and same_reward else None,
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


def _success(setting: Setting) -> Interval:
    """Return the wider bounds of the bootstrap over runs and of Wilson's interval over all episodes."""
    episodes = sum(record.episodes for record in setting.records)
    successes = sum((record.success_rate or 0.0) * record.episodes for record in setting.records)
    over_episodes = success_interval(successes, episodes)
    over_runs = bootstrap_interval(iqm, setting.scores)
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
    """Return the mean difference of values by seed and its interval: paired if two seeds or more are in both."""
    seeds = [seed for seed in values if seed in first]
    if len(seeds) > 1:
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
    return f"{count(runs, 'seed')} cannot show a difference: {runs_needed()} of each setting are needed"
