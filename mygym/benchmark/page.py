"""Page of a benchmark: a file with its table, curves, films and commands, which makes no request; and its pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mygym.benchmark.stored import CellRow
from mygym.benchmark.stored import Curve as Points
from mygym.benchmark.table import Table, cell_texts, method_cells
from mygym.errors import ConfigError, counted
from mygym.reporting import figures
from mygym.reporting.curves import Curve, SettingCurves, setting_band
from mygym.reporting.records import RunRecord
from mygym.reporting.report import Cell, Html, Number, details, element, inline_svg, link, page, table
from mygym.reporting.statistics import performance_profile
from mygym.training import directory, files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVE = (120, 30)
"""Width and height of a learning curve, pixels."""

NAMES = ("task", "robot", "engine", "method")
"""Columns of names; the others have numbers."""


def write_page(benchmark_table: Table, folder: Path) -> str:
    """Return the page of a table."""
    rows = [_row(cell, folder) for cell in benchmark_table.cells]
    records = [record for cell in benchmark_table.cells for record in cell.setting.records]
    machines = Counter(record.machine or "not recorded" for record in records) or {"none": 0}
    return page(
        benchmark_table.title or benchmark_table.suite,
        element("p", f"{benchmark_table.in_words()}."),
        element("h2", "Success by task"),
        element(
            "p",
            "Percent of fresh episodes of the saved policies: the interquartile mean over the seeds, with its interval "
            "at 95 %; – is planned.",
        ),
        *(table(list(map(_cells, rows)), search=True) for rows in benchmark_table.by_task()),
        element("h2", "Methods over all their tasks"),
        table([_cells(method_cells(row)) for row in benchmark_table.methods]),
        *_profiles(benchmark_table),
        element("h2", "Cells"),
        element("p", "Curves: success over env steps, a line for each seed. S in a command is the seed."),
        table(rows, search=True),
        *(element("p", f"{', '.join(names)}: {note}") for note, names in benchmark_table.notes.items()),
        element("h2", "Machines"),
        table([{"runs": Number(str(number), number), "machine": name} for name, number in machines.items()]),
        element("h2", "Versions"),
        table([{"package": name, "version": version} for name, version in benchmark_table.versions.items()]),
    )


def _cells(texts: Mapping[str, str]) -> dict[str, Cell]:
    """Return the columns of a row: names, and texts that are sorted by the number at their beginning."""
    return {
        key: text if key in NAMES else Number(text, float(text.split(" ")[0]) if text[:1].isdigit() else None)
        for key, text in texts.items()
    }


def _row(cell: CellRow, folder: Path) -> dict[str, Cell]:
    """Return the columns of a cell: its texts, those of a number sortable, the curve, films and the command."""
    summary, texts = cell.summary, cell_texts(cell)
    numbers = {
        "seeds": len(cell.setting.records),
        "success, %": summary.success_rate if summary else None,
        "env steps": cell.steps,
        "time": cell.seconds,
        "env steps to 90 %": summary.steps_to_90 if summary else None,
        "time to 90 %": summary.seconds_to_90 if summary else None,
        "verified": sum(cell.verified) if cell.verified else None,
    }
    command = texts.pop("command").strip("`")
    row: dict[str, Cell] = {
        key: Number(text, numbers[key]) if key in numbers else text for key, text in texts.items() if key != "each"
    }
    return {
        **row,
        "each, %": Number(texts["each"], min((score for (score,) in cell.setting.scores), default=None)),
        "curve": _small_curves(cell.curves.values()),
        "films": _films(cell.setting.records, folder),
        "command": details("show", element("pre", command)),
    }


def _small_curves(curves: Iterable[Points]) -> Html:
    """Return success over env steps, a line for each seed."""
    drawn = [curve for curve in curves if curve]
    longest = max((curve[-1][0] for curve in drawn), default=0)
    if not longest:
        return Html("")
    width, height = CURVE
    lines = [
        element(
            "polyline",
            points=" ".join(f"{width * steps / longest:.1f},{height * (1 - rate):.1f}" for steps, rate in curve),
            fill="none",
            stroke="#2a6",
            stroke_width="1",
        )
        for curve in drawn
    ]
    return element("svg", *lines, width=str(width), height=str(height), viewBox=f"-1 -1 {width + 2} {height + 2}")


def _films(records: Sequence[RunRecord], folder: Path) -> Html:
    """Return links to the first film of the final policy, and to the first of a failure."""
    links = []
    for label, pattern in (("policy", "final.mp4"), ("failure", "failure*.mp4")):
        folders = [Path(record.path) / directory.VIDEOS for record in records if record.path]
        films = (film for videos in folders for film in sorted(videos.glob(pattern)))
        if (film := next(films, None)) is not None:
            links.append(link(label, film, folder))
    return Html("".join(links))


def _profiles(benchmark_table: Table) -> Iterator[Html]:
    """Yield the performance profiles of the best methods of each robot and engine that has several tasks."""
    groups: dict[str, dict[str, list[CellRow]]] = {}
    for cell in benchmark_table.cells:
        if cell.setting.records:
            groups.setdefault(f"robot {cell.group}, engine {cell.engine}", {}).setdefault(cell.method, []).append(cell)
    groups = {title: methods for title, methods in groups.items() if max(map(len, methods.values())) > 1}
    if not groups:
        return
    try:
        figures.check_matplotlib()
    except ConfigError as error:
        yield element("p", f"Performance profiles: {error}")
        return
    thresholds = np.linspace(0, 1, 101)
    figure, panels = figures.make_panels(len(groups), 1)
    for (panel,), (title, methods) in zip(panels, groups.items(), strict=True):
        profiles = {
            f"{method} ({counted(len(cells), 'task')})": performance_profile(
                np.concatenate([cell.setting.scores for cell in cells]), thresholds
            )
            for method, cells in methods.items()
        }
        best = sorted(profiles, key=lambda name: -profiles[name].mean())[: figures.MAX_LINES]
        for index, name in enumerate(name for name in profiles if name in best):
            figures.draw_line(panel, index, thresholds, profiles[name], name, steps=True)
        panel.set(title=title, xlabel="success rate", ylabel="share of runs above it")
        figures.finish_row([panel], len(profiles), rates=True)
    yield element("h2", "Performance profiles")
    yield element("figure", inline_svg(figures.rendered(figure, "svg")))


CURVES = "curves"
"""Folder of the pictures, below that of the benchmark."""


def write_curves(benchmark_table: Table, folder: Path) -> None:
    """Write a picture for each task whose runs have evaluations; refuse to go on without Matplotlib."""
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
    words = [cell.method, *(getattr(cell, key) for key in several), counted(len(cell.setting.records), "seed")]
    return ", ".join(words)
