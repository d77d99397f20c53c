"""Tables for papers, spreadsheets and reports: CSV, Markdown, LaTeX and HTML."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any, NamedTuple

Rows = Sequence[Mapping[str, Any]]
"""Rows with the same keys, which are the names of the columns."""

LATEX_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
LATEX_SPECIAL |= {character: f"\\{character}" for character in "&%$#_{}"}


def duration(seconds: float | None) -> str:
    """Return a duration in its largest unit: `45 s`, `3 min`, `2.5 h`, `4 days`; empty for None."""
    if seconds is None:
        return ""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6_000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 100_000 else f"{seconds / 86_400:.0f} days"


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


POLICY = (
    "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; "
    "base-uri 'none'; form-action 'none'"
)
"""Content security policy of a page: no request, no script but the page's; figures have inline styles."""


class Html(str):
    """Text that is HTML already; any other text is escaped."""

    __slots__ = ()


class Number(NamedTuple):
    """Cell with a number: a text, and the value by which a table is sorted."""

    text: str
    value: float | None


Cell = str | Number


def html(value: str) -> Html:
    """Return a text as HTML."""
    return value if isinstance(value, Html) else Html(escape(value))


def element(tag: str, *content: str, **attributes: str) -> Html:
    """Return an element; its contents and attributes are escaped unless they are `Html`.

    In names of attributes, a trailing underscore is left out, and others become hyphens: `class_`, `data_key`.
    """
    listed = "".join(f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' for name, value in attributes.items())
    return Html(f"<{tag}{listed}>{''.join(html(item) for item in content)}</{tag}>")


def table(rows: Sequence[Mapping[str, Cell]]) -> Html:
    """Return a table that is sorted by a click on a header; the rows have the same keys, which are the headers."""
    head = [element("th", element("button", column, type="button")) for column in rows[0]]
    body = [element("tr", *map(_html_cell, row.values())) for row in rows]
    content = element("thead", element("tr", *head)), element("tbody", *body)
    return element("div", element("table", *content, class_="sortable"), class_="scroll")


def bullets(lines: Sequence[str], **attributes: str) -> Html:
    """Return a list; empty without lines."""
    return element("ul", *(element("li", line) for line in lines), **attributes) if lines else Html("")


def details(summary: str, *content: str) -> Html:
    """Return contents that a click on the summary shows."""
    return element("details", element("summary", summary), *content)


def inline_svg(svg: bytes) -> Html:
    """Return an SVG file of Matplotlib as an element, without its prologue and metadata, which name addresses."""
    text = svg.decode()
    text = text[text.index("<svg") :]
    return Html(re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL))


def page(title: str, *content: str) -> str:
    """Return a complete page."""
    script, style, template = (_page_file(name) for name in ("report.js", "report.css", "report.html"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return Template(template).substitute(
        policy=escape(POLICY.format(hash=digest), quote=True).replace("&#x27;", "'"),
        title=escape(title),
        style=style,
        script=script,
        body="\n".join(html(item) for item in content),
    )


def _html_cell(cell: Cell) -> Html:
    if isinstance(cell, Number):
        return element("td", cell.text, class_="number", data_key="" if cell.value is None else repr(float(cell.value)))
    return element("td", cell, data_key=re.sub(r"<[^>]*>", "", cell) if isinstance(cell, Html) else cell)


def _page_file(name: str) -> str:
    return (files("mygym.reporting") / "page" / name).read_text(encoding="utf-8")
