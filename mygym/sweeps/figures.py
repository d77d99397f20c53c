"""Figures of a sweep: slices, parallel coordinates, Pareto front, population."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mygym.reporting.final_scores import spans_decades
from mygym.reporting.panels import COLOURS, make_panels, styled
from mygym.sweeps.space import Parameter
from mygym.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
