"""Results of a sweep: table of the trials, best config, importance of the parameters, figures."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mygym.errors import ConfigError
from mygym.reporting import sweep_files
from mygym.reporting.panels import check_matplotlib, rendered
from mygym.reporting.tables import as_csv, duration
from mygym.runs import files
from mygym.sweeps import figures
from mygym.sweeps.settings import Sweep
from mygym.sweeps.space import with_values

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

MIN_IMPORTANCE_TRIALS = 4
"""Number of complete trials from which the importance of parameters is estimated."""


def ranked(sweep: Sweep, study: Study) -> list[FrozenTrial]:
    """Return the complete trials, the best first: by the first objective, then the second, then the number."""
    complete = [trial for trial in study.get_trials(deepcopy=False) if is_complete(trial)]
    return sorted(complete, key=lambda trial: (_order(sweep, trial.values), trial.number))


def best(sweep: Sweep, study: Study) -> FrozenTrial | None:
    """Return the best complete trial; None without a complete trial."""
    return next(iter(ranked(sweep, study)), None)


def front(sweep: Sweep, study: Study) -> list[FrozenTrial]:
    """Return the Pareto front, the best by the first objective first: no trial is better in both objectives."""
    trials = [trial for trial in study.get_trials(deepcopy=False) if is_complete(trial)]
    costs = {trial.number: _order(sweep, trial.values) for trial in trials}

    def is_beaten(trial: FrozenTrial) -> bool:
        costs_of_trial = costs[trial.number]
        return any(
            other != costs_of_trial and all(a <= b for a, b in zip(other, costs_of_trial, strict=True))
            for other in costs.values()
        )

    return sorted((trial for trial in trials if not is_beaten(trial)), key=lambda trial: costs[trial.number])


def _order(sweep: Sweep, scores: Sequence[float]) -> tuple[float, ...]:
    """Return the scores so that smaller is better."""
    return tuple(-score if each.maximize else score for each, score in zip(sweep.objectives, scores, strict=True))


def is_complete(trial: FrozenTrial) -> bool:
    """Return whether all runs of a trial have ended with a score."""
    return trial.state.name == "COMPLETE"


def write_best(folder: Path, sweep: Sweep, trial: FrozenTrial) -> None:
    """Write the config of the best trial: `mygym train --config best.yaml` runs it."""
    head = f"# trial {trial.number}: {_scores(sweep, trial)} over the seeds {', '.join(map(str, sweep.seeds))}\n"
    files.write_text(folder / sweep_files.BEST, head + files.to_yaml(config_of(sweep, trial)))


def config_of(sweep: Sweep, trial: FrozenTrial) -> dict[str, Any]:
    """Return the config of a trial, without the values that all runs of sweeps have."""
    return with_values(sweep.base, {each.path: each.value(trial.params[each.key]) for each in sweep.parameters})


def write_results(folder: Path, sweep: Sweep, study: Study) -> list[dict[str, Any]]:
    """Write the best config, the table and, if Matplotlib is installed, the figures; return the rows of the table.

    Raises:
        RunError: A file cannot be written.
    """
    rows = table(sweep, study)
    files.write_text(folder / sweep_files.TABLE, as_csv(rows))
    complete = [trial for trial in study.get_trials(deepcopy=False) if is_complete(trial)]
    if (top := best(sweep, study)) is not None:
        write_best(folder, sweep, top)
    with contextlib.suppress(ConfigError):  # Matplotlib is an extra
        check_matplotlib()
        if complete:
            _write_figures(folder, sweep, study, complete)
    return rows


def _write_figures(folder: Path, sweep: Sweep, study: Study, complete: Sequence[FrozenTrial]) -> None:
    points = [(each, [values_of(sweep, trial)[each.key] for trial in complete]) for each in sweep.parameters]
    scores = [trial.values[0] for trial in complete]
    name, shares = sweep.objective.name, importances(study, sweep)
    drawn = {
        sweep_files.SLICES: figures.draw_slices(points, scores, name, shares),
        sweep_files.PARALLEL: figures.draw_parallel(points, scores, name, sweep.objective.maximize),
    }
    if len(sweep.objectives) > 1:
        best_trials = [trial.values for trial in front(sweep, study)]
        names = [each.name for each in sweep.objectives]
        drawn[sweep_files.FRONT] = figures.draw_front([trial.values for trial in complete], best_trials, names)
    for file, figure in drawn.items():
        files.write_bytes(folder / file, rendered(figure, "svg"))


def table(sweep: Sweep, study: Study) -> list[dict[str, Any]]:
    """Return a row for each trial, the best first: number, state, scores, values, runs, seconds, error."""
    rows = []
    several = len(sweep.objectives) > 1
    best_trials = {trial.number for trial in front(sweep, study)} if several else set()
    for trial in study.get_trials(deepcopy=False):
        runs, scores = trial.user_attrs.get("runs", []), trial.values if is_complete(trial) else (None, None)
        second = {"second_score": scores[1], "front": trial.number in best_trials} if several else {}
        past = trial.user_attrs.get("past")
        rows.append(
            {
                "trial": trial.number,
                "state": trial.state.name.lower() if past is None else "past",
                "score": scores[0],
                **second,
                **values_of(sweep, trial),
                "runs": " ".join(f"{run['seed']}:{run['status']}" for run in runs),
                "seconds": round(sum(run.get("seconds", 0.0) for run in runs), 1),
                "error": next((run["error"] for run in runs if "error" in run), None),
            }
        )
    return sorted(sorted_by_score(sweep, rows), key=lambda row: not row.get("front"))


def sorted_by_score(sweep: Sweep, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with a score, the best first, then those without."""
    sign = -1 if sweep.objective.maximize else 1
    return sorted(rows, key=lambda row: (row["score"] is None, sign * (row["score"] or 0.0)))


