"""Charts: options of ECharts for curves, bands and stages, and small curves as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mygym.reporting.curves import Band

PALETTE = ("#3b82f6", "#f59e0b", "#10b981", "#ef4444", "#8b5cf6", "#14b8a6", "#ec4899", "#84cc16")
GREY = "#8b94a3"
"""Colour of axes, readable on light and on dark."""

MAX_POINTS = 400

Points = Sequence[tuple[float, float]]


def thinned(points: Points) -> list[list[float]]:
    """Return at most `MAX_POINTS` points, with the last."""
    step = -(-len(points) // MAX_POINTS) or 1
    kept = [*points[::step], *([points[-1]] if points and (len(points) - 1) % step else [])]
    return [[round(x, 3), round(y, 5)] for x, y in kept if x == x and y == y]


def line_chart(
    y: str, series: Sequence[Mapping[str, Any]], percent: bool = False, x: str = "env steps"
) -> dict[str, Any]:
    """Return the options of a chart of curves over env steps."""
    axis = {
        "axisLabel": {"color": GREY},
        "nameTextStyle": {"color": GREY},
        "splitLine": {"lineStyle": {"opacity": 0.25}},
    }
    named = [each["name"] for each in series if each.get("name")]
    return {
        "animation": False,
        "color": list(PALETTE),
        "grid": {"left": 56, "right": 24, "top": 48, "bottom": 44},
        "legend": {"data": named, "textStyle": {"color": GREY}, "type": "scroll", "top": 0, "right": 8, "left": 120},
        "tooltip": {"trigger": "axis"},
        "xAxis": {"type": "value", "name": x, "nameLocation": "middle", "nameGap": 28, **axis},
        "yAxis": {"type": "value", "name": y, **({"min": 0, "max": 1} if percent else {"scale": True}), **axis},
        "series": list(series),
    }


def curve(name: str, points: Points) -> dict[str, Any]:
    """Return a series of a chart."""
    return {"name": name, "type": "line", "showSymbol": len(points) < 20, "data": thinned(points)}


def band_series(name: str, band: Band, color: str) -> list[dict[str, Any]]:
    """Return the series of a curve with its interval, which two stacked invisible lines enclose."""
    x = band.x.tolist()
    line = {"type": "line", "showSymbol": False, "color": color}
    series = [{**line, "name": name, "data": thinned(list(zip(x, band.value.tolist(), strict=True)))}]
    if len(x) and (band.low == band.low).all():
        hidden = {
            **line,
            "stack": name,
            "stackStrategy": "all",
            "lineStyle": {"opacity": 0},
            "tooltip": {"show": False},
            "silent": True,
        }
        width = (band.high - band.low).tolist()
        low = thinned(list(zip(x, band.low.tolist(), strict=True)))
        series.append({**hidden, "data": low})
        wide = thinned(list(zip(x, width, strict=True)))
        series.append({**hidden, "data": wide, "areaStyle": {"color": color, "opacity": 0.18}})
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
