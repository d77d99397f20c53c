"""More env steps for the best trials of a sweep: their runs continue from their last checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mygym.errors import ConfigError, RunError, bad_value
from mygym.reporting import sweep_files
from mygym.reporting.tables import as_csv
from mygym.sweeps import executors, results, storage, trial_runs
from mygym.sweeps.executors import Executor, stop_left_over
from mygym.sweeps.run import Report, limited, writing
from mygym.sweeps.samplers import check_optuna, make_pruner, quiet
from mygym.sweeps.settings import Sweep, check_space, judge
from mygym.training import files
from mygym.training.loading import read_config
from mygym.training.result import Result

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


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
    check_optuna(sweep.sampler)
    memory = limited(executor, check_space(sweep).largest, notify)
    folder = folder.resolve()
    with storage.lock(folder), quiet(), writing(folder):
        trials = _best(folder, sweep, count)
        _check_steps(folder, sweep, trials, steps)
        stop_left_over(folder)
        pairs = [(trial, seed) for trial in trials for seed in sweep.seeds]
        waiting = [(trial, seed) for trial, seed in pairs if not trial_runs.has_ended(_run(folder, trial, seed), steps)]
        imports = sweep.base.get("imports", ())
        jobs = [
            trial_runs.job(storage.trial_folder(folder, trial.number), seed, imports, memory, steps)
            for trial, seed in waiting
        ]

        def note(index: int) -> None:
            trial, seed = waiting[index]
            result = Result.read(_run(folder, trial, seed))
            status = result.status if result else "failed"
            notify(f"trial {trial.number}, seed {seed}: {status} at {steps:,} steps")

        again = f"mygym sweep --resume {folder} --train-on {count} --steps {steps}"
        executors.execute(executor, jobs, note, again)
        return _report(folder, sweep, trials, steps)


def _best(folder: Path, sweep: Sweep, count: int) -> list[FrozenTrial]:
    study = storage.open_study(folder, sweep, make_pruner("none", 1))
    trials = [trial for trial in results.ranked(sweep, study) if "past" not in trial.user_attrs]
    trained = [trial for trial in trials if all(run["status"] == "done" for run in trial.user_attrs.get("runs", []))]
    if not trained:
        raise RunError(f"{folder}: no trial of this sweep has ended with a score")
    return trained[:count]


def _check_steps(folder: Path, sweep: Sweep, trials: Sequence[FrozenTrial], steps: int) -> None:
    for trial in trials:
        for seed in sweep.seeds:
            run = _run(folder, trial, seed)
            now = read_config(run)["steps"]
            if now > steps:
                why = f"is less than the {now:,} steps of {run}"
                raise ConfigError(bad_value("--steps", steps, f"at least {now:,}", why))


def _run(folder: Path, trial: FrozenTrial, seed: int) -> Path:
    run = trial_runs.find_run(storage.trial_folder(folder, trial.number), seed)
    if run is None:
        raise RunError(f"{storage.trial_folder(folder, trial.number)}: the run with the seed {seed} is gone")
    return run


def _report(folder: Path, sweep: Sweep, trials: Sequence[FrozenTrial], steps: int) -> Report:
    """Write the table and the config of the best trial.

    Raises:
        RunError: No trial has a score.
    """
    rows = []
    for trial in trials:
        outcomes = [trial_runs.outcome_of(_run(folder, trial, seed), sweep.objectives) for seed in sweep.seeds]
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
    files.write_text(folder / sweep_files.TRAINED_ON, as_csv(rows))
    if rows[0]["score"] is None:
        raise RunError(f"no trial has ended with a score: the column `error` of {folder / sweep_files.TRAINED_ON}")
    top = next(trial for trial in trials if trial.number == rows[0]["trial"])
    head = f"# trial {top.number}, trained on to {steps:,} steps: {sweep.objective.name} {rows[0]['score']:g}\n"
    best = folder / sweep_files.TRAINED_ON_BEST
    files.write_text(best, head + files.to_yaml({**results.config_of(sweep, top), "steps": steps}))
    return Report(folder, sweep.objective.name, best, {}, rows)
