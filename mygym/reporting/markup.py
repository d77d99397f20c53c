"""HTML of a report: escaped texts, sortable tables, and a page that makes no request."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import NamedTuple

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
    body = [element("tr", *map(_cell, row.values())) for row in rows]
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


def _cell(cell: Cell) -> Html:
    if isinstance(cell, Number):
        return element("td", cell.text, class_="number", data_key="" if cell.value is None else repr(float(cell.value)))
    return element("td", cell, data_key=re.sub(r"<[^>]*>", "", cell) if isinstance(cell, Html) else cell)


def _page_file(name: str) -> str:
    return (files("mygym.reporting") / "page" / name).read_text(encoding="utf-8")
