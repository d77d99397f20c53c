"""Table of a benchmark: success of each cell with its interval, methods over all tasks; as JSON and Markdown."""

from __future__ import annotations

import math
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mygym.benchmark.execution import Benchmark
from mygym.benchmark.imported import imported_cells
from mygym.benchmark.stored import SCHEMA, CellRow, cell_row, read_stored
from mygym.benchmark.verification import verdicts
from mygym.errors import ConfigError, bad_value, counted
from mygym.reporting.comparison import Comparison, success_bounds, summarize
from mygym.reporting.records import THRESHOLD, RunRecord
from mygym.reporting.settings import different_keys
from mygym.reporting.statistics import Interval, iqm, probability_of_improvement, relative_medians
from mygym.reporting.tables import as_markdown, as_text, duration
from mygym.training.result import machine_in_words, versions
from mygym.types import FloatArray

UNKNOWN = Interval(math.nan, math.nan)


@dataclass(frozen=True)
class MethodRow:
    """A method in an engine, over its tasks; on the robot of each task, or on another one."""

    method: str
    robot: str
    """`of the task`, or the name of another robot."""
    engine: str
    tasks: int
    """Tasks with runs that have ended."""
    planned: int
    """Tasks of the suite."""
    learned: int
    """Tasks with a success rate of at least 90 %."""
    runs: int
    """Seeds of each task that count: as many as the task with the fewest has."""
    success: float
    """Interquartile mean over tasks and seeds."""
    interval: Interval
    """Unknown with a single seed of each task."""
    improvement: float | None
    """Probability that it is better than the first method with the same robot and engine, over their common tasks."""
    both_learn: int
    """Number of these tasks in which most runs of both reach 90 %."""
    steps: float | None
    """Env steps until then relative to those of the first: ratio of the medians, geometric mean over these tasks."""
    steps_interval: Interval


@dataclass(frozen=True)
class Table:
    """Cells and methods of a benchmark, and where they come from."""

    suite: str
    title: str
    date: str
    commit: str
    """Git commit of mygym, if it is a checkout."""
    versions: Mapping[str, str]
    cells: tuple[CellRow, ...]

    @property
    def methods(self) -> list[MethodRow]:
        """A row for each method, robot and engine, in the order of the suite."""
        groups: dict[tuple[str, str], dict[str, list[CellRow]]] = {}
        for cell in self.cells:
            groups.setdefault((cell.group, cell.engine), {}).setdefault(cell.method, []).append(cell)
        return [row for group in groups.values() for row in _method_rows(list(group.values()))]

    def to_json(self) -> dict[str, Any]:
        """Return the content of table.json."""
        return {
            "schema": SCHEMA,
            **{field.name: getattr(self, field.name) for field in fields(self) if field.name != "cells"},
            "machine": machine_in_words(),
            "cells": [cell.to_json() for cell in self.cells],
            "methods": [asdict(row) for row in self.methods],
        }

    def to_markdown(self, pictures: Sequence[str] = ()) -> str:
        """Return the content of table.md, with pictures whose paths are relative to its folder."""
        parts = [
            f"# {self.title or self.suite}",
            f"{self.in_words()}.",
            "Success of fresh episodes of the saved policies, in percent: the interquartile mean over the seeds, with "
            "its interval at 95 %, the wider of the bootstrap over seeds and Wilson's over all episodes.",
            *(as_markdown(rows).strip() for rows in self.by_task()),
            "## Methods, over all their tasks",
            as_markdown([method_cells(row) for row in self.methods]).strip(),
            *(["## Learning curves", *(f"![{Path(path).stem}]({path})" for path in pictures)] if pictures else []),
            "## Cells",
            as_markdown(_without_empty_columns([cell_texts(cell) for cell in self.cells])).strip(),
            *(f"{', '.join(f'`{name}`' for name in names)}: {note}" for note, names in self.notes.items()),
        ]
        return "\n\n".join(parts) + "\n"

    @property
    def notes(self) -> dict[str, list[str]]:
        """What a reader must know → names of the cells with results to which it applies."""
        names: dict[str, list[str]] = {}
        for cell in self.cells:
            if cell.note and cell.setting.records:
                names.setdefault(cell.note, []).append(cell.name)
        return names

    def in_words(self) -> str:
        """Return how much of the table is there, and where it comes from."""
        ended = sum(len(cell.setting.records) for cell in self.cells)
        planned = sum(len(cell.planned) for cell in self.cells)
        commit = f", commit {self.commit}" if self.commit else ""
        return f"{ended} of {planned} runs; mygym {self.versions.get('mygym', '')}{commit}, {self.date}"

    def by_task(self) -> list[list[dict[str, str]]]:
        """Return a table for each engine: a row for each task and robot, a column for each method of several tasks.

        If no method has several tasks, all methods have columns.
        """
        groups: dict[str, list[CellRow]] = {}
        for cell in self.cells:
            groups.setdefault(cell.engine, []).append(cell)
        return [_by_task(cells, is_alone=len(groups) == 1) for cells in groups.values()]


