"""Results of a sweep, and its state so far: table of the trials, best config, importance of the parameters, figures."""

from __future__ import annotations

import contextlib
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mygym.errors import ConfigError
from mygym.reporting.figures import check_matplotlib, rendered
from mygym.reporting.records import SweepFiles, find_runs, is_locked
from mygym.reporting.tables import as_csv, duration
from mygym.sweeps import population, storage
from mygym.sweeps.settings import Sweep
from mygym.sweeps.space import check_optuna, quiet
from mygym.training import files
from mygym.training.directory import resume_flag

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

MIN_IMPORTANCE_TRIALS = 4
"""Number of complete trials from which the importance of parameters is estimated."""


def complete(study: Study) -> list[FrozenTrial]:
    """Return the trials of which all runs have ended with a score."""
    return [trial for trial in study.get_trials(deepcopy=False) if is_complete(trial)]


def is_complete(trial: FrozenTrial) -> bool:
    """Return whether all runs of a trial have ended with a score."""
    return trial.state.name == "COMPLETE"


def ranked(sweep: Sweep, study: Study) -> list[FrozenTrial]:
    """Return the complete trials, the best first: by the first objective, then the second, then the number."""

    def costs(trial: FrozenTrial) -> list[float]:
        return [-score if each.maximize else score for each, score in zip(sweep.objectives, trial.values, strict=True)]

    return sorted(complete(study), key=costs)


def best(sweep: Sweep, study: Study) -> FrozenTrial | None:
    """Return the best complete trial; None without a complete trial."""
    return next(iter(ranked(sweep, study)), None)


def write_best(folder: Path, sweep: Sweep, trial: FrozenTrial) -> None:
    """Write the config of the best trial: `mygym train --config best.yaml` runs it."""
    head = f"# trial {trial.number}: {_scores(sweep, trial)} over the seeds {', '.join(map(str, sweep.seeds))}\n"
    files.write_text(folder / SweepFiles.BEST, head + files.to_yaml(sweep.config(values_of(sweep, trial))))


def write_results(folder: Path, sweep: Sweep, study: Study) -> list[dict[str, Any]]:
    """Write the best config, the table and, if Matplotlib is installed, the figures; return the rows of the table."""
    rows = table(sweep, study)
    files.write_text(folder / SweepFiles.TABLE, as_csv(rows))
    if (top := best(sweep, study)) is not None:
        write_best(folder, sweep, top)
        with contextlib.suppress(ConfigError):  # Matplotlib is an extra
            check_matplotlib()
            _write_figures(folder, sweep, study)
    return rows


def _write_figures(folder: Path, sweep: Sweep, study: Study) -> None:
    """Write Optuna's figures of a study with a complete trial."""
    import matplotlib as mpl

    if "matplotlib.pyplot" not in sys.modules:
        mpl.use("agg")  # a machine may have no display
    from matplotlib import pyplot
    from optuna.visualization.matplotlib import plot_parallel_coordinate, plot_pareto_front, plot_slice

    names, count = [each.name for each in sweep.objectives], len(sweep.parameters)
    with mpl.rc_context({"savefig.bbox": "tight"}):  # Optuna changes the style
        panels = plot_slice(study, target=lambda trial: trial.values[0], target_name=names[0])
        lines = plot_parallel_coordinate(study, target_name=names[0])
        lines.set_xticks(range(len(names) + count), [*names, *sorted(each.key for each in sweep.parameters)])
        drawn: dict[str, tuple[Any, float]] = {
            SweepFiles.SLICES: (panels, 3.5 * count + 1),
            SweepFiles.PARALLEL: (lines, 1.5 * count + 3),
        }
        if len(names) > 1:
            drawn[SweepFiles.FRONT] = (plot_pareto_front(study, target_names=names), 6)
        for file, (axes, width) in drawn.items():
            figure = np.ravel(axes)[0].figure
            figure.set_size_inches(width, 4)
            for axis in (axis for panel in figure.axes for axis in (panel.xaxis, panel.yaxis)):
                if axis.get_scale() == "log":
                    axis.set_major_formatter("{x:g}")  # our style has no formulas
            files.write_bytes(folder / file, rendered(figure, "svg"))
            pyplot.close(figure)


def table(sweep: Sweep, study: Study) -> list[dict[str, Any]]:
    """Return a row for each trial, the best first: number, state, scores, values, runs, seconds, error."""
    rows = []
    several = len(sweep.objectives) > 1
    front = {trial.number for trial in study.best_trials}
    for trial in study.get_trials(deepcopy=False):
        runs, scores = trial.user_attrs.get("runs", []), trial.values if is_complete(trial) else (None, None)
        second = {"second_score": scores[1], "front": trial.number in front} if several else {}
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


