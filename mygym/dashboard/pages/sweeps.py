"""Page `Sweeps`: list of the sweeps, and the tables, the best config and the figures of each."""

from __future__ import annotations

import csv
from pathlib import Path

from nicegui import ui

from mygym.dashboard.jobs import tail
from mygym.dashboard.pages.frame import empty, frame, heading
from mygym.dashboard.run_index import walk_sweeps
from mygym.dashboard.service import Service
from mygym.reporting.records import SweepFiles


def add_page(service: Service) -> None:
    """Register the page."""

    @ui.page("/sweeps")
    def page(number: int = 0) -> None:
        with frame("Sweeps"):
            folders = list(walk_sweeps(service.logdir))
            if not folders:
                empty("No sweeps yet. `mygym sweep FILE` in a terminal searches for the values of a config.")
                return
            names = {index: folder.name for index, folder in enumerate(folders)}
            chosen = (
                ui.select(names, value=number if number in names else 0, label="Sweep")
                .props("outlined dense")
                .classes("w-64")
            )
            chosen.on_value_change(lambda event: ui.navigate.to(f"/sweeps?number={event.value}"))
            folder = folders[chosen.value]
            shown = False
            for name, title in SweepFiles.TABLES.items():
                shown |= _show_table(folder / name, title)
            if not shown:
                ui.label("No trial has ended.")
            if best := tail(folder / SweepFiles.BEST):
                heading("Best config")
                ui.code(best, language="yaml").classes("w-full")
            for name, title in SweepFiles.FIGURES.items():
                if (folder / name).is_file():
                    heading(title)
                    ui.image(folder / name).classes("w-full max-w-3xl bg-white rounded")


def _show_table(path: Path, title: str) -> bool:
    """Show the rows of a CSV file; return whether it has any."""
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines())) if path.is_file() else []
    if rows:
        heading(title)
        columns = [{"name": key, "label": key, "field": key, "align": "left"} for key in rows[0]]
        ui.table(columns=columns, rows=rows, pagination=20).classes("w-full").props("flat dense")
    return bool(rows)
