"""State of a sweep that another process executes: progress, time left, the best trial, and the runs."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mygym.reporting.records import find_runs, is_locked
from mygym.reporting.tables import duration
from mygym.sweeps import population, results, storage
from mygym.sweeps.samplers import check_optuna, quiet
from mygym.sweeps.settings import Sweep

if TYPE_CHECKING:
    from optuna.study import Study

ENDS = {"PRUNED": "pruned", "FAIL": "failed"}
"""State of Optuna → the word for trials without a score."""


@dataclass(frozen=True)
class State:
    """State of a sweep."""

    lines: list[str]
    """Description for the user."""
    executing: bool
    """Whether a process executes the sweep."""


def read_state(folder: Path) -> State:
    """Return the state of a sweep; nothing is written.

    Raises:
        ConfigError: The folder has no sweep, or Optuna is missing.
    """
    sweep = storage.read(folder, "--watch")
    executing = is_locked(folder)
    if sweep.settings.population is not None:
        return State(_generations(folder, sweep), executing)
    check_optuna(sweep.sampler)
    with quiet():
        study = storage.load_study(folder)
        trials = study.get_trials(deepcopy=False) if study else []
        ended = [trial for trial in trials if trial.state.is_finished()]
        parts = [f"{len(ended)} of {sweep.trials} trials"]
        counts = {word: sum(trial.state.name == state for trial in ended) for state, word in ENDS.items()}
        parts += [f"{count} {word}" for word, count in counts.items() if count]
        running = [trial for trial in trials if trial.state.name == "RUNNING"]
        if executing and study and (left := _seconds_left(study, sweep.trials, len(running))) is not None:
            parts.append(f"{duration(left)} left")
        lines = [", ".join(parts)]
        if study and (best := results.best(sweep, study)):
            lines.append(f"best: {results.description(sweep, best)}")
        for trial in running:
            lines += [f"trial {trial.number}: {line}" for line in _runs(storage.trial_folder(folder, trial.number))]
    if not executing and len(ended) < sweep.trials:
        lines.append(f"no process executes this sweep; go on with: mygym sweep --resume {folder}")
    return State(lines, executing)


def _generations(folder: Path, sweep: Sweep) -> list[str]:
    """Return the state of a population; the last generation may have no scores yet."""
    whole = population.read(folder, sweep)
    scored = [members for members in whole.generations if any(each.status for each in members)]
    lines = [f"{len(scored)} of {whole.settings.generations} generations"]
    best = population.ranked(sweep, scored[-1])[0] if scored else None
    if best:
        values = ", ".join(f"{key.partition('.')[2]}={value:.4g}" for key, value in best.values.items())
        lines.append(f"best: member {best.member}: {sweep.objective.name} {best.score:.4g} ({values})")
    if len(scored) < len(whole.generations):
        folders = sorted({each.folder for each in whole.generations[-1]})
        lines += [f"{each}: {line}" for each in folders for line in _runs(folder / each)]
    return lines


def _seconds_left(study: Study, trials: int, jobs: int) -> float | None:
    """Return the estimated time left, s: the median duration of the trials so far for each that is left."""
    ended = [trial for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()]
    seconds = [trial.duration.total_seconds() for trial in ended if trial.duration and "past" not in trial.user_attrs]
    if not seconds:
        return None
    return statistics.median(seconds) * (trials - len(ended)) / max(1, jobs)


def _runs(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return [
        f"seed {record.seed}, {record.steps:,} steps"
        + (f", success {record.success_rate:.0%}" if record.success_rate is not None else "")
        for record in find_runs(folder)
        if record.status == "running"
    ]
