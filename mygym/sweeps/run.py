"""New and resumed sweeps: check everything, hold the lock, search, write the results."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mygym.config import Resolved
from mygym.errors import ConfigError, RunError, bad_value
from mygym.planning.plan import plan_of
from mygym.reporting import sweep_files
from mygym.sweeps import population, results, storage
from mygym.sweeps.executors import Executor, stop_left_over
from mygym.sweeps.past import add, find_trials
from mygym.sweeps.samplers import check_optuna, make_pruner, quiet
from mygym.sweeps.search import Search
from mygym.sweeps.settings import Sweep, check_space, make_sweep
from mygym.training import files
from mygym.training.env_factory import make_vec_env
from mygym.training.model_factory import buffer_bytes, build_model

PROCESS = {"pytorch": 450_000_000, "jax": 900_000_000}
"""Framework → bytes of a process with the libraries, a small network and its optimiser."""

CLIENT = 30_000_000
"""Bytes of an environment with a physics client for itself."""


def run_memory(resolved: Resolved) -> int:
    """Return the bytes of memory that a run needs: libraries, environments and the full replay buffer.

    Raises:
        ConfigError: The model cannot be built, or its buffer does not fit into the free memory.
    """
    config = resolved.config
    clients = config.n_envs + 1 if config.engine == "pybullet" else 1
    buffer = 0
    if "buffer_size" in config.algo_params:
        plan = plan_of(resolved)
        env = make_vec_env(plan, only_spaces=True)
        try:
            buffer, _ = buffer_bytes(build_model(plan, env))
        finally:
            env.close()
    return PROCESS.get(config.framework, PROCESS["pytorch"]) * config.learners + CLIENT * clients + buffer


@dataclass(frozen=True)
class Report:
    """Results of a sweep."""

    folder: Path
    objective: str
    """Name of the scores."""
    best: Path
    """The best config."""
    importance: dict[str, float]
    """Key → share of the importance, the largest first; empty if it is unknown."""
    rows: list[dict[str, Any]]
    """A row for each trial: the best first, then those without a score."""


def new_sweep(
    folder: Path,
    file: Mapping[str, Any],
    overrides: Mapping[str, Any],
    executor: Executor,
    notify: Callable[[str], None],
    past: Sequence[str] = (),
) -> Report:
    """Execute a new sweep.

    Args:
        folder: New folder.
        file: Content of a sweep file.
        overrides: Values and ranges of flags.
        executor: Executes the runs.
        notify: Called with messages for the user.
        past: Folders whose runs become trials.

    Returns:
        The trials and the best of them.

    Raises:
        ConfigError: Something is wrong in the file, a flag or the space; nothing has been written.
        InterruptedRunError: Ctrl-C, SIGTERM or SIGHUP; `resume_sweep` continues.
        RunError: No trial has ended with a score.
    """
    sweep = make_sweep(file, overrides)
    _check(sweep)
    extent = check_space(sweep)
    memory = limited(executor, extent.largest, notify)
    if past and sweep.settings.population:
        raise ConfigError(bad_value("--past", list(past), "no folder", "cannot be combined with sweep.population"))
    trials = find_trials(sweep, past)
    if trials:
        notify(f"{len(trials)} trials are runs of {', '.join(past)}")
    storage.create(folder, sweep, trials)
    return _execute(folder.resolve(), sweep, extent.evaluations, memory, executor, notify)


def resume_sweep(
    folder: Path,
    file: Mapping[str, Any] | None,
    overrides: Mapping[str, Any],
    executor: Executor,
    notify: Callable[[str], None],
) -> Report:
    """Continue a sweep that was stopped or killed, or add trials to it.

    Args:
        folder: Folder of the sweep.
        file: Content of a sweep file, which must agree with the sweep but for the number of trials; None: not given.
        overrides: Values and ranges of flags, which must agree as well.
        executor: Executes the runs.
        notify: Called with messages for the user.

    Returns:
        The trials of both executions and the best of them.

    Raises:
        ConfigError: The folder has no sweep or another sweep, or another process executes it.
        InterruptedRunError: Ctrl-C, SIGTERM or SIGHUP.
        RunError: No trial has ended with a score.
    """
    stored = storage.read(folder)
    sweep = make_sweep(stored.to_file() if file is None else file, overrides)
    storage.check_same(folder, stored, sweep)
    _check(sweep)
    extent = check_space(sweep)
    memory = limited(executor, extent.largest, notify)
    return _execute(folder.resolve(), sweep, extent.evaluations, memory, executor, notify)


def limited(executor: Executor, largest: Resolved, notify: Callable[[str], None]) -> int:
    """Limit the runs at the same time to those that fit into the memory; return the bytes that a run needs.

    Raises:
        ConfigError: The user's number of runs, or a single run, needs more memory than is free.
    """
    memory, before = run_memory(largest), executor.jobs
    executor.limit(memory)
    if executor.jobs < before:
        notify(f"jobs: {executor.jobs}, because a run needs about {memory / 1e9:.1f} GB of memory")
    return memory


def _check(sweep: Sweep) -> None:
    """Check that the search can take the parameters, and that its packages are installed.

    Raises:
        ConfigError: They cannot, or a package is missing.
    """
    if sweep.settings.population is None:
        check_optuna(sweep.sampler)
    else:
        population.check(sweep)


def _execute(
    folder: Path, sweep: Sweep, evaluations: int, memory: int, executor: Executor, notify: Callable[[str], None]
) -> Report:
    if sweep.settings.population is not None:
        with storage.lock(folder), writing(folder):
            stop_left_over(folder)
            rows = population.write(population.search(folder, sweep, executor, memory, notify))
            return Report(folder, sweep.objective.name, folder / sweep_files.BEST, {}, rows)
    with storage.lock(folder), quiet(), writing(folder):
        study = storage.open_study(folder, sweep, make_pruner(sweep.settings.pruner, evaluations))
        files.write_yaml(folder / sweep_files.SWEEP, sweep.to_file())  # the number of trials may have changed
        stop_left_over(folder)
        add(folder, sweep, study)
        Search(folder, sweep, study, executor, notify, memory).run()
        rows = results.write_results(folder, sweep, study)
        if results.best(sweep, study) is None:
            table = folder / sweep_files.TABLE
            raise RunError(f"no trial has ended with a score: the column `error` of {table} has reasons")
        names = ", ".join(each.name for each in sweep.objectives)
        return Report(folder, names, folder / sweep_files.BEST, results.importances(study, sweep), rows)


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Convert system errors of the search and of the journal.

    Raises:
        RunError: The disk is full, or the folder was removed.
    """
    try:
        yield
    except OSError as error:
        raise RunError(f"{folder}: cannot be written: {error.strerror or error}") from error
