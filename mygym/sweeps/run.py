"""New and resumed sweeps, and more env steps for their best trials: check, hold the lock, write the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mygym.config import Resolved
from mygym.errors import ConfigError, RunError, bad_value
from mygym.planning.plan import plan_of
from mygym.reporting.records import SweepFiles
from mygym.reporting.tables import as_csv
from mygym.sweeps import executors, population, results, storage
from mygym.sweeps.executors import Executor, stop_left_over
from mygym.sweeps.past import find_trials
from mygym.sweeps.samplers import check_optuna, make_pruner, quiet
from mygym.sweeps.search import Search
from mygym.sweeps.settings import Sweep, check_space, judge, make_sweep
from mygym.sweeps.trial_runs import TrialRun
from mygym.training import files
from mygym.training.env_factory import make_vec_env
from mygym.training.loading import read_config
from mygym.training.model_factory import buffer_bytes, build_model

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

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
    evaluations, memory = _checked(sweep, executor, notify)
    if past and sweep.settings.population:
        raise ConfigError(bad_value("--past", list(past), "no folder", "cannot be combined with sweep.population"))
    trials = find_trials(sweep, past)
    if trials:
        notify(f"{len(trials)} trials are runs of {', '.join(past)}")
    storage.create(folder, sweep, trials)
    return _execute(folder.resolve(), sweep, evaluations, memory, executor, notify)


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
    storage.check_same(folder, stored.fixed(), sweep.fixed())
    evaluations, memory = _checked(sweep, executor, notify)
    return _execute(folder.resolve(), sweep, evaluations, memory, executor, notify)


def _checked(sweep: Sweep, executor: Executor, notify: Callable[[str], None]) -> tuple[int, int]:
    """Check a sweep, and limit the runs at the same time to those that fit into the memory.

    Returns:
        The number of evaluations of the longest run, and the bytes of memory of the largest.

    Raises:
        ConfigError: A package is missing, a trial cannot be built, or a run needs more memory than is free.
    """
    if sweep.settings.population is None:
        check_optuna(sweep.sampler)
    else:
        population.check(sweep)
    extent = check_space(sweep)
    memory, before = run_memory(extent.largest), executor.jobs
    executor.limit(memory)
    if executor.jobs < before:
        notify(f"jobs: {executor.jobs}, because a run needs about {memory / 1e9:.1f} GB of memory")
    return extent.evaluations, memory


def _execute(
    folder: Path, sweep: Sweep, evaluations: int, memory: int, executor: Executor, notify: Callable[[str], None]
) -> Report:
    if sweep.settings.population is not None:
        with storage.lock(folder), files.writing(folder):
            stop_left_over(folder)
            rows = population.write(population.search(folder, sweep, executor, memory, notify))
            return Report(folder, sweep.objective.name, folder / SweepFiles.BEST, {}, rows)
    with storage.lock(folder), quiet(), files.writing(folder):
        study = storage.open_study(folder, sweep, make_pruner(sweep.settings.pruner, evaluations))
        files.write_yaml(folder / SweepFiles.SWEEP, sweep.to_file())  # the number of trials may have changed
        stop_left_over(folder)
        Search(folder, sweep, study, executor, notify, memory).run()
        rows = results.write_results(folder, sweep, study)
        if results.best(sweep, study) is None:
            table = folder / SweepFiles.TABLE
            raise RunError(f"no trial has ended with a score: the column `error` of {table} has reasons")
        names = ", ".join(each.name for each in sweep.objectives)
        return Report(folder, names, folder / SweepFiles.BEST, results.importances(study, sweep), rows)


def train_on(folder: Path, count: int, steps: int, executor: Executor, notify: Callable[[str], None]) -> Report:
    """Continue the runs of the best trials of a sweep; the command can be repeated after any end of its process.

    Args:
        folder: Folder of the sweep.
        count: Number of trials.
        steps: Env steps of each run at its end.
        executor: Executes the runs.
        notify: Called with a line for each run that ends.

    Raises:
        ConfigError: The folder has no sweep, another process executes it, or the runs are as long already.
        InterruptedRunError: Ctrl-C, SIGTERM or SIGHUP.
        RunError: No trial has a score, before or afterwards.
    """
    sweep = storage.read(folder)
    if sweep.settings.population is not None:
        raise ConfigError(bad_value("--train-on", count, "a sweep without sweep.population", "needs trials"))
    _, memory = _checked(sweep, executor, notify)
    folder = folder.resolve()
    with storage.lock(folder), quiet(), files.writing(folder):
        trials = _best(folder, sweep, count)
        runs = [(trial, _run(folder, trial, seed)) for trial in trials for seed in sweep.seeds]
        for _, run in runs:
            now = read_config(run.path)["steps"] if run.path else 0
            if now > steps:
                why = f"is less than the {now:,} steps of {run.path}"
                raise ConfigError(bad_value("--steps", steps, f"at least {now:,}", why))
        stop_left_over(folder)
        waiting = [(trial, run) for trial, run in runs if not run.has_ended(steps)]
        imports = sweep.base.get("imports", ())

        def note(index: int) -> None:
            trial, run = waiting[index]
            status = (run.outcome(sweep.objectives) or run.failure()).status
            notify(f"trial {trial.number}, seed {run.seed}: {status} at {steps:,} steps")

        again = f"mygym sweep --resume {folder} --train-on {count} --steps {steps}"
        executors.execute(executor, [run.job(imports, memory, steps) for _, run in waiting], note, again)
        return _report(folder, sweep, trials, steps)


def _best(folder: Path, sweep: Sweep, count: int) -> list[FrozenTrial]:
    study = storage.open_study(folder, sweep)
    trials = [trial for trial in results.ranked(sweep, study) if "past" not in trial.user_attrs]
    trained = [trial for trial in trials if all(run["status"] == "done" for run in trial.user_attrs.get("runs", []))]
    if not trained:
        raise RunError(f"{folder}: no trial of this sweep has ended with a score")
    return trained[:count]


def _run(folder: Path, trial: FrozenTrial, seed: int) -> TrialRun:
    run = TrialRun(storage.trial_folder(folder, trial.number), seed)
    if run.path is None:
        raise RunError(f"{run.folder}: the run with the seed {seed} is gone")
    return run


def _report(folder: Path, sweep: Sweep, trials: Sequence[FrozenTrial], steps: int) -> Report:
    """Write the table and the config of the best trial.

    Raises:
        RunError: No trial has a score.
    """
    rows = []
    for trial in trials:
        outcomes = [_run(folder, trial, seed).outcome(sweep.objectives) for seed in sweep.seeds]
        complete = [outcome for outcome in outcomes if outcome is not None and outcome.scores]
        whole = len(complete) == len(sweep.seeds)
        rows.append(
            {
                "trial": trial.number,
                "score": judge([outcome.scores for outcome in complete])[0] if whole else None,
                "score_before": trial.values[0],
                "steps": steps,
                **results.values_of(sweep, trial),
                "seconds": round(sum(outcome.seconds or 0.0 for outcome in complete), 1),
                "error": next((outcome.error for outcome in outcomes if outcome and outcome.error), None),
            }
        )
    rows = results.sorted_by_score(sweep, rows)
    files.write_text(folder / SweepFiles.TRAINED_ON, as_csv(rows))
    if rows[0]["score"] is None:
        raise RunError(f"no trial has ended with a score: the column `error` of {folder / SweepFiles.TRAINED_ON}")
    top = next(trial for trial in trials if trial.number == rows[0]["trial"])
    head = f"# trial {top.number}, trained on to {steps:,} steps: {sweep.objective.name} {rows[0]['score']:g}\n"
    best = folder / SweepFiles.TRAINED_ON_BEST
    files.write_text(best, head + files.to_yaml({**results.config_of(sweep, top.params), "steps": steps}))
    return Report(folder, sweep.objective.name, best, {}, rows)
