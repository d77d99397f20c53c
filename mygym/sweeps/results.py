"""Results of a sweep: table of the trials, best config, importance of the parameters, figures."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mygym.errors import ConfigError
from mygym.reporting import sweep_files
from mygym.reporting.comparison import spans_decades
from mygym.reporting.panels import COLOURS, check_matplotlib, make_panels, rendered, styled
from mygym.reporting.tables import as_csv, duration
from mygym.sweeps.settings import Sweep
from mygym.sweeps.space import Parameter, with_values
from mygym.training import files
from mygym.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from optuna.study import Study
    from optuna.trial import FrozenTrial

COLUMNS = 3
"""Panels side by side."""

MAX_TICKS = 6
"""Largest number of values that are all named on an axis."""

Points = Sequence[tuple[Parameter, Sequence[Any]]]
"""Each parameter with its value in each trial."""


@styled()
def draw_slices(points: Points, scores: Sequence[float], objective: str, shares: Mapping[str, float]) -> Figure:
    """Draw the score of each trial over each parameter, the most important first; later trials are darker.

    Args:
        points: Each parameter with its values in the complete trials.
        scores: Scores of the trials.
        objective: Name of the score.
        shares: Key → importance; empty if it is unknown.
    """
    ordered = sorted(points, key=lambda point: -shares.get(point[0].key, 0.0))
    columns = min(COLUMNS, len(ordered))
    figure, panels = make_panels(-(-len(ordered) // columns), columns)
    flat = [panel for row in panels for panel in row]
    for panel, (parameter, values) in zip(flat, ordered, strict=False):
        x, texts = _positions(parameter, values)
        panel.scatter(
            x, scores, s=18, c=range(len(scores)), cmap="Blues", vmin=-len(scores) / 3, edgecolors="0.3", lw=0.4
        )
        _name_axis(panel, x, texts)
        share = f" ({shares[parameter.key]:.0%} of the importance)" if parameter.key in shares else ""
        panel.set_xlabel(f"{parameter.key}{share}")
    for row in panels:
        row[0].set_ylabel(objective)
    for panel in flat[len(ordered) :]:
        panel.set_visible(False)
    return figure


@styled()
def draw_parallel(points: Points, scores: Sequence[float], objective: str, maximize: bool) -> Figure:
    """Draw a line for each trial through its values and its score; the best quarter in colour.

    Args:
        points: Each parameter with its values in the complete trials.
        scores: Scores of the trials.
        objective: Name of the score.
        maximize: Whether larger scores are better.
    """
    figure, [[panel]] = make_panels(1, 1)
    figure.set_size_inches(2.0 * (len(points) + 1) + 1, 4.0)
    axes = [(each.key, *_positions(each, values)) for each, values in points]
    axes.append((objective, np.array(scores, float), None))
    heights = np.stack([_scaled(x, texts) for _, x, texts in axes], axis=1)
    order = np.argsort(np.array(scores) * (1 if maximize else -1), kind="stable")
    best = set(order[-max(1, len(order) // 4) :].tolist())
    for index in order.tolist():
        colour, width = (COLOURS[0], 1.6) if index in best else ("0.75", 0.8)
        panel.plot(range(len(axes)), heights[index], color=colour, lw=width, zorder=3 if index in best else 2)
    for position, (_, x, texts) in enumerate(axes):
        panel.axvline(position, color="0.3", lw=0.6)
        for value, height in _ticks(x, texts):
            panel.annotate(
                value, (position, height), xytext=(3, 0), textcoords="offset points", fontsize=7, va="center"
            )
    panel.set_xticks(range(len(axes)), [key.rpartition(".")[2] if key != objective else key for key, *_ in axes])
    panel.set_yticks([])
    panel.grid(visible=False)
    panel.set_title("the best quarter of the trials in colour")
    return figure


@styled()
def draw_front(scores: Sequence[Sequence[float]], front: Sequence[Sequence[float]], names: Sequence[str]) -> Figure:
    """Draw the second objective over the first: all trials, and the Pareto front as a line.

    Args:
        scores: Both scores of each complete trial.
        front: Both scores of the trials of the front, in their order.
        names: Names of the objectives.
    """
    figure, [[panel]] = make_panels(1, 1)
    (first, second), (x, y) = np.array(scores).T, np.array(front).T
    panel.scatter(first, second, s=18, color="0.7", label="trials")
    panel.plot(x, y, "o-", color=COLOURS[0], ms=5, label="Pareto front")
    panel.set_xlabel(names[0])
    panel.set_ylabel(names[1])
    panel.legend()
    return figure


@dataclass(frozen=True)
class MemberGeneration:
    """A generation of a member of a population."""

    steps: tuple[int, int]
    """Env steps at its begin and end."""
    scores: tuple[float | None, float | None]
    """Scores of its parent and of itself; None if unknown."""
    values: Mapping[str, tuple[float, float]]
    """Key → value of its parent and of itself."""
    copied: bool
    """Whether it continues the checkpoint of another member."""


@styled()
def draw_population(members: Sequence[MemberGeneration], keys: Sequence[str], objective: str) -> Figure:
    """Draw the score and each value over the env steps; copies are dashed and in another colour.

    Args:
        members: The members of all generations.
        keys: Keys of the parameters.
        objective: Name of the score.
    """
    columns = min(COLUMNS, len(keys) + 1)
    figure, panels = make_panels(-(-(len(keys) + 1) // columns), columns)
    flat = [panel for row in panels for panel in row]
    for member in members:
        colour, line = (COLOURS[1], "--") if member.copied else (COLOURS[0], "-")
        known = [(x, y) for x, y in zip(member.steps, member.scores, strict=True) if y is not None]
        if known:
            flat[0].plot([x for x, _ in known], [y for _, y in known], marker=".", lw=0.8, color=colour, ls=line)
        for key, panel in zip(keys, flat[1:], strict=False):
            first, second = member.values[key]
            begin, end = member.steps
            panel.plot([begin, begin, end], [first, second, second], lw=0.8, color=colour, ls=line)
    for panel, name in zip(flat, [objective, *keys], strict=False):
        panel.set_ylabel(name)
        panel.set_xlabel("env steps")
    for key, panel in zip(keys, flat[1:], strict=False):
        if spans_decades([value for member in members for value in member.values[key]]):
            panel.set_yscale("log")
    for panel in flat[len(keys) + 1 :]:
        panel.set_visible(False)
    return figure


def _positions(parameter: Parameter, values: Sequence[Any]) -> tuple[FloatArray, list[str] | None]:
    """Return positions `(T,)` of values on an axis, and the names of the positions 0, 1, … if they are no numbers."""
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in parameter.values)
    if numeric:
        return np.array(values, float), None
    texts = [str(value) for value in parameter.values]
    return np.array([texts.index(str(value)) for value in values], float), texts


def _name_axis(panel: Axes, x: FloatArray, texts: list[str] | None) -> None:
    if texts is not None:
        panel.set_xticks(range(len(texts)), texts, rotation=20 if len(texts) > 3 else 0)
        panel.set_xlim(-0.5, len(texts) - 0.5)
        return
    if spans_decades(x.tolist()):
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter("{x:g}")
        panel.xaxis.set_minor_formatter("")
    if len(values := sorted(set(x.tolist()))) <= MAX_TICKS:
        panel.set_xticks(values, [f"{value:g}" for value in values])
        panel.set_xticks([], minor=True)


def _scaled(x: FloatArray, texts: list[str] | None) -> FloatArray:
    """Return positions in [0, 1], logarithmic if they span decades."""
    values = np.log(x) if texts is None and spans_decades(x.tolist()) else x
    low, high = (0, len(texts) - 1) if texts is not None else (values.min(), values.max())
    return np.asarray((values - low) / (high - low) if high > low else np.full(len(values), 0.5))


def _ticks(x: FloatArray, texts: list[str] | None) -> list[tuple[str, float]]:
    """Return texts and heights at which an axis of the parallel coordinates is named."""
    if texts is not None:
        return [(text, index / max(1, len(texts) - 1)) for index, text in enumerate(texts)]
    heights = _scaled(x, None)
    chosen = {float(value): float(height) for value, height in zip(x, heights, strict=True)}
    if len(chosen) <= MAX_TICKS:
        return [(f"{value:.3g}", height) for value, height in chosen.items()]
    return [(f"{x[index]:.3g}", float(heights[index])) for index in (int(x.argmin()), int(x.argmax()))]


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
        sweep_files.SLICES: draw_slices(points, scores, name, shares),
        sweep_files.PARALLEL: draw_parallel(points, scores, name, sweep.objective.maximize),
    }
    if len(sweep.objectives) > 1:
        best_trials = [trial.values for trial in front(sweep, study)]
        names = [each.name for each in sweep.objectives]
        drawn[sweep_files.FRONT] = draw_front([trial.values for trial in complete], best_trials, names)
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
