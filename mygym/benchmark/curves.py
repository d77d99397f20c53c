"""Learning curves of a benchmark: a picture for each task, beside its table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mygym.benchmark.stored import Curve as Points
from mygym.benchmark.table import CellRow, Table
from mygym.reporting import figures
from mygym.reporting.curves import Curve, SettingCurves, setting_band
from mygym.reporting.tables import count
from mygym.training import files

if TYPE_CHECKING:
    from matplotlib.figure import Figure


CURVES = "curves"
"""Folder of the pictures, below that of the benchmark."""


def write_curves(benchmark_table: Table, folder: Path) -> None:
    """Write a picture for each task whose runs have evaluations.

    Raises:
        ConfigError: Matplotlib is missing.
    """
    figures.check_matplotlib()
    by_task: dict[str, list[CellRow]] = {}
    for cell in benchmark_table.cells:
        if _curves(cell).curves:
            by_task.setdefault(cell.task, []).append(cell)
    with files.writing(folder):
        (folder / CURVES).mkdir(exist_ok=True)
    for task, cells in by_task.items():
        files.write_bytes(folder / CURVES / f"{task}.png", figures.rendered(draw_task(task, cells), "png"))


def pictures(benchmark_table: Table, folder: Path) -> list[str]:
    """Return the paths of the pictures that are there, relative to the benchmark's folder, by task."""
    paths = [f"{CURVES}/{task}.png" for task in dict.fromkeys(cell.task for cell in benchmark_table.cells)]
    return [path for path in paths if (folder / path).is_file()]


@figures.styled()
def draw_task(task: str, cells: Sequence[CellRow]) -> Figure:
    """Draw success over env steps: a line for each cell of a task, the interquartile mean over its seeds, and its band.

    The runs of the cells have evaluations; of more cells than `figures.MAX_LINES`, the best are drawn.
    """
    figure, ((panel,),) = figures.make_panels(1, 1)
    drawn = [_curves(cell) for cell in cells]
    best = figures.best(drawn)
    names = [_label(cell, cells) for cell, curves in zip(cells, drawn, strict=True) if curves in best]
    for index, (curves, name) in enumerate(zip(best, names, strict=True)):
        x, value, low, high = setting_band(curves, "steps", "success")
        figures.draw_line(panel, index, x, value, name, low, high)
    panel.set(title=task, xlabel="env steps", ylabel="success rate")
    figures.thousands(panel)
    figures.finish_row([panel], len(cells), rates=True)
    return figure


def _curves(cell: CellRow) -> SettingCurves:
    """Return the curves of the runs that have several evaluations."""
    return SettingCurves(cell.setting, tuple(_curve(points) for points in cell.curves.values() if len(points) > 1))


def _curve(points: Points) -> Curve:
    steps, rates = np.array(points, float).T
    return Curve({"success": (steps, rates)}, (steps, np.full(len(steps), np.nan)))


def _label(cell: CellRow, cells: Sequence[CellRow]) -> str:
    """Return the name of a cell among those of its task: the method, and robot and engine where they differ."""
    several = [key for key in ("robot", "engine") if len({getattr(other, key) for other in cells}) > 1]
    words = [cell.method, *(getattr(cell, key) for key in several), count(len(cell.setting.records), "seed")]
    return ", ".join(words)
