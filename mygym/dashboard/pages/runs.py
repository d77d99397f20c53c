"""Page `Runs`: table with a filter, statuses and small curves; compares, deletes and archives runs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nicegui import run, ui

from mygym.dashboard.pages.frame import COLORS, attempt, frame, heading, spark
from mygym.dashboard.service import Service, command_line, displayed
from mygym.errors import ConfigError, MygymError
from mygym.reporting.comparison import count
from mygym.reporting.records import RUNNING, RunRecord, remove_runs, size_of
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
        with ui.row().classes("w-full items-center gap-3") as filters:
            self.text = (
                ui.input("Filter: algorithm, task, robot, path").props("dense outlined clearable").classes("grow")
            )
            self.status = ui.select(["any status", *COLORS], value="any status", label="Status").props("dense outlined")
            self.order = ui.select(list(SORTS), value="newest", label="Order").props("dense outlined").classes("w-28")
            ui.button("New run", icon="add", on_click=lambda: ui.navigate.to("/new"))
        with ui.row().classes("items-center gap-2") as actions:
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
        self.lists = (filters, actions, self.table)
        self.nothing = ui.column().classes("w-full")
        with self.nothing:
            beginning(service)
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
        for element in self.lists:
            element.set_visibility(not is_empty)
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


def beginning(service: Service) -> None:
    """Show how to begin: a first run, a new algorithm, the way from another system."""
    ui.label(f"The folder {displayed(service.logdir)} has no runs yet. Begin here:").classes("text-lg")
    with ui.element("div").classes("grid grid-cols-1 lg:grid-cols-3 gap-4 w-full"):
        with _way("A first run", "A Panda learns to reach.", command_line({}, service.logdir)):
            ui.button("Train it", icon="play_arrow", on_click=lambda event: _train_first(service, event.sender))
            ui.button("Choose task, robot, algorithm", on_click=lambda: ui.navigate.to("/new")).props("outline")
        text = f"The first command writes algos/my_algo.py in {Path.cwd()}: PPO with one more hyperparameter. "
        text += "The page New run lists it without a restart."
        with _way("Your own algorithm", text, "mygym new algo my_algo\nmygym train --algo my_algo"):
            ui.button("Choose it", on_click=lambda: ui.navigate.to("/new")).props("outline")
        text = "A class of Stable-Baselines3 trains from a file in algos/; a config is a YAML or JSON file. "
        text += "docs/coming_from.md has the commands of other systems beside those of mygym."
        with _way("From another system", text, "mygym train --config FILE"):
            ui.link("The API, for programs", "/api").classes("link")


@contextlib.contextmanager
def _way(title: str, text: str, command: str) -> Iterator[None]:
    """Show a way to begin: in words, as a command, and as the elements of the block."""
    with ui.card().classes("w-full p-4 gap-3"):
        heading(title)
        ui.label(text).style("overflow-wrap: anywhere")
        ui.code(command, language="bash").classes("w-full")
        with ui.row().classes("gap-2 items-center"):
            yield


async def _train_first(service: Service, button: Any) -> None:
    button.props("loading").disable()  # a second click would queue a second run
    try:
        job = await service.train({})
    except MygymError as error:
        button.props(remove="loading").enable()
        ui.notify(str(error), type="negative", multi_line=True, close_button="Close", timeout=0)
    else:
        ui.navigate.to(f"/run/job-{job.id}")


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