def values_of(sweep: Sweep, trial: FrozenTrial) -> dict[str, Any]:
    """Return key → value of a trial; None if a killed process has not drawn it."""
    return {
        each.key: each.value(trial.params[each.key]) if each.key in trial.params else None for each in sweep.parameters
    }


def importances(study: Study, sweep: Sweep) -> dict[str, float]:
    """Return key → share of a parameter in the difference between good trials and all (PED-ANOVA), the largest first.

    Empty with less than `MIN_IMPORTANCE_TRIALS` complete trials, or if all of them have the same score.
    """
    from optuna.importance import get_param_importances

    scores = [trial.values[0] for trial in study.get_trials(deepcopy=False) if is_complete(trial)]
    if len(scores) < MIN_IMPORTANCE_TRIALS or len(set(scores)) == 1 or len(sweep.parameters) < 2:
        return {}
    return {key: float(share) for key, share in get_param_importances(study).items()}


def description(sweep: Sweep, trial: FrozenTrial) -> str:
    """Return the number, the scores or the state, and the values of a trial that has ended."""
    error = next((run["error"] for run in trial.user_attrs.get("runs", []) if "error" in run), "")
    score = _scores(sweep, trial) if is_complete(trial) else trial.state.name.lower()
    values = ", ".join(f"{key.rpartition('.')[2]}={_number(value)}" for key, value in values_of(sweep, trial).items())
    return f"trial {trial.number}: {'failed: ' + error if trial.state.name == 'FAIL' else score} ({values})"


def progress_line(sweep: Sweep, trial: FrozenTrial, top: FrozenTrial | None, done: int, seconds_left: float) -> str:
    """Return a line on a trial that has ended, on the best trial, and on the time left."""
    parts = [
        description(sweep, trial),
        f"best: {_number(top.values[0])} (trial {top.number})" if top else "",
        f"{done} of {sweep.trials}" + (f", {duration(seconds_left)} left" if done < sweep.trials else ""),
    ]
    return "; ".join(part for part in parts if part)


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _scores(sweep: Sweep, trial: FrozenTrial) -> str:
    pairs = zip(sweep.objectives, trial.values, strict=True)
    return ", ".join(f"{each.name} {_number(score)}" for each, score in pairs)
