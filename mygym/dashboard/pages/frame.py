"""Frame of all pages: navigation, colours of statuses, errors in words; and the charts of the pages."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from nicegui import ui

from mygym.dashboard.service import Service
from mygym.errors import MygymError
from mygym.reporting.curves import Band
from mygym.types import FloatArray

PAGES = {"Runs": "/", "New run": "/new", "Compare": "/compare", "World": "/world", "Sweeps": "/sweeps", "API": "/api"}
"""Title → address."""

COLORS: Mapping[str, str] = {
    "done": "positive",
    "running": "primary",
    "starting": "primary",
    "queued": "grey",
    "interrupted": "warning",
    "stopped": "warning",
    "failed": "negative",
    "diverged": "negative",
    "damaged": "negative",
}
"""Status of a run → colour of its badge."""

THEMES = {"system": None, "light": False, "dark": True}
"""Theme → value of the dark mode; None: as the browser prefers."""

PATIENCE = 60.0
"""s until a page must be ready that asks the helper, which may import the user's files, and torch with them."""

THEME_COOKIE = "mygym_theme"
"""Name of the cookie that keeps the theme of a browser."""

STYLE = """
<style>
.nicegui-content { padding: 0 }
:focus-visible { outline: 3px solid #f59e0b !important; outline-offset: 2px }
.q-table td, .q-table th { padding: 6px 10px }
.q-field--with-bottom { padding-bottom: 0 !important }
.q-field__bottom { position: static !important; transform: none !important; padding-top: 3px !important }
.q-badge.bg-warning { color: #000 }
.nicegui-code-copy { opacity: 0.8; top: 0.1rem }
code, pre { white-space: pre-wrap; overflow-wrap: anywhere }
a.link { color: inherit; text-decoration: underline; text-underline-offset: 3px }
</style>
"""


@contextlib.contextmanager
def frame(title: str) -> Iterator[None]:
    """Show the navigation; the content of the block is the page."""
    ui.page_title(f"{title} · mygym")
    ui.colors(primary="#2f6fed", positive="#15803d")
    ui.add_head_html(STYLE)
    with ui.header().classes("items-center gap-x-5 gap-y-1 px-4 py-2 wrap").style("background: #0f2747"):
        ui.link("mygym", "/").classes("text-lg font-bold text-white no-underline")
        for name, address in PAGES.items():
            link = ui.link(name, address).classes("text-white no-underline")
            if name == title:
                link.classes("font-bold").style("border-bottom: 2px solid #f59e0b").props('aria-current="page"')
        _theme_switch()
    with ui.column().classes("w-full max-w-screen-xl mx-auto p-4 gap-4").props("role=main"):
        yield


def _theme_switch() -> None:
    """Show the selection of the theme, which the browser keeps in a cookie."""
    request = ui.context.client.request
    kept = request.cookies.get(THEME_COOKIE) if request else None
    theme = kept if kept in THEMES else "system"
    dark_mode = ui.dark_mode(THEMES[theme])

    def apply(selected: str) -> None:
        dark_mode.value = THEMES[selected]
        cookie = f"{THEME_COOKIE}={selected}; path=/; max-age=31536000; SameSite=Strict"
        ui.run_javascript(f"document.cookie = '{cookie}'")

    selection = ui.select(list(THEMES), value=theme, on_change=lambda event: apply(event.value))
    selection.props("dark dense borderless options-dense prefix=Theme: aria-label=Theme").classes("ml-auto")


def heading(text: str) -> None:
    """Show the heading of a section."""
    ui.label(text).classes("text-base font-semibold mt-2").props("role=heading aria-level=2")


def show_table(titles: Mapping[str, str], rows: list[dict[str, Any]], pagination: int | None = None) -> None:
    """Show rows under titled columns, some on a page; nothing without rows."""
    columns = [{"name": key, "label": title, "field": key, "align": "left"} for key, title in titles.items()]
    if rows:
        table = ui.table(columns=columns, rows=rows, pagination=pagination)
        table.classes("w-full").props("flat bordered dense wrap-cells")


def empty(text: str, label: str = "", address: str = "") -> None:
    """Show that a list is empty, and the action that fills it."""
    with ui.card().classes("w-full items-center p-8"):
        ui.label(text).classes("text-center opacity-80")
        if label:
            ui.button(label, on_click=lambda: ui.navigate.to(address))


def status_badge(status: str) -> ui.badge:
    """Show a status in its colour."""
    return ui.badge(status, color=COLORS.get(status, "grey"))


def notify_error(error: MygymError) -> None:
    """Show an error in words until it is closed."""
    ui.notify(str(error), type="negative", multi_line=True, close_button="Close", timeout=0)


async def attempt(action: Callable[[], object], done: str) -> None:
    """Perform an action of a button, perhaps asynchronous; show a sentence, or the error in words."""
    try:
        result = action()
        if inspect.isawaitable(result):
            await result
    except MygymError as error:
        notify_error(error)
    else:
        ui.notify(done, type="positive")