def build_table(benchmark: Benchmark) -> Table:
    """Return the table of the runs that have ended, of the cells from elsewhere, and of those that are missing."""
    suite, verified = benchmark.suite, verdicts(benchmark.folder)
    records: dict[str, list[RunRecord]] = {cell.name: [] for cell in suite.cells}
    for run in sorted(benchmark.runs, key=lambda run: run.seed):
        if (record := benchmark.ended(run)) is not None:
            records[run.cell.name].append(record)
    rows = []
    for cell in suite.cells:
        stored = benchmark.stored.get(cell.name)
        more = {"note": cell.note, "verified": tuple(verified.get(cell.name, stored.verified if stored else ()))}
        names = cell.task, cell.robot, cell.engine, cell.method
        rows.append(cell_row(names, cell.name, cell.seeds, cell.command, records[cell.name], stored, **more))
    rows += imported_cells(benchmark)
    return Table(suite.name, suite.title, f"{datetime.now(UTC):%Y-%m-%d}", commit(), dict(versions()), tuple(rows))


def _method_rows(group: Sequence[Sequence[CellRow]]) -> Iterator[MethodRow]:
    """Yield the rows of the methods on a robot and in an engine; the first is the reference."""
    first = {cell.task: cell for cell in group[0] if cell.setting.records}
    for cells in group:
        ended = [cell for cell in cells if cell.setting.records]
        scores = _matrix(ended)
        episodes = sum(record.episodes for cell in ended for record in cell.setting.records[: len(scores)])
        common = [cell for cell in ended if cell.task in first] if cells is not group[0] else []
        improvement = None
        if common:
            pair = _matrix(common), _matrix([first[cell.task] for cell in common])
            improvement = float(probability_of_improvement(*pair))
        pairs = [(_steps_to_90(cell), _steps_to_90(first[cell.task])) for cell in common]
        learned = [(own, of_first) for own, of_first in pairs if own is not None and of_first is not None]
        steps, steps_interval = relative_medians(learned) if learned else (None, UNKNOWN)
        success = float(iqm(scores)) if scores.size else math.nan
        yield MethodRow(
            cells[0].method,
            cells[0].group,
            cells[0].engine,
            len(ended),
            len(cells),
            sum(float(iqm(cell.setting.scores)) >= THRESHOLD - 1e-9 for cell in ended),  # a mean of decimal fractions
            len(scores),
            success,
            success_bounds(scores, episodes) if len(scores) > 1 else UNKNOWN,
            improvement,
            len(learned),
            steps,
            steps_interval,
        )


def _steps_to_90(cell: CellRow) -> FloatArray | None:
    """Return the env steps of each run until its success reaches 90 %: all of them if it never does, at least 1.

    None if most of the runs never do. A pretrained policy may have it after 0, of which ratios are no numbers.
    """
    records = cell.setting.records
    if sum(record.steps_to_90 is not None for record in records) <= len(records) / 2:
        return None
    steps = (record.steps if record.steps_to_90 is None else record.steps_to_90 for record in records)
    return np.array([max(1, each) for each in steps], float)


def _matrix(cells: Sequence[CellRow]) -> FloatArray:
    """Return scores `(runs, tasks)`: of each task as many seeds as the task with the fewest has."""
    if not cells:
        return np.zeros((0, 0))
    runs = min(len(cell.setting.records) for cell in cells)
    return np.concatenate([cell.setting.scores[:runs] for cell in cells], axis=1)


def success_text(cell: CellRow) -> str:
    """Return the success of a cell with its interval, in percent; a dash if it is planned."""
    summary = cell.summary
    if summary is None:
        return "–"
    low, high = summary.success
    partly = "" if summary.runs >= len(cell.planned) else f", {summary.runs} of {len(cell.planned)} seeds"
    return f"{100 * summary.success_rate:.1f} ({100 * low:.0f}–{100 * high:.0f}{partly})"


