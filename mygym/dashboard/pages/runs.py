"""Pages `Runs`, with a filter, which compares, deletes and archives; and of a run: curves, videos, doctor, config."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nicegui import run, ui

from mygym.config.layers import flatten
from mygym.dashboard import helper as heavy
from mygym.dashboard.pages import frame as charts
from mygym.dashboard.pages.frame import (
    COLORS,
    attempt,
    empty,
    frame,
    heading,
    notify_error,
    spark,
    status_badge,
    train_and_open,
)
from mygym.dashboard.service import Entry, Service, command_line, displayed, stages_of, videos_of
from mygym.errors import ConfigError, MygymError, RunError, counted
from mygym.reporting.curves import LABELS, LOGGED, SettingCurves, metrics_of, read_curve, stage_curves
from mygym.reporting.doctor import diagnose, has_learned
from mygym.reporting.records import RUNNING, RunRecord, remove_runs, size_of, tail
from mygym.reporting.run_logs import read_logs
from mygym.reporting.settings import setting_of
from mygym.reporting.tables import as_text, duration
from mygym.training import directory

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


def add_pages(service: Service) -> None:
    """Register both pages."""

    @ui.page("/")
    def runs() -> None:
        with frame("Runs"):
            RunsPage(service)

    @ui.page("/run/{identifier}")
    def run(identifier: str) -> None:
        with frame("Run"):
            try:
                job = service.job(identifier)
                if job is not None and job.run is None:
                    _waiting(service, job.id)
                    return
                entry = service.entry(identifier)
                directory.saved_config(entry.path)  # it may be damaged
            except MygymError as error:
                empty(str(error), "All runs", "/")
                return
            RunPage(service, entry)


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
        self.count.text = counted(len(rows), "run")

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
        name = f"runs-{time.strftime('%Y%m%d-%H%M%S')}.zip"
        file = self.service.logdir / name if archive else None
        verb = f"Move into {name}" if archive else "Delete for ever"
        size = f"{size_of(records) / 1e6:.1f} MB"
        with ui.dialog(value=True) as dialog, ui.card():
            ui.label(f"{verb}: {counted(len(records), 'run')}, {size}?")
            ui.label("Runs that are running stay.").classes("opacity-70")
            with ui.row():
                ui.button("Cancel", on_click=dialog.close).props("outline autofocus")
                label = "Archive" if archive else "Delete"
                ui.button(label, color="negative", on_click=lambda: self.remove(records, file, dialog))

    async def remove(self, records: list[RunRecord], file: Path | None, dialog: ui.dialog) -> None:
        """Remove runs, into an archive if `file` is not None."""
        dialog.close()
        try:
            kept = await run.io_bound(remove_runs, records, file) or []
        except (ConfigError, RunError) as error:
            kept = [str(error)]
        self.service.index.entries(fresh=True)
        await attempt(self.update, f"{counted(len(records) - len(kept), 'run')} removed")
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
            ui.button("Train it", icon="play_arrow", on_click=lambda event: train_and_open(service, event.sender, {}))
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
        ui.label(text)
        ui.code(command, language="bash").classes("w-full")
        with ui.row().classes("gap-2 items-center"):
            yield


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
        "success": as_text(rate, ".0%"),
        "spark": spark(row["curve"]),
        "steps": f"{steps:,}" + (f" of {target:,}" if target and row["status"] == RUNNING else ""),
        "return": as_text(row["mean_return"], ".2f"),
        "age": duration(60 * (row["age_s"] // 60) if row["age_s"] > 60 else 5 * (row["age_s"] // 5)),
    }


def text_of(row: dict[str, Any]) -> str:
    """Return the text that the filter searches."""
    return " ".join(str(row.get(key, "")) for key in ("title", "task", "robot", "algo", "path", "status")).lower()


SOURCES = {"": "evaluation", "train_": "training", "test_": "test"}
"""Prefix of the metrics of a source of episodes → its name in the charts of success and return."""

FIGURES_PERIOD = 10.0
"""s between two drawings of the other figures during a training: thousands of points for each browser."""


def _waiting(service: Service, number: int) -> None:
    """Show a job that has no run yet; open its run as soon as it begins."""
    job = service.jobs.queue.get(number)
    ui.label(job.title).classes("text-2xl")
    badge = status_badge(job.state)
    output = ui.code("", language="text").classes("w-full")

    def update() -> None:
        job = service.jobs.queue.get(number)
        if job.run is not None:
            ui.navigate.to(f"/run/job-{number}")
        badge.text = "starting" if job.state == "started" else job.state
        output.content = service.jobs.log(job) or "The run begins as soon as a core is free."

    ui.button("Leave the queue", on_click=lambda: attempt(lambda: service.jobs.stop(job), "Stopped")).props("outline")
    update()
    ui.timer(1.0, update)


class RunPage:
    """The elements of a run, for a browser."""

    def __init__(self, service: Service, entry: Entry) -> None:
        self.service, self.id = service, entry.id
        self.path = entry.path
        self._evaluations: object = None
        self._lines: int | None = None
        self._figures_due = 0.0
        record = entry.record
        with ui.row().classes("items-center gap-3"):
            ui.label(f"{record.task} · {record.robot} · {record.algo}").classes("text-2xl")
            self.badge = status_badge(record.status)
        self.summary = ui.label().classes("opacity-80")
        self.error = ui.label().classes("text-negative").style("white-space: pre-wrap")
        with ui.row().classes("gap-2 items-center"):
            self.stop = ui.button("Stop with a checkpoint", icon="stop", on_click=self._stop)
            self.resume = ui.button("Resume", icon="play_arrow", on_click=self._resume)
            self.steps = ui.number("more env steps", min=1, format="%d").props("dense outlined").classes("w-36")
            self.evaluate = ui.button("Evaluate 100 episodes", on_click=self._evaluate).props("outline")
            ui.link("Compare", f"/compare?runs={self.id}").classes("link")
            ui.link("Play in 3-D", f"/world?run={self.id}").classes("link")
        ui.label(displayed(self.path)).classes("text-xs opacity-60")
        with ui.element("div").classes("grid grid-cols-1 lg:grid-cols-2 gap-4 w-full"):
            self.success = ui.echart(charts.line_chart("success", [], percent=True)).classes("w-full h-64")
            self.returns = ui.echart(charts.line_chart("return", [])).classes("w-full h-64")
            self.stages = ui.echart(charts.line_chart("stage done", [], percent=True)).classes("w-full h-64")
            self.figures = ui.echart(charts.line_chart("figures", [])).classes("w-full h-64")
        self.ends = ui.column().classes("w-full")
        self.videos = ui.column().classes("w-full")
        heading("Doctor")
        self.doctor = ui.column().classes("w-full gap-1")
        heading("Config")
        self.table = ui.table(columns=CONFIG_COLUMNS, rows=[], row_key="key", pagination=12).classes("w-full")
        self.table.props("dense flat bordered")
        self.filter = ui.input("Filter keys").props("dense outlined").bind_value_to(self.table, "filter")
        self.filter.move(
            target_index=self.table.parent_slot.children.index(self.table) if self.table.parent_slot else 0
        )
        heading("Output")
        self.output = ui.code("", language="text").classes("w-full max-h-80 overflow-auto")
        self._shown_videos: list[str] | None = None
        config = flatten(directory.saved_config(self.path))
        self.table.rows = [{"key": key, "value": json.dumps(value), "origin": "…"} for key, value in config]
        self.update()
        ui.timer(PERIOD, self.update)
        ui.timer(0.1, self._fill_origins, once=True)

    def update(self) -> None:
        """Show the current state of the run; only changes are sent."""
        try:
            entry = self.service.index.get(self.id)
        except MygymError:
            self.badge.text = "removed"
            return
        record, is_running = entry.record, entry.record.status == RUNNING
        self.badge.text = record.status
        self.badge.props(f"color={COLORS.get(record.status, 'grey')}")
        of = f" of {entry.target_steps:,}" if entry.target_steps else ""
        rate = "no evaluation yet" if record.success_rate is None else f"success {record.success_rate:.1%}"
        bounds = f" ({record.success_low:.1%} to {record.success_high:.1%})" if record.success_low is not None else ""
        took = f" · {duration(record.wall_time_s)}" if record.wall_time_s else ""
        self.summary.text = f"{rate}{bounds} · {record.steps:,}{of} env steps · seed {record.seed}{took}"
        self.error.text = record.error or ""
        self.stop.set_visibility(is_running)
        self.resume.set_visibility(not is_running and record.status not in ("diverged", "damaged"))
        self.resume.text = "Train longer" if record.status == "done" else "Resume"
        self.steps.set_visibility(record.status == "done")
        self.evaluate.set_visibility(not is_running and (self.path / directory.POLICY).is_file())
        lines = self.service.index.progress(self.path)
        evaluations = record.status, sum(LOGGED["success_rate"] in line for line in lines)
        if evaluations != self._evaluations:
            self._evaluations = evaluations
            self._draw_evaluations(entry)
            self._show_videos()
            self._diagnose()
        if len(lines) != self._lines and (time.monotonic() > self._figures_due or not is_running):
            self._lines, self._figures_due = len(lines), time.monotonic() + FIGURES_PERIOD
            self._draw_figures(entry)
        job = self.service.jobs.job_of(self.path)
        log = self.service.jobs.log(job) if job else tail(self.path / directory.TRACEBACK)
        self.output.content = log or "This run was started in a terminal, which has its output."

    def _draw_evaluations(self, entry: Entry) -> None:
        curve = read_curve(entry.record)
        if curve is not None:
            for chart, metric in ((self.success, "success"), (self.returns, "return")):
                recorded = {prefix: name for prefix, name in SOURCES.items() if prefix + metric in curve.series}
                series = [
                    charts.curve(name, *curve.along("steps", prefix + metric)) for prefix, name in recorded.items()
                ]
                charts.redraw(chart, charts.line_chart(metric, series, percent=metric == "success"))
            positions, shares = stage_curves(SettingCurves(setting_of([entry.record]), (curve,)))
            self.stages.set_visibility(bool(shares))
            series = [charts.curve(name, positions, share) for name, share in shares.items()]
            charts.redraw(self.stages, charts.line_chart("stage done", series, percent=True))
        else:
            self.stages.set_visibility(False)
        counts = stages_of(self.path)
        self.ends.clear()
        if counts:
            with self.ends:
                heading("Stage in which the final episodes ended")
                bars = ui.echart(charts.stage_bars(counts)).classes("w-full")
                bars.style(f"height: {40 + 34 * len(counts)}px")

    def _draw_figures(self, entry: Entry) -> None:
        curve = read_curve(entry.record)
        scores = {prefix + metric for prefix in SOURCES for metric in LABELS}
        names = [name for name in metrics_of([curve] if curve else []) if name not in scores]
        series = [charts.curve(name, *curve.along("steps", name)) for name in names] if curve else []
        options = charts.line_chart("figures", series)
        options["legend"]["selected"] = {name: "loss" in name or "/" not in name for name in names}
        charts.redraw(self.figures, options)
        self.figures.set_visibility(bool(series))

    def _show_videos(self) -> None:
        videos = videos_of(self.path)
        if videos == self._shown_videos:
            return
        self._shown_videos = videos
        self.videos.clear()
        if videos:
            with self.videos:
                heading("Videos")
                with ui.row().classes("gap-4"):
                    for name in videos:
                        address = f"/api/runs/{self.id}/files/{name}"
                        with ui.column().classes("gap-1"):
                            video = (
                                ui.video(f"{address}#t=0.1", muted=True, loop=True)
                                if name.endswith(".mp4")
                                else ui.image(address)
                            )
                            video.classes("w-80 max-w-full rounded")
                            ui.link(name.rpartition("/")[2], address).classes("link text-sm")

    def _diagnose(self) -> None:
        self.doctor.clear()
        with self.doctor:
            try:
                logs = read_logs(str(self.path))
                findings = diagnose(logs)
            except MygymError as error:
                ui.label(str(error))
                return
            for name, finding in findings.items():
                with ui.card().classes("w-full p-3 gap-1"):
                    ui.label(name.replace("_", " ")).classes("font-semibold")
                    ui.label(finding.evidence)
                    ui.label(f"Try: {finding.remedy}").classes("opacity-80")
            if not findings:
                ui.label("It has learned." if has_learned(logs) else "No findings so far.")

    async def _fill_origins(self) -> None:
        try:
            origins = await self.service.helper.call(heavy.origins, str(self.path))
        except MygymError as error:
            origins = {}
            ui.notify(str(error), type="warning")
        self.table.rows = [{**row, "origin": origins.get(row["key"], "names the run")} for row in self.table.rows]

    async def _stop(self) -> None:
        await attempt(lambda: self.service.jobs.stop_run(self.path), "The run stops with a checkpoint")

    async def _resume(self) -> None:
        more = int(self.steps.value) if self.steps.value and self.steps.visible else 0
        steps = more + (self.service.index.get(self.id).record.steps) if more else None
        await attempt(lambda: self.service.resume(self.path, steps), "The rest of the run waits for a free core")

    async def _evaluate(self) -> None:
        try:
            job = await self.service.evaluate(self.path, 100)
        except MygymError as error:
            notify_error(error)
            return
        ui.notify(f"Job {job.id} evaluates 100 fresh episodes")
        label = ui.label().move(self.ends)

        def show() -> None:
            current = self.service.jobs.queue.get(job.id)
            if result := self.service.jobs.result(current):
                label.text = f"Evaluation: success in {result['success_rate']:.1%} of 100 fresh episodes"
            else:
                label.text = f"Evaluation {current.state}: {self.service.jobs.log(current)[-1500:]}"
            if current.state in ("ended", "cancelled"):
                timer.deactivate()

        timer = ui.timer(1.0, show)


CONFIG_COLUMNS = [
    {"name": name, "label": name.capitalize(), "field": name, "align": "left", "sortable": True}
    for name in ("key", "value", "origin")
]
