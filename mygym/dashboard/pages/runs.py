"""Page `Runs`: table with a filter, statuses and small curves; compares, deletes and archives runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from nicegui import run, ui

from mygym.dashboard.pages.charts import spark
from mygym.dashboard.pages.frame import COLORS, attempt, empty, frame
from mygym.dashboard.service import Service
from mygym.errors import ConfigError
from mygym.reporting.comparison import count
from mygym.reporting.records import RUNNING, RunRecord
from mygym.reporting.removal import remove_runs, size_of
from mygym.reporting.tables import duration

PERIOD = 2.0
"""s between two updates of a page."""

ROWS_PER_PAGE = 25
"""Rows of the table on a page."""

SORTS = {"newest": None, "success": "success_rate", "steps": "steps", "return": "mean_return"}
"""Name of an order → column, the largest first."""

COLUMNS = [
    {"name": "status", "label": "Status", "field": "status", "align": "left"},
    {"name": "success", "label": "Success", "field": "success", "align": "left"},
    {"name": "run", "label": "Run", "field": "run", "align": "left"},
    {"name": "steps", "label": "Env steps", "field": "steps", "align": "right"},
    {"name": "return", "label": "Return", "field": "return", "align": "right"},
    {"name": "age", "label": "Age", "field": "age", "align": "right"},
]

STATUS_CELL = """<q-td :props="props"><q-badge :color="props.row.color">{{ props.row.status }}</q-badge></q-td>"""
RUN_CELL = """
<q-td :props="props" style="white-space: normal; min-width: 12em">
  <a v-if="props.row.address" class="link" :href="props.row.address">{{ props.row.run }}</a>
  <span v-else>{{ props.row.run }}</span>
</q-td>"""
SUCCESS_CELL = """
<q-td :props="props"><span class="inline-flex items-center gap-2 no-wrap">
  <span style="min-width: 3em">{{ props.row.success }}</span>
  <svg v-if="props.row.spark" class="gt-xs" width="80" height="20" aria-hidden="true">
    <polyline fill="none" stroke="#3b82f6" stroke-width="2" :points="props.row.spark" />
  </svg>
