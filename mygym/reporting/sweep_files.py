"""Files in the folder of a sweep that a report shows."""

from __future__ import annotations

import base64
import csv
from collections.abc import Iterable, Mapping
from pathlib import Path

from mygym.reporting.tables import Cell, Html, Number, details, element, table
from mygym.training.files import is_file

SWEEP = "sweep.yaml"
BEST = "best.yaml"
TABLE = "trials.csv"
LINEAGE = "lineage.csv"
SLICES, PARALLEL, FRONT, POPULATION = "slices.svg", "parallel.svg", "front.svg", "population.svg"
TRAINED_ON, TRAINED_ON_BEST = "trained_on.csv", "trained_on.yaml"

FIGURES = {
    FRONT: "Pareto front",
    SLICES: "Score over each value; later trials are darker",
    PARALLEL: "Values and score of each trial",
    POPULATION: "Members of the population",
}
TABLES = {TABLE: "Trials", TRAINED_ON: "Trials that were trained on", LINEAGE: "Lineage"}
"""File → its title in a report."""


def find_sweeps(folder: str | Path) -> list[Path]:
    """Return the sweeps of a folder: the folder itself, or those in it."""
    path = Path(folder)
    return [path] if is_file(path / SWEEP) else sorted(file.parent for file in path.glob(f"*/{SWEEP}"))


def sections(folder: Path) -> Iterable[Html]:
    """Yield the part of a report on a sweep: its best config, tables and figures."""
    yield element("h2", f"Sweep {folder}")
    for name in (BEST, TRAINED_ON_BEST):
        if is_file(folder / name):
            yield details(name, element("pre", (folder / name).read_text(encoding="utf-8")))
    for name, title in FIGURES.items():
        if is_file(folder / name):
            source = base64.b64encode((folder / name).read_bytes()).decode()
            picture = element("img", src=f"data:image/svg+xml;base64,{source}", alt=title)
            yield element("figure", picture, element("figcaption", title))
    for name, title in TABLES.items():
        if is_file(folder / name):
            with (folder / name).open(encoding="utf-8", newline="") as file:
                rows = [_cells(row) for row in csv.DictReader(file)]
            if rows:
                yield element("h3", title)
                yield table(rows)


def _cells(row: Mapping[str, str]) -> dict[str, Cell]:
    return {name: _cell(text or "") for name, text in row.items()}


def _cell(text: str) -> Cell:
    try:
        return Number(f"{float(text):.4g}", float(text))
    except ValueError:
        return text
