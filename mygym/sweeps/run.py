"""New and resumed sweeps: check everything, hold the lock, search, write the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mygym.config import merge_configs
from mygym.errors import RunError
from mygym.runs import files
from mygym.sweeps import results, storage
from mygym.sweeps.checking import check_space
from mygym.sweeps.executors import LocalExecutor, stop_left_over
from mygym.sweeps.samplers import check_optuna, make_pruner, quiet
from mygym.sweeps.search import Search
from mygym.sweeps.settings import SECTION, Sweep, make_sweep

Notify = Callable[[str], None]


@dataclass(frozen=True)
class Report:
    """Results of a sweep."""

    folder: Path
    best: str
    """Path of the best config."""
    importance: dict[str, float]
    """Key → share of the importance, the largest first; empty if it is unknown."""
    rows: list[dict[str, Any]]
    """A row for each trial: the best first, then those without a score."""


def new_sweep(
    folder: Path,
    file: Mapping[str, Any],
    overrides: Mapping[str, Any],
    trials: int | None,
    workers: int | None,
    imports: Sequence[str],
    notify: Notify,
) -> Report:
    """Execute a new sweep.

    Args:
        folder: New folder.
        file: Content of a sweep file.
        overrides: Values and ranges of flags.
        trials: Number of trials; None: that of the file.
        workers: Runs at the same time; None: the number of cores.
        imports: Modules that register components.
        notify: Called with messages for the user.

    Raises:
        ConfigError: Something is wrong in the file, a flag or the space; nothing has been written.
        InterruptedRunError: Ctrl-C, SIGTERM or SIGHUP; `resume_sweep` continues.
        RunError: No trial has ended with a score.
    """
    sweep = make_sweep(file, _with_trials(overrides, trials))
    check_optuna(sweep.sampler)
    evaluations = check_space(sweep)
    storage.create(folder, sweep)
    return _execute(folder.absolute(), sweep, evaluations, workers, imports, notify)


def resume_sweep(
    folder: Path,
    asked: tuple[Mapping[str, Any], Mapping[str, Any]] | None,
    trials: int | None,
    workers: int | None,
    imports: Sequence[str],
    notify: Notify,
) -> Report:
    """Continue a sweep that was stopped or killed, or add trials to it.

    Args:
        folder: Folder of the sweep.
        asked: Content of a sweep file, and values of flags, which must agree with the sweep; None: not given.
        trials: Number of trials at the end; None: that of the sweep.
        workers: Runs at the same time; None: the number of cores.
        imports: Modules that register components.
        notify: Called with messages for the user.

    Raises:
        ConfigError: The folder has no sweep, another sweep, or is in use.
        InterruptedRunError: Ctrl-C, SIGTERM or SIGHUP.
        RunError: No trial has ended with a score.
    """
    stored = storage.read(folder)
    if asked is not None:
        file, overrides = asked
        other = make_sweep(file or stored.to_file(), overrides)
        storage.check_same(folder, stored, other)
        trials = trials or other.settings.trials
    check_optuna(stored.sampler)
    sweep = make_sweep(stored.to_file(), _with_trials({}, trials))
    evaluations = check_space(sweep)
    return _execute(folder.absolute(), sweep, evaluations, workers, imports, notify)


def _with_trials(overrides: Mapping[str, Any], trials: int | None) -> Mapping[str, Any]:
    return overrides if trials is None else merge_configs(overrides, {SECTION: {"trials": trials}})


def _execute(
    folder: Path, sweep: Sweep, evaluations: int, workers: int | None, imports: Sequence[str], notify: Notify
) -> Report:
    with storage.lock(folder), quiet():
        study = storage.open_study(folder, sweep, make_pruner(sweep.settings.pruner, evaluations))
        files.write_yaml(folder / storage.FILE, sweep.to_file())  # the number of trials may have changed
        stop_left_over(folder / storage.TRIALS)
        Search(folder, sweep, study, LocalExecutor(workers), sweep.trials, imports, notify).run()
        best = results.best(study)
        if best is None:
            raise RunError(f"no trial has ended with a score: see the column `error` in {_table(folder, sweep, study)}")
        results.write_best(folder, sweep, best)
        results.write_results(folder, sweep, study)
        rows = results.rows(sweep, study)
        name, sign = sweep.objective.name, -1 if sweep.objective.maximize else 1
        ranked = sorted(rows, key=lambda row: (row[name] is None, sign * (row[name] or 0.0)))
        return Report(folder, str(folder / storage.BEST), results.importances(study, sweep), ranked)


def _table(folder: Path, sweep: Sweep, study: Any) -> Path:
    return results.write_results(folder, sweep, study)[0]
