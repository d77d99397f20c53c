"""Page of a run: live curves, stages, videos, doctor, config with origins, log; stop, resume, evaluate."""

from __future__ import annotations

import time

from nicegui import ui

from mygym.config.layers import flatten
from mygym.dashboard import helper as heavy
from mygym.dashboard.jobs import as_json, tail
from mygym.dashboard.pages import frame as charts
from mygym.dashboard.pages.frame import COLORS, attempt, empty, frame, heading, status_badge
from mygym.dashboard.pages.runs import PERIOD
from mygym.dashboard.run_index import Entry, stages_of
from mygym.dashboard.service import Service, displayed
from mygym.errors import MygymError
from mygym.reporting.curves import LABELS, LOGGED, Curve, SettingCurves, metrics_of, read_curve, stage_curves
from mygym.reporting.doctor import diagnose, has_learned
from mygym.reporting.records import RUNNING
from mygym.reporting.run_logs import read_logs
from mygym.reporting.settings import settings_of
from mygym.reporting.tables import duration
from mygym.training import directory

SOURCES = {"": "evaluation", "train_": "training", "test_": "test"}
"""Prefix of the metrics of a source of episodes → its name in the charts of success and return."""

FIGURES_PERIOD = 10.0
"""s between two drawings of the other figures during a training: thousands of points for each browser."""


def add_page(service: Service) -> None:
    """Register the page."""

    @ui.page("/run/{identifier}")
    def run(identifier: str) -> None:
        with frame("Run"):
            number = identifier.removeprefix("job-")
            try:
                if number != identifier and number.isdigit() and service.jobs.queue.get(int(number)).run is None:
                    _waiting(service, int(number))
                    return
                entry = service.entry(identifier)
            except MygymError as error:
                empty(str(error), "All runs", "/")
                return
            RunPage(service, entry)


def _waiting(service: Service, number: int) -> None:
    """Show a job that has no run yet; open its run as soon as it begins."""
    job = service.jobs.queue.get(number)
    ui.label(job.title).classes("text-2xl")
    badge = status_badge(job.state)
    output = ui.code("").classes("w-full")

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
        self.path = service.index.path(entry.id)
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
        ui.label(displayed(self.path)).classes("text-xs opacity-60").style("overflow-wrap: anywhere")
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
        self.output = ui.code("").classes("w-full max-h-80 overflow-auto")
        self._shown_videos: list[str] | None = None
        self._fill_config()
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
                series = [charts.curve(name, _points(curve, prefix + metric)) for prefix, name in recorded.items()]
                chart.options.update(charts.line_chart(metric, series, percent=metric == "success"))
                chart.update()
            positions, shares = stage_curves(SettingCurves(settings_of([entry.record])[0], (curve,)))
            self.stages.set_visibility(bool(shares))
            series = [
                charts.curve(name, list(zip(positions.tolist(), share.tolist(), strict=True)))
                for name, share in shares.items()
            ]
            self.stages.options.update(charts.line_chart("stage done", series, percent=True))
            self.stages.update()
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
        series = [charts.curve(name, _points(curve, name)) for name in names] if curve else []
        options = charts.line_chart("figures", series)
        options["legend"]["selected"] = {name: "loss" in name or "/" not in name for name in names}
        self.figures.options.update(options)
        self.figures.set_visibility(bool(series))
        self.figures.update()

    def _show_videos(self) -> None:
        videos = self.service.index.videos(self.id)
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
                    ui.label(f"Try {finding.remedy}").classes("opacity-80")
            if not findings:
                ui.label("It has learned." if has_learned(logs) else "No findings so far.")

    def _fill_config(self) -> None:
        config = self.service.index.config(self.id)
        self.table.rows = [{"key": key, "value": str(value), "origin": "…"} for key, value in flatten(config)]

    async def _fill_origins(self) -> None:
        try:
            origins = await self.service.helper.call(heavy.origins, str(self.path))
        except MygymError as error:
            origins = {}
            ui.notify(str(error), type="warning")
        self.table.rows = [{**row, "origin": origins.get(row["key"], "names the run")} for row in self.table.rows]

    def _stop(self) -> None:
        attempt(lambda: self.service.jobs.stop_run(self.path), "The run stops with a checkpoint")

    def _resume(self) -> None:
        more = int(self.steps.value) if self.steps.value and self.steps.visible else 0
        steps = more + (self.service.index.get(self.id).record.steps) if more else None
        attempt(lambda: self.service.jobs.resume(self.path, steps), "The rest of the run waits for a free core")

    def _evaluate(self) -> None:
        job = self.service.jobs.evaluate(self.path, 100)
        ui.notify(f"Job {job.id} evaluates 100 fresh episodes")
        label = ui.label().move(self.ends)

        def show() -> None:
            current = self.service.jobs.queue.get(job.id)
            log = self.service.jobs.log(current)
            result = as_json(current, log)["result"]
            label.text = f"Evaluation {current.state}: {log[-1500:]}"
            if result:
                label.text = f"Evaluation: success in {result['success_rate']:.1%} of 100 fresh episodes"
            if current.state in ("ended", "cancelled"):
                timer.deactivate()

        timer = ui.timer(1.0, show)


CONFIG_COLUMNS = [
    {"name": name, "label": name.capitalize(), "field": name, "align": "left", "sortable": True}
    for name in ("key", "value", "origin")
]


def _points(curve: Curve, metric: str) -> list[tuple[float, float]]:
    """Return env steps and values of a metric."""
    steps, values = curve.along("steps", metric)
    return list(zip(steps.tolist(), values.tolist(), strict=True))
