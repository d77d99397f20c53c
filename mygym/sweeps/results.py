"""Results of a sweep: table of the trials, best config, importance of the parameters, figures."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mygym.errors import ConfigError
from mygym.reporting.panels import check_matplotlib, rendered
from mygym.reporting.tables import as_csv, duration
from mygym.runs import files
from mygym.sweeps import figures, storage
from mygym.sweeps.settings import Sweep
from mygym.sweeps.space import with_values

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

FOR_IMPORTANCE = 4
"""Number of complete trials from which the importance of parameters is estimated."""


def best(study: Study) -> FrozenTrial | None:
    """Return the best complete trial; of equal trials the first; None without a complete trial."""
    complete = [trial for trial in study.get_trials(deepcopy=False) if is_complete(trial)]
    sign = -1 if study.direction.name == "MAXIMIZE" else 1
    return min(complete, key=lambda trial: (sign * (trial.value or 0.0), trial.number), default=None)


def is_complete(trial: FrozenTrial) -> bool:
    """Return whether all runs of a trial have ended with a score."""
    return trial.state.name == "COMPLETE"


def write_best(folder: Path, sweep: Sweep, trial: FrozenTrial) -> None:
    """Write the config of the best trial: `mygym train --config best.yaml` runs it."""
    values = {each.path: each.value(trial.params[each.key]) for each in sweep.parameters}
    head = f"# trial {trial.number}: {sweep.objective.name} {trial.value:g} over the seeds {_list(sweep.seeds)}\n"
    files.write_text(folder / storage.BEST, head + files.to_yaml(with_values(sweep.base, values)))


def write_results(folder: Path, sweep: Sweep, study: Study) -> list[dict[str, Any]]:
    """Write the best config, the table and, if Matplotlib is installed, the figures; return the rows of the table.

    Raises:
        RunError: A file cannot be written.
    """
    rows = table(sweep, study)
    files.write_text(folder / storage.TABLE, as_csv(rows))
    complete = [trial for trial in study.get_trials(deepcopy=False) if is_complete(trial)]
    if (top := best(study)) is not None:
        write_best(folder, sweep, top)
    with contextlib.suppress(ConfigError):  # Matplotlib is an extra
        check_matplotlib()
        if complete:
            points = [(each, [values_of(sweep, trial)[each.key] for trial in complete]) for each in sweep.parameters]
            scores = [float(trial.value or 0.0) for trial in complete]
            name, shares = sweep.objective.name, importances(study, sweep)
            slices = figures.draw_slices(points, scores, name, shares)
            parallel = figures.draw_parallel(points, scores, name, sweep.objective.maximize)
            files.write_bytes(folder / storage.SLICES, rendered(slices, "svg"))
            files.write_bytes(folder / storage.PARALLEL, rendered(parallel, "svg"))
    return rows


def table(sweep: Sweep, study: Study) -> list[dict[str, Any]]:
    """Return a row for each trial, the best first: number, state, score, values, runs, seconds, error."""
    rows = []
    for trial in study.get_trials(deepcopy=False):
        runs = trial.user_attrs.get("runs", [])
        rows.append(
            {
                "trial": trial.number,
                "state": trial.state.name.lower(),
                "score": trial.value if is_complete(trial) else None,
                **values_of(sweep, trial),
                "runs": " ".join(f"{run['seed']}:{run['status']}" for run in runs),
                "seconds": round(sum(run.get("seconds", 0.0) for run in runs), 1),
                "error": next((run["error"] for run in runs if "error" in run), None),
            }
        )
    sign = -1 if sweep.objective.maximize else 1
    return sorted(rows, key=lambda row: (row["score"] is None, sign * (row["score"] or 0.0)))


def values_of(sweep: Sweep, trial: FrozenTrial) -> dict[str, Any]:
    """Return key → value of a trial; None if a killed process has not drawn it."""
    return {
        each.key: each.value(trial.params[each.key]) if each.key in trial.params else None for each in sweep.parameters
    }


def importances(study: Study, sweep: Sweep) -> dict[str, float]:
    """Return key → share of a parameter in the difference between good trials and all (PED-ANOVA), the largest first.

    Empty with less than `FOR_IMPORTANCE` complete trials, or if all of them have the same score.
    """
    from optuna.importance import get_param_importances

    scores = [trial.value for trial in study.get_trials(deepcopy=False) if is_complete(trial)]
    if len(scores) < FOR_IMPORTANCE or len(set(scores)) == 1 or len(sweep.parameters) < 2:
        return {}
    return {key: float(share) for key, share in get_param_importances(study).items()}


def progress_line(sweep: Sweep, trial: FrozenTrial, top: FrozenTrial | None, done: int, seconds_left: float) -> str:
    """Return a line on a trial that has ended, on the best trial, and on the time left."""
    error = next((run["error"] for run in trial.user_attrs.get("runs", []) if "error" in run), "")
    score = f"{sweep.objective.name} {_number(trial.value)}" if is_complete(trial) else trial.state.name.lower()
    values = ", ".join(f"{key.rpartition('.')[2]}={_number(value)}" for key, value in values_of(sweep, trial).items())
    parts = [
        f"trial {trial.number}: {'failed: ' + error if trial.state.name == 'FAIL' else score} ({values})",
        f"best: {_number(top.value)} (trial {top.number})" if top else "",
        f"{done} of {sweep.trials}" + (f", {duration(seconds_left)} left" if done < sweep.trials else ""),
    ]
    return "; ".join(part for part in parts if part)


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _list(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))
