"""Figures in Matplotlib: learning curves, success by stage, performance profiles, sensitivity to a hyperparameter."""

from __future__ import annotations

import contextlib
import io
import math
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from mygym.errors import ConfigError, counted
from mygym.reporting.comparison import Sensitivity, profile_bands, spans_decades
from mygym.reporting.curves import AXES, LABELS, SettingCurves, is_rate, metrics_of, setting_band, stage_curves
from mygym.reporting.settings import names_of, setting_names
from mygym.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours that people with colour blindness distinguish (Okabe and Ito)."""

LINES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h", "p")
"""Line styles and markers: with them the lines differ in black and white."""

MAX_LINES = len(MARKERS)
"""Lines of a panel; of more settings, the best are drawn."""

MARKED = 10
"""Approximate number of markers of a line."""

PANEL = (5.0, 3.2)
"""Width and height of a panel, inches."""

LEGEND = 3.0
"""Width of the legend beside a row of panels, inches."""

STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "mygym",
    "text.parse_math": False,
    "path.simplify": True,
}

FORMATS = ("svg", "png", "pdf")
"""Suffixes of files for which `rendered` has a format."""


def check_matplotlib() -> None:
    """Refuse to go on without Matplotlib; the message has the command that installs it."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        message = "figures need the package 'matplotlib': pip install \"mygym[results]\""
        raise ConfigError(message) from error