async def train_and_open(
    service: Service,
    button: Any,
    config: Mapping[str, Any],
    priority: int = 0,
    refuse: Callable[[MygymError], None] = notify_error,
) -> None:
    """Queue a training at the click of a button, and open its page; `refuse` shows the mistakes of the config."""
    button.props("loading").disable()  # a second click would queue a second run
    try:
        job = await service.train(config, priority)
    except MygymError as error:
        button.props(remove="loading").enable()
        refuse(error)
    else:
        ui.navigate.to(f"/run/job-{job.id}")


PALETTE = ("#3b82f6", "#f59e0b", "#10b981", "#ef4444", "#8b5cf6", "#14b8a6", "#ec4899", "#84cc16")
GREY = "#8b94a3"
"""Colour of axes, readable on light and on dark."""

MAX_POINTS = 400

SHORT_STEPS = "steps => steps < 1e3 ? steps : steps < 1e6 ? steps / 1e3 + 'k' : steps / 1e6 + 'M'"
"""Label of a number of env steps, short enough for a chart on a phone: `200k`."""


def thinned(x: FloatArray, y: FloatArray) -> list[list[float]]:
    """Return at most `MAX_POINTS` points of a curve, with the last."""
    points = list(zip(x.tolist(), y.tolist(), strict=True))
    step = -(-len(points) // MAX_POINTS) or 1
    kept = [*points[::step], *([points[-1]] if points and (len(points) - 1) % step else [])]
    return [[round(x, 3), round(y, 5)] for x, y in kept if x == x and y == y]


def line_chart(y: str, series: Sequence[Mapping[str, Any]], percent: bool = False) -> dict[str, Any]:
    """Return the options of a chart of curves over env steps."""
    axis = {
        "axisLabel": {"color": GREY},
        "nameTextStyle": {"color": GREY},
        "splitLine": {"lineStyle": {"opacity": 0.25}},
    }
    steps = {**axis, "axisLabel": {"color": GREY, "hideOverlap": True, ":formatter": SHORT_STEPS}}
    named = [each["name"] for each in series if each.get("name")]
    return {
        "animation": False,
        "color": list(PALETTE),
        "grid": {"left": 56, "right": 24, "top": 48, "bottom": 44},
        "legend": {"data": named, "textStyle": {"color": GREY}, "type": "scroll", "top": 0, "right": 8, "left": 48},
        "tooltip": {"trigger": "axis"},
        "xAxis": {"type": "value", "name": "env steps", "nameLocation": "middle", "nameGap": 28, **steps},
        "yAxis": {"type": "value", "name": y, **({"min": 0, "max": 1} if percent else {"scale": True}), **axis},
        "series": list(series),
    }


def redraw(chart: ui.echart, options: Mapping[str, Any]) -> None:
    """Show a chart with other options."""
    chart.options.clear()
    chart.options.update(options)
    chart.update()


def curve(name: str, x: FloatArray, y: FloatArray) -> dict[str, Any]:
    """Return a series of a chart."""
    return {"name": name, "type": "line", "showSymbol": len(x) < 20, "data": thinned(x, y)}


def band_series(name: str, band: Band, color: str) -> list[dict[str, Any]]:
    """Return the series of a curve with its interval, which two stacked invisible lines enclose."""
    line = {"type": "line", "showSymbol": False, "color": color}
    series = [{**line, "name": name, "data": thinned(band.x, band.value)}]
    if len(band.x) and (band.low == band.low).all():
        hidden = {
            **line,
            "stack": name,
            "stackStrategy": "all",
            "lineStyle": {"opacity": 0},
            "tooltip": {"show": False},
            "silent": True,
        }
        area = {"color": color, "opacity": 0.18}
        series.append({**hidden, "data": thinned(band.x, band.low)})
        series.append({**hidden, "data": thinned(band.x, band.high - band.low), "areaStyle": area})
    return series


def stage_bars(stages: Mapping[str, int]) -> dict[str, Any]:
    """Return the options of a chart of the stages in which the final episodes ended."""
    return {
        "animation": False,
        "grid": {"left": 90, "right": 24, "top": 8, "bottom": 24},
        "xAxis": {"type": "value", "axisLabel": {"color": GREY}, "splitLine": {"lineStyle": {"opacity": 0.25}}},
        "yAxis": {"type": "category", "data": list(stages), "inverse": True, "axisLabel": {"color": GREY}},
        "series": [{"type": "bar", "data": list(stages.values()), "color": PALETTE[0], "barMaxWidth": 22}],
    }


def spark(values: Sequence[float]) -> str:
    """Return the points of a small curve of rates in [0, 1], for an SVG of 80 × 20."""
    if len(values) < 2:
        return ""
    return " ".join(f"{80 * k / (len(values) - 1):.0f},{18 - 16 * value:.1f}" for k, value in enumerate(values))
