"""Tables for papers and spreadsheets: CSV, Markdown and LaTeX; numbers, counts and durations as text."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mygym.reporting.statistics import Interval

Rows = Sequence[Mapping[str, Any]]
"""Rows with the same keys, which are the names of the columns."""

LATEX_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
LATEX_SPECIAL |= {character: f"\\{character}" for character in "&%$#_{}"}


def as_text(value: float | None, form: str) -> str:
    """Return a number in a form, e.g. `.1%`; empty for None."""
    return "" if value is None else format(value, form)


def with_interval(value: float | None, interval: Interval | None, form: str) -> str:
    """Return a number with its interval, `90.0% (85.1% to 94.2%)`, or alone if the bounds are NaN; empty for None."""
    if value is None or interval is None or interval.low != interval.low:
        return as_text(value, form)
    return f"{value:{form}} ({interval.low:{form}} to {interval.high:{form}})"


def duration(seconds: float | None) -> str:
    """Return a duration in its largest unit: `45 s`, `3 min`, `2.5 h`, `4 days`; empty for None."""
    if seconds is None:
        return ""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6_000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 100_000 else f"{seconds / 86_400:.0f} days"


def read_csv(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file; none if it does not exist."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:  # a cell may have line breaks
        return [{name: text or "" for name, text in row.items()} for row in csv.DictReader(file)]


def as_csv(rows: Rows) -> str:
    """Return rows as CSV with a header; None is an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_markdown(rows: Rows) -> str:
    """Return rows as a Markdown table."""
    columns = list(rows[0]) if rows else []
    cells = [[_cell(value).replace("|", "\\|") for value in row.values()] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in (columns, ["---"] * len(columns), *cells))


def as_latex(rows: Rows) -> str:
    """Return rows as a LaTeX table in the style of the package `booktabs`."""
    columns = list(rows[0]) if rows else []
    header, *body = ([_escaped(_cell(value)) for value in line] for line in (columns, *(row.values() for row in rows)))
    lines = [" & ".join(line) + r" \\" for line in (header, *body)]
    rule = [f"\\begin{{tabular}}{{{'l' * len(columns)}}}", r"\toprule", lines[0], r"\midrule", *lines[1:]]
    return "\n".join([*rule, r"\bottomrule", r"\end{tabular}", ""])


FORMATS: Mapping[str, Callable[[Rows], str]] = {"csv": as_csv, "markdown": as_markdown, "latex": as_latex}
"""Name of a format → the function that renders it."""


def _cell(value: Any) -> str:
    return "" if value is None else " ".join(str(value).split())


def _escaped(text: str) -> str:
    return re.sub(r"[\\~^&%$#_{}]", lambda match: LATEX_SPECIAL[match[0]], text)