def rendered(figure: Figure, form: str) -> bytes:
    """Return a figure as a file of one of `FORMATS`; the same figure gives the same bytes."""
    dates: Mapping[str, Mapping[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    file = io.BytesIO()
    with styled(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # of a name in a script that the font does not have
        figure.savefig(file, format=form, dpi=150, metadata=dict(dates.get(form, {})))
    return file.getvalue()


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """Apply `STYLE` within the context or the decorated function."""
    from matplotlib import rc_context

    with rc_context(STYLE):
        yield


def make_panels(rows: int, columns: int) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure with rows of panels, and space for a legend beside each row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(PANEL[0] * columns + LEGEND, PANEL[1] * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False).tolist()


def make_grid(count: int, columns: int) -> tuple[Figure, list[list[Axes]], list[Axes]]:
    """Return a figure with some panels, in rows with at most so many columns; its rows, and its panels."""
    columns = min(columns, count)
    figure, rows = make_panels(-(-count // columns), columns)
    panels = [panel for row in rows for panel in row]
    for unused in panels[count:]:
        unused.set_visible(False)
    return figure, rows, panels[:count]


def draw_line(
    panel: Axes,
    index: int,
    x: FloatArray,
    value: FloatArray,
    name: str,
    low: FloatArray | None = None,
    high: FloatArray | None = None,
    *,
    sparse: bool = True,
    steps: bool = False,
) -> None:
    """Draw a line with a band; its colour, line style and marker follow from its index."""
    if not len(x):
        return
    colour, line, marker = COLOURS[index % len(COLOURS)], LINES[index % len(LINES)], MARKERS[index % len(MARKERS)]
    every = max(1, len(x) // MARKED) if sparse else 1
    panel.plot(
        x,
        value,
        color=colour,
        linestyle=line,
        marker=marker,
        markevery=(index % every, every),  # lines on each other show their markers in turn
        markerfacecolor="white" if index % 2 else colour,
        drawstyle="steps-post" if steps else "default",
        label=name,
        zorder=3,
    )
    if low is not None and high is not None and np.isfinite(low).any():
        panel.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0, step="post" if steps else None)


def finish_row(row: Sequence[Axes], settings: int, rates: bool = False) -> None:
    """Put the legend of a row of panels beside it, and limit the axes of rates."""
    if rates:
        for panel in row:
            panel.set_ylim(-0.02, 1.02)
    title = f"the best {MAX_LINES} of {settings}" if settings > MAX_LINES else None
    pairs = [zip(*reversed(panel.get_legend_handles_labels()), strict=True) for panel in reversed(row)]
    handles = dict(pair for panel in pairs for pair in panel)
    if handles:
        row[-1].legend(
            handles.values(), handles, loc="upper left", bbox_to_anchor=(1.02, 1.0), borderaxespad=0.0, title=title
        )


def thousands(panel: Axes) -> None:
    """Write the numbers of the horizontal axis as `50k`."""
    from matplotlib.ticker import EngFormatter

    panel.xaxis.set_major_formatter(EngFormatter(sep=""))


LABEL_WIDTH = 48
"""Characters of a line in a legend."""

COLUMNS = 4
"""Panels beside each other, of recorded figures."""


def by_task(settings: Iterable[SettingCurves]) -> dict[str, list[SettingCurves]]:
    """Return task → its settings, sorted by name."""
    result: dict[str, list[SettingCurves]] = {}
    for curves in settings:
        result.setdefault(curves.setting.records[0].task, []).append(curves)
    for members in result.values():
        names = names_of([curves.setting.config for curves in members])
        members[:] = [curves for _, curves in sorted(zip(names, members, strict=True), key=itemgetter(0))]
    return dict(sorted(result.items()))


def best(settings: Sequence[SettingCurves], metric: str = "success") -> list[SettingCurves]:
    """Return up to `MAX_LINES` settings, those whose runs ended best, in their order; for other figures, in success."""
    ranking = metric if metric in LABELS else "success"

    def last(curves: SettingCurves) -> float:
        values = [y[-1] for curve in curves.curves if len(y := curve.along("steps", ranking)[1])]
        return float(np.mean(values)) if values else -math.inf

    chosen = sorted(range(len(settings)), key=lambda index: last(settings[index]), reverse=True)[:MAX_LINES]
    return [settings[index] for index in sorted(chosen)]


@styled()
def draw_curves(settings: Sequence[SettingCurves], metric: str = "success", statistic: str = "iqm") -> Figure:
    """Draw learning curves: a row for each task, a column for each of `AXES`, a line with a band for each setting.

    Raises:
        ConfigError: No run has an evaluation.
    """
    tasks = by_task(_evaluated(settings))
    figure, panels = make_panels(len(tasks), len(AXES))
    for row, (task, members) in zip(panels, tasks.items(), strict=True):
        shown = best(members, metric)
        names = labels(shown)
        for panel, axis in zip(row, AXES, strict=True):
            scale, unit, longest = 1.0, "", 0.0
            if axis == "seconds":
                scale, unit = _time_unit(shown)
            for index, (curves, name) in enumerate(zip(shown, names, strict=True)):
                x, value, low, high = setting_band(curves, axis, metric, statistic)
                draw_line(panel, index, x / scale, value, name, low, high)
                longest = max([longest, *(x / scale)])
            panel.set(title=task, xlabel=f"{AXES[axis]}{unit and f' ({unit})'}", xlim=(0, 1.03 * longest or 1))
            if not panel.lines:
                panel.text(0.5, 0.5, "not recorded", ha="center", transform=panel.transAxes)
            if axis == "steps":
                thousands(panel)
        row[0].set_ylabel(LABELS.get(metric, metric))
        finish_row(row, len(members), rates=is_rate(metric))
    return figure


@styled()
def draw_figures(settings: Sequence[SettingCurves]) -> Figure | None:
    """Draw all recorded figures of settings of a task, besides success and return of evaluations; None without figures.

    Each has a panel over env steps, with a line and a band for each setting.
    """
    shown = best(_evaluated(settings))
    metrics = [
        metric for metric in metrics_of(curve for each in shown for curve in each.curves) if metric not in LABELS
    ]
    if not metrics:
        return None
    names = labels(shown)
    figure, rows, panels = make_grid(len(metrics), COLUMNS)
    for panel, metric in zip(panels, metrics, strict=True):
        for index, (curves, name) in enumerate(zip(shown, names, strict=True)):
            x, value, low, high = setting_band(curves, "steps", metric)
            draw_line(panel, index, x, value, name, low, high)
        panel.set_title(metric)
        thousands(panel)
        if is_rate(metric):
            panel.set_ylim(-0.02, 1.02)
    finish_row(rows[0], len(settings))
    return figure


@styled()
def draw_stages(settings: Sequence[SettingCurves]) -> Figure:
    """Draw the share of evaluation episodes that have completed each stage: a panel for each setting.

    Raises:
        ConfigError: No evaluation records stages.
    """
    recorded = [curves for curves in settings if any(curve.stages for curve in curves.curves)]
    if not recorded:
        raise ConfigError("no evaluation of these runs records the stages of its episodes")
    members = [
        (f"{task}: {name}", curves)
        for task, group in by_task(recorded).items()
        for curves, name in zip(best(group), labels(best(group)), strict=True)
    ]
    figure, rows, panels = make_grid(len(members), 3)
    for panel, (title, curves) in zip(panels, members, strict=True):
        x, shares = stage_curves(curves)
        for index, (stage, values) in enumerate(shares.items()):
            draw_line(panel, index, x, values, stage)
        panel.set(title=title, xlabel=AXES["steps"], ylim=(-0.02, 1.02))
        thousands(panel)
        if shares:
            panel.legend(title="completed")
    for row in rows:
        row[0].set_ylabel("share of episodes")
    return figure


@styled()
def draw_profiles(settings: Sequence[SettingCurves], metric: str = "success") -> Figure:
    """Draw performance profiles of the final scores: a panel for each task, a line with a band for each setting.

    Raises:
        ConfigError: No run has ended.
    """
    tasks = by_task([curves for curves in settings if curves.setting.ended.records])
    if not tasks:
        raise ConfigError("no run has ended: final scores are those of runs that have ended")
    figure, panels = make_panels(len(tasks), 1)
    for row, (task, members) in zip(panels, tasks.items(), strict=True):
        shown = best(members, metric)
        thresholds, bands = profile_bands([curves.setting for curves in shown], metric)
        names = labels(shown, [len(curves.setting.ended.records) for curves in shown])
        for index, (name, (value, low, high)) in enumerate(zip(names, bands, strict=True)):
            draw_line(row[0], index, thresholds, value, name, low, high, steps=True)
        of = " of the saved policy" if metric in LABELS else ", last value"
        row[0].set(title=task, xlabel=f"{LABELS.get(metric, metric)}{of}, τ", ylabel="share of runs above τ")
        finish_row(row, len(members), rates=True)
    return figure


@styled()
def draw_sensitivity(groups: Mapping[str, Sequence[Sensitivity]], key: str, metric: str = "success") -> Figure:
    """Draw final scores over the values of a hyperparameter: a panel for each task, a line for each of its groups."""
    figure, panels = make_panels(len(groups), 1)
    for (panel,), (task, members) in zip(panels, groups.items(), strict=True):
        shown = members[:MAX_LINES]
        numeric = all(type(value) in (int, float) for group in shown for value in group.values)
        texts = list(dict.fromkeys(str(value) for group in shown for value in group.values))
        bottom = min([0.0, *(float(score) for group in shown for scores in group.scores for score in scores)])
        marks: dict[str, list[float]] = {"diverged run": [], "failed run": []}
        for index, group in enumerate(shown):
            x = np.array([value if numeric else texts.index(str(value)) for value in group.values], float)
            draw_line(panel, index, x, group.centre, group.name, group.low, group.high, sparse=False)
            for position, scores in zip(x, group.scores, strict=True):
                panel.plot(np.full(len(scores), position), scores, ".", color="0.45", markersize=3, zorder=1)
            for numbers, name in zip((group.diverged, group.failed), marks, strict=True):
                marks[name] += [position for position, number in zip(x, numbers, strict=True) if number]
        for (name, positions), marker in zip(marks.items(), "x+", strict=True):
            if positions:
                heights = np.full(len(positions), bottom)
                panel.plot(positions, heights, marker, color="black", markersize=9, label=name, clip_on=False, zorder=4)
        if numeric:
            values = sorted({float(value) for group in shown for value in group.values})
            if spans_decades(values):
                panel.set_xscale("log")
            panel.set_xticks(values, [f"{value:g}" for value in values], rotation=30 if len(values) > 5 else 0)
            panel.set_xticks([], minor=True)
        else:
            panel.set_xticks(range(len(texts)), texts)
        panel.set(title=task, xlabel=key, ylabel=f"final {LABELS.get(metric, metric)}")
        finish_row([panel], len(members), rates=is_rate(metric))
    return figure


def labels(settings: Sequence[SettingCurves], runs: Sequence[int] = ()) -> list[str]:
    """Return the names of settings in a legend: the difference of their configs, and the number of runs.

    `runs` are these numbers; by default they are those of the runs with evaluations.
    """
    names = setting_names([curves.setting for curves in settings])
    numbers = runs or [len(curves.curves) for curves in settings]
    texts = [f"{name} ({counted(number, 'seed')})" for name, number in zip(names, numbers, strict=True)]
    return [textwrap.fill(text, LABEL_WIDTH) for text in texts]


def _evaluated(settings: Iterable[SettingCurves]) -> list[SettingCurves]:
    """Return the settings with evaluations."""
    evaluated = [curves for curves in settings if curves.curves]
    if not evaluated:
        raise ConfigError("no run has an evaluation yet")
    return evaluated


def _time_unit(settings: Sequence[SettingCurves]) -> tuple[float, str]:
    """Return the length in s of a time unit that suits the longest run, and its symbol."""
    times = (curve.times[1] for each in settings for curve in each.curves)
    longest = max((float(np.nanmax(seconds, initial=0)) for seconds in times), default=0)
    return next(
        (size, unit) for size, unit in ((3600.0, "h"), (60.0, "min"), (1.0, "s")) if longest >= 3 * size or size == 1
    )