</span></q-td>"""


def add_page(service: Service) -> None:
    """Register the page."""

    @ui.page("/")
    def runs() -> None:
        with frame("Runs"):
            RunsPage(service)


class RunsPage:
    """The table and its buttons, for a browser."""

    def __init__(self, service: Service) -> None:
        self.service = service
        with ui.row().classes("w-full items-center gap-3"):
            self.text = (
                ui.input("Filter: algorithm, task, robot, path").props("dense outlined clearable").classes("grow")
            )
            self.status = ui.select(["any status", *COLORS], value="any status", label="Status").props("dense outlined")
            self.order = ui.select(list(SORTS), value="newest", label="Order").props("dense outlined").classes("w-28")
            ui.button("New run", icon="add", on_click=lambda: ui.navigate.to("/new"))
        with ui.row().classes("items-center gap-2"):
            self.compare = ui.button("Compare", on_click=self.open_comparison).props("outline dense padding='4px 12px'")
            self.archive = ui.button("Archive", on_click=lambda: self.confirm(archive=True))
            self.delete = ui.button("Delete", on_click=lambda: self.confirm(archive=False))
            for button in (self.archive, self.delete):
                button.props("outline dense padding='4px 12px'")
            self.count = ui.label().classes("opacity-70")
        self.table = ui.table(columns=COLUMNS, rows=[], row_key="id", selection="multiple").classes("w-full")
        self.table.props("flat bordered hide-pagination").props(f":pagination='{{rowsPerPage: {ROWS_PER_PAGE}}}'")
        self.table.add_slot("body-cell-status", STATUS_CELL)
        self.table.add_slot("body-cell-run", RUN_CELL)
        self.table.add_slot("body-cell-success", SUCCESS_CELL)
        self.page = ui.pagination(1, 1, direction_links=True, on_change=self.update)
        self.nothing = ui.column().classes("w-full")
        with self.nothing:
            empty("No runs yet. Start one here, or with `mygym train` in a terminal.", "Start a run", "/new")
        for element in (self.text, self.status, self.order):
            element.on_value_change(self.update)
        self.table.on_select(lambda _: self._enable())
        self.update()
        self._enable()
        ui.timer(PERIOD, self.update)

    def update(self) -> None:
        """Show the runs of the current filter; only changes are sent."""
        rows = self.filtered()
        pages = max(1, -(-len(rows) // ROWS_PER_PAGE))
        self.page.props(f"max={pages}")
        self.page.set_visibility(pages > 1)
        first = ROWS_PER_PAGE * (min(self.page.value or 1, pages) - 1)
        shown = [cells(row) for row in rows[first : first + ROWS_PER_PAGE]]
        if shown != self.table.rows:
            self.table.rows = shown
        is_empty = not self.service.index.entries() and not rows
        self.nothing.set_visibility(is_empty)
        self.table.set_visibility(not is_empty)
        self.count.text = count(len(rows), "run")

    def filtered(self) -> list[dict[str, Any]]:
        """Return the rows that pass the filter, in the chosen order."""
        words = (self.text.value or "").lower().split()
        rows = self.service.listing()
        if self.status.value != "any status":
            rows = [row for row in rows if row["status"] == self.status.value]
        rows = [row for row in rows if all(word in text_of(row) for word in words)]
        if column := SORTS[self.order.value]:
            rows.sort(key=lambda row: -1e300 if row.get(column) is None else row[column], reverse=True)
        return rows

    def selected(self) -> list[RunRecord]:
        """Return the records of the selected runs that still exist."""
        entries = self.service.index.entries()
        return [entries[row["id"]].record for row in self.table.selected if row["id"] in entries]

    def open_comparison(self) -> None:
        """Open the page that compares the settings of the selected runs."""
        ui.navigate.to("/compare?runs=" + ",".join(row["id"] for row in self.table.selected))

    def confirm(self, archive: bool) -> None:
        """Ask, then remove the selected runs."""
        records = [record for record in self.selected() if record.status != RUNNING]
        name = f"runs-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz"
        file = self.service.logdir / name if archive else None
        verb = f"Move into {name}" if archive else "Delete for ever"
        size = f"{size_of(records) / 1e6:.1f} MB"
        with ui.dialog(value=True) as dialog, ui.card():
            ui.label(f"{verb}: {len(records)} runs, {size}?")
            ui.label("Runs that are running stay.").classes("opacity-70")
            with ui.row():
                ui.button("Cancel", on_click=dialog.close).props("outline autofocus")
                label = "Archive" if archive else "Delete"
                ui.button(label, color="negative", on_click=lambda: self.remove(records, file, dialog))

    async def remove(self, records: list[RunRecord], file: Path | None, dialog: ui.dialog) -> None:
        """Remove runs, into an archive if `file` is not None."""
        dialog.close()
        kept: list[str] = []
        try:
            kept = await run.io_bound(remove_runs, records, file) or []
        except ConfigError as error:
            kept = [str(error)]
        self.service.index.entries(fresh=True)
        attempt(self.update, f"{len(records) - len(kept)} runs removed")
        for message in kept:
            ui.notify(message, type="warning")
        self.table.selected = []
        self._enable()

    def _enable(self) -> None:
        for button in (self.compare, self.archive, self.delete):
            button.set_enabled(bool(self.table.selected))


def cells(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the table."""
    color = COLORS.get(row["status"], "grey")
    if "job" in row:
        name = f"{row['title']} (priority {row['priority']})"
        return {"id": row["id"], "status": row["status"], "color": color, "run": name, "address": f"/run/{row['id']}"}
    rate, steps, target = row["success_rate"], row["steps"], row["target_steps"]
    return {
        "id": row["id"],
        "status": row["status"],
        "color": color,
        "run": f"{row['task']} · {row['robot']} · {row['algo']} · seed {row['seed']} · {row['config_hash'][:8]}",
        "address": f"/run/{row['id']}",
        "success": "" if rate is None else f"{rate:.0%}",
        "spark": spark(row["curve"]),
        "steps": f"{steps:,}" + (f" of {target:,}" if target and row["status"] == RUNNING else ""),
        "return": "" if row["mean_return"] is None else f"{row['mean_return']:.2f}",
        "age": duration(60 * (row["age_s"] // 60) if row["age_s"] > 60 else 5 * (row["age_s"] // 5)),
    }


def text_of(row: dict[str, Any]) -> str:
    """Return the text that the filter searches."""
    return " ".join(str(row.get(key, "")) for key in ("title", "task", "robot", "algo", "path", "status")).lower()