def values_of(sweep: Sweep, trial: FrozenTrial | Trial) -> dict[str, Any]:
    """Return key → value of a trial."""
    return {each.key: each.value(trial.params[each.key]) for each in sweep.parameters}


def importances(study: Study, sweep: Sweep) -> dict[str, float]:
    """Return key → share of a parameter in the difference between good trials and all (PED-ANOVA), the largest first.

    Empty with less than `MIN_IMPORTANCE_TRIALS` complete trials, or if all of them have the same score.
    """
    from optuna.importance import get_param_importances

    scores = [trial.values[0] for trial in complete(study)]
    if len(scores) < MIN_IMPORTANCE_TRIALS or len(set(scores)) == 1 or len(sweep.parameters) < 2:
        return {}
    return {key: float(share) for key, share in get_param_importances(study).items()}


def description(sweep: Sweep, trial: FrozenTrial) -> str:
    """Return the number, the scores or the state, and the values of a trial that has ended."""
    error = next((run["error"] for run in trial.user_attrs.get("runs", []) if "error" in run), "")
    score = _scores(sweep, trial) if is_complete(trial) else trial.state.name.lower()
    values = ", ".join(f"{key.rpartition('.')[2]}={_number(value)}" for key, value in values_of(sweep, trial).items())
    return f"trial {trial.number}: {'failed: ' + error if trial.state.name == 'FAIL' else score} ({values})"


def progress_line(sweep: Sweep, study: Study, trial: FrozenTrial, jobs: int) -> str:
    """Return a line on a trial that has ended, on the best trial, and on the time left."""
    top, done = best(sweep, study), len(ended(study))
    seconds = seconds_left(study, sweep.trials, jobs)
    parts = [
        description(sweep, trial),
        f"best: {_number(top.values[0])} (trial {top.number})" if top else "",
        f"{done} of {sweep.trials}" + (f", {duration(seconds)} left" if seconds and done < sweep.trials else ""),
    ]
    return "; ".join(part for part in parts if part)


def ended(study: Study) -> list[FrozenTrial]:
    """Return the trials that have ended: complete, pruned or failed."""
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()]


def seconds_left(study: Study, trials: int, jobs: int) -> float | None:
    """Return the estimated time left, s: the median duration of the trials so far for each that is left."""
    trained = [trial for trial in ended(study) if "past" not in trial.user_attrs]
    seconds = [trial.duration.total_seconds() for trial in trained if trial.duration]
    return statistics.median(seconds) * (trials - len(ended(study))) / max(1, jobs) if seconds else None


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _scores(sweep: Sweep, trial: FrozenTrial) -> str:
    pairs = zip(sweep.objectives, trial.values, strict=True)
    return ", ".join(f"{each.name} {_number(score)}" for each, score in pairs)


ENDS = {"PRUNED": "pruned", "FAIL": "failed"}
"""State of Optuna → the word for trials without a score."""


def read_state(folder: Path) -> tuple[list[str], bool]:
    """Return the state of a sweep in lines, and whether a process executes it; nothing is written.

    Raises:
        ConfigError: The folder has no sweep, or Optuna is missing.
    """
    sweep = storage.read(folder, "--watch")
    executing = is_locked(folder)
    if sweep.settings.population is not None:
        return _generations(folder, sweep), executing
    check_optuna(sweep.sampler)
    with quiet():
        study = storage.load_study(folder)
        done = ended(study) if study else []
        parts = [f"{len(done)} of {sweep.trials} trials"]
        counts = {word: sum(trial.state.name == state for trial in done) for state, word in ENDS.items()}
        parts += [f"{count} {word}" for word, count in counts.items() if count]
        every = study.get_trials(deepcopy=False) if study else []
        running = [trial for trial in every if not trial.state.is_finished()]
        if executing and study and (left := seconds_left(study, sweep.trials, len(running))) is not None:
            parts.append(f"{duration(left)} left")
        lines = [", ".join(parts)]
        if study and (top := best(sweep, study)):
            lines.append(f"best: {description(sweep, top)}")
        for trial in running:
            lines += [f"trial {trial.number}: {line}" for line in _runs(storage.trial_folder(folder, trial.number))]
    if not executing and len(done) < sweep.trials:
        lines.append(f"no process executes this sweep; go on with: mygym sweep {resume_flag(folder)}")
    return lines, executing


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


def _runs(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return [
        f"seed {record.seed}, {record.steps:,} steps"
        + (f", success {record.success_rate:.0%}" if record.success_rate is not None else "")
        for record in find_runs(folder)
        if record.status == "running"
    ]