def cell_texts(cell: CellRow) -> dict[str, str]:
    """Return column → text of a cell."""
    summary = cell.summary
    return {
        "task": cell.task,
        "robot": cell.robot,
        "engine": cell.engine,
        "method": cell.method,
        "seeds": f"{len(cell.setting.records)} of {len(cell.planned)}",
        "success, %": success_text(cell),
        "each": ", ".join(f"{100 * score:.0f}" for (score,) in cell.setting.scores),
        "elsewhere": _elsewhere_text(cell),
        "env steps": as_text(cell.steps, ",.0f"),
        "time": duration(cell.seconds),
        "env steps to 90 %": as_text(summary.steps_to_90, ",.0f") if summary else "",
        "time to 90 %": duration(summary.seconds_to_90) if summary else "",
        "verified": f"{sum(cell.verified)} of {len(cell.verified)}" if cell.verified else "",
        "from": cell.origin,
        "command": f"`{cell.command}`",
    }


def _by_task(cells: Sequence[CellRow], is_alone: bool) -> list[dict[str, str]]:
    """Return the rows of the cells of an engine, whose name is in them unless it is alone."""
    numbers = Counter(cell.method for cell in cells)
    methods = [method for method, number in numbers.items() if number > 1] or list(numbers)
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for cell in cells:
        if cell.method in methods:
            rows.setdefault((cell.task, cell.robot), {})[cell.method] = success_text(cell)
    engine = {} if is_alone else {"engine": cells[0].engine}
    robots = {robot for _, robot in rows}
    return [
        {
            "task": task,
            **({"robot": robot} if len(robots) > 1 else {}),
            **engine,
            **{method: texts.get(method, "") for method in methods},
        }
        for (task, robot), texts in rows.items()
    ]


def _without_empty_columns(rows: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    return [{key: text for key, text in row.items() if any(other[key] for other in rows)} for row in rows]


def _elsewhere_text(cell: CellRow) -> str:
    names = dict.fromkeys(name for rates in cell.elsewhere.values() for name in rates)
    by_name = {name: [rates[name] for rates in cell.elsewhere.values() if name in rates] for name in names}
    return "; ".join(f"{name} {', '.join(f'{100 * rate:.0f}' for rate in rates)}" for name, rates in by_name.items())


def method_cells(row: MethodRow) -> dict[str, str]:
    """Return column → text of a method."""
    low, high = row.interval
    interval = "" if math.isnan(low) else f" ({100 * low:.1f}–{100 * high:.1f})"
    return {
        "method": row.method,
        "robot": row.robot,
        "engine": row.engine,
        "tasks": f"{row.tasks} of {row.planned}",
        "seeds": str(row.runs),
        "success, % (IQM)": "" if math.isnan(row.success) else f"{100 * row.success:.1f}{interval}",
        "tasks at 90 %": str(row.learned),
        "better than the first": "" if row.improvement is None else f"{100 * row.improvement:.0f} %",
        "env steps to 90 %, relative to the first": _relative_text(row),
    }


def _relative_text(row: MethodRow) -> str:
    if row.steps is None:
        return ""
    low, high = row.steps_interval
    return f"{row.steps:.2f} ({low:.2f}–{high:.2f}), {counted(row.both_learn, 'task')}"


@cache
def commit() -> str:
    """Return the Git commit of mygym's source, with `+` if files differ; empty if it is no checkout."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return ""
    words = ["git", "-C", str(root), "describe", "--always", "--dirty=+", "--abbrev=10", "--exclude=*"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603  (git, of this checkout)
    except OSError:  # no git
        return ""
    return done.stdout.strip()


def compare_tables(old: str | Path, new: str | Path) -> tuple[list[Comparison], list[str]]:
    """Compare the cells that two tables have, such as those of two commits; also return sentences on the other cells.

    The name of a comparison is that of the cell.

    Raises:
        ConfigError: A table cannot be read, or no cell is in both.
    """
    first, second = ({name: cell.setting for name, cell in read_stored(source).items()} for source in (old, new))
    common = [name for name in first if name in second]
    if not common:
        raise ConfigError(
            bad_value("tables", f"{old}, {new}", "two tables with common cells", "have no cell in common")
        )
    notes = [
        f"{counted(len(missing), 'cell')} in {source} alone: {', '.join(missing)}"
        for source, missing in ((old, [*first.keys() - second]), (new, [*second.keys() - first]))
        if missing
    ]
    tasks: dict[str, list[str]] = {}
    for name in common:
        before, after = first[name].config, second[name].config
        for key in different_keys(before, after):
            if key.startswith("task_params.") and key in before and key in after:  # an older table may lack keys
                tasks.setdefault(key, []).append(name)
    notes += [f"{key} differs in {counted(len(cells), 'cell')}: {', '.join(cells)}" for key, cells in tasks.items()]
    return [replace(summarize(second[name], first[name]), name=name, path=str(new)) for name in common], notes
