"""Parts of Markdown pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mygym.registry import Entry, registry

ROOT = Path(__file__).parent.parent.parent
BENCHMARKS = ROOT / "benchmarks"


def built_in(kind: str) -> list[Entry]:
    """Return the built-in components of a kind, by name."""
    return [entry for entry in registry(kind) if entry.built_in]


def cell(value: Any) -> str:
    """Return a value as the text of a cell."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, default=_plain)
    return " ".join(text.split()).replace("|", "\\|")


def code(value: Any) -> str:
    """Return a value as inline code; empty stays empty."""
    return f"`{cell(value)}`" if value not in (None, "") else ""


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table.

    Args:
        columns: Names of the columns.
        rows: The cells of each row; a value that is no text is written as JSON.
    """
    lines = [columns, ["---"] * len(columns), *([cell(value) for value in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def page(title: str, *parts: str) -> str:
    """Return a page of a title and parts; empty parts are left out."""
    return "\n".join([f"# {title}\n", *(f"{part.strip()}\n" for part in parts if part.strip())])


def section(title: str, *parts: str, level: int = 2) -> str:
    """Return a section, or nothing if all its parts are empty."""
    filled = [f"{part.strip()}\n" for part in parts if part.strip()]
    return "\n".join([f"{'#' * level} {title}\n", *filled]) if filled else ""


def toctree(names: Iterable[str], depth: int = 1) -> str:
    """Return the list of the pages below a page."""
    return "\n".join(["```{toctree}", f":maxdepth: {depth}", "", *names, "```"])


def picture(kind: str, name: str, up: int = 1) -> str:
    """Return the picture of a component, if `docs/pictures.py` has drawn it.

    Args:
        kind: Kind of the component.
        name: Its name.
        up: Levels from the page to the folder `docs`.
    """
    path = f"images/{kind}/{name}.jpg"
    return f"![{name}]({'../' * up}{path})" if (ROOT / "docs" / path).is_file() else ""


def video(task: str) -> str:
    """Return the video of a task's expert, if `docs/pictures.py` has drawn it."""
    path = f"images/video/{task}.webp"
    return f"![an episode of the expert](../../{path})" if (ROOT / "docs" / path).is_file() else ""


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


def as_yaml(value: Mapping[str, Any]) -> str:
    """Return a mapping as a block of YAML."""
    from mygym.training.files import to_yaml

    return f"```yaml\n{to_yaml(json.loads(json.dumps(value, default=_plain)))}```"


def stored_rows(result: str, words: str) -> str:
    """Return the tables of a stored result, reduced to rows that contain some words.

    Args:
        result: A file in `benchmarks`.
        words: Text of the wanted rows.
    """
    lines, kept = (BENCHMARKS / result).read_text(encoding="utf-8").splitlines(), []
    header: list[str] = []
    for before, line in zip(["", *lines], lines, strict=False):
        if line.startswith("|") and not before.startswith("|"):
            header = [line]
        elif re.fullmatch(r"[|\s-]+", line):
            header.append(line)
        elif line.startswith("|") and words in line:
            kept += [*header, line]
            header = []
    return "\n".join(kept)
