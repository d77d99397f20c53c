"""Pages `Compare`: settings side by side; and `Sweeps`: tables, best config and figures of each."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from mygym.dashboard.pages import frame as charts
from mygym.dashboard.pages.frame import empty, frame, heading, show_table
from mygym.dashboard.service import Service
from mygym.errors import MygymError
from mygym.reporting.comparison import compare, summarize, too_few
from mygym.reporting.curves import LABELS, is_rate, metrics_of, read_curves, setting_band
from mygym.reporting.records import RunRecord, SweepFiles, find_sweeps, tail
from mygym.reporting.settings import Setting, different_keys, setting_names, settings_of
from mygym.reporting.tables import as_text, duration, read_csv, with_interval

MAX_SETTINGS = 12
"""Maximum number of settings in a chart."""


def add_pages(service: Service) -> None:
    """Register both pages."""

    @ui.page("/compare")
    def compare(runs: str = "") -> None:
        with frame("Compare"):
            _show(service, runs)

    @ui.page("/sweeps")
    def sweeps(number: int = 0) -> None:
        with frame("Sweeps"):
            _show_sweep(service, number)


def _show(service: Service, runs: str) -> None:
    entries = service.index.entries()
    runs_of: dict[str, list[RunRecord]] = {}
    for entry in entries.values():
        runs_of.setdefault(entry.record.setting, []).append(entry.record)
    if not runs_of:
        empty("No runs to compare yet.", "Start a run", "/new")
        return
    asked = dict.fromkeys(entries[name].record.setting for name in runs.split(",") if name in entries)
    labels = {
        folder: " · ".join((record.task, record.robot, record.algo, record.config_hash[:8]))
        for folder, (record, *_) in runs_of.items()
    }
    chosen = ui.select(labels, multiple=True, value=list(asked), label="Settings: the first is the reference")
    chosen.props("use-chips outlined dense").classes("w-full")
    content = ui.column().classes("w-full gap-4")

    def draw() -> None:
        content.clear()
        with content:
            try:
                records = [record for folder in chosen.value for record in runs_of[folder]]
                _draw(settings_of(records)[:MAX_SETTINGS])
            except MygymError as error:
                ui.label(str(error)).classes("text-negative")

    chosen.on_value_change(draw)
    draw()


def _draw(settings: list[Setting]) -> None:
    """Show the charts and tables of settings."""
    if not settings:
        empty("Choose two settings or more. A setting has the runs that differ in their seeds alone.")
        return
    names = setting_names(settings)
    curves = [read_curves(setting) for setting in settings]

    def chart(metric: str) -> dict[str, Any]:
        series = [
            each
            for name, curve, color in zip(names, curves, charts.PALETTE * 2, strict=False)
            for each in charts.band_series(name, setting_band(curve, "steps", metric), color)
        ]
        return charts.line_chart(LABELS.get(metric, metric), series, percent=is_rate(metric))

    metrics = [name for name in metrics_of(curve for each in curves for curve in each.curves) if name not in LABELS]
    with ui.element("div").classes("grid grid-cols-1 lg:grid-cols-2 gap-4 w-full"):
        for metric in LABELS:
            ui.echart(chart(metric)).classes("w-full h-72")
        if metrics:
            with ui.column().classes("w-full gap-0"):
                chosen = ui.select(metrics, value=metrics[0], label="Figure", with_input=True).classes("w-full")
                figure = ui.echart(chart(metrics[0])).classes("w-full h-72")

            chosen.on_value_change(lambda event: charts.redraw(figure, chart(event.value)))
    ended = [setting.ended for setting in settings if setting.ended.records]
    heading("Success over the seeds")
    if ended:
        rows = compare(ended) if len(ended) > 1 else [summarize(ended[0])]
        table = [
            {
                "setting": name,
                "seeds": row.runs,
                "success": with_interval(row.success_rate, row.success, ".1%"),
                "difference": "" if row.difference is None else f"{100 * row.difference:+.1f} points",
                "return": as_text(row.mean_return, ".2f"),
                "to 90 %": ""
                if row.steps_to_90 is None
                else f"{row.steps_to_90:,.0f} env steps, {duration(row.seconds_to_90)}",
            }
            for row, name in zip(rows, setting_names(ended), strict=True)
        ]
        show_table({key: key for key in table[0]}, table)
        if len(rows) > 1 and (message := too_few(rows)):
            ui.label(message).classes("opacity-80")
    else:
        ui.label("No run of these settings has ended.")
    if keys_of := different_keys(*(setting.config for setting in settings)):
        heading("Difference of the configs")
        rows_of = [
            {"key": key, **{f"s{k}": str(setting.config.get(key, "")) for k, setting in enumerate(settings)}}
            for key in keys_of
        ]
        show_table({"key": "key", **{f"s{k}": name for k, name in enumerate(names)}}, rows_of, pagination=20)


def _show_sweep(service: Service, number: int) -> None:
    """Show the selection of a sweep, and its tables, best config and figures."""
    folders = [*find_sweeps(service.logdir), *find_sweeps(service.logdir.parent / "sweeps")]
    if not folders:
        empty("No sweeps yet. In a terminal, mygym sweep FILE searches for the values of a config.")
        return
    names = {index: folder.name for index, folder in enumerate(folders)}
    chosen = (
        ui.select(names, value=number if number in names else 0, label="Sweep").props("outlined dense").classes("w-64")
    )
    chosen.on_value_change(lambda event: ui.navigate.to(f"/sweeps?number={event.value}"))
    folder = folders[chosen.value]
    tables = {title: read_csv(folder / name) for name, title in SweepFiles.TABLES.items()}
    if not any(tables.values()):
        ui.label("No trial has ended.")
    for title, rows in tables.items():
        if rows:
            heading(title)
            show_table({key: key for key in rows[0]}, rows, pagination=20)
    if best := tail(folder / SweepFiles.BEST):
        heading("Best config")
        ui.code(best, language="yaml").classes("w-full")
    for name, title in SweepFiles.FIGURES.items():
        if (folder / name).is_file():
            heading(title)
            ui.image(folder / name).classes("w-full max-w-3xl bg-white rounded")
