"""Page `Sweeps`: list of the sweeps, and the trials, the best config and the slices of each."""

from __future__ import annotations

import csv

from nicegui import ui

from mygym.dashboard.jobs import tail
from mygym.dashboard.pages.frame import empty, frame, heading
from mygym.dashboard.run_index import walk_sweeps
from mygym.dashboard.service import Service
from mygym.sweeps import storage


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
            chosen = ui.select(names, value=number if number in names else 0, label="Sweep").props("outlined dense")
            chosen.on_value_change(lambda event: ui.navigate.to(f"/sweeps?number={event.value}"))
            folder = folders[chosen.value]
            table = folder / storage.TABLE
            rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines())) if table.is_file() else []
            heading("Trials, the best first")
            if rows:
                columns = [{"name": key, "label": key, "field": key, "align": "left"} for key in rows[0]]
                ui.table(columns=columns, rows=rows, row_key="trial", pagination=20).classes("w-full").props(
                    "flat dense"
                )
            else:
                ui.label("No trial has ended.")
            if best := tail(folder / storage.BEST):
                heading("Best config")
                ui.code(best, language="yaml").classes("w-full")
            for name in (storage.SLICES, storage.PARALLEL):
                if (folder / name).is_file():
                    heading(name.partition(".")[0].capitalize())
                    ui.image(folder / name).classes("w-full bg-white rounded")
