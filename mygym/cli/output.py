"""Output of the commands: notes on standard error, tables and JSON on standard output."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

PLAIN_WIDTH = 140
"""Width of the text in columns if the output is not a terminal."""


def print_note(message: str) -> None:
    """Print a message on standard error; a closed stream is ignored."""
    with contextlib.suppress(OSError):
        print(message, file=sys.stderr, flush=True)


def print_json(content: Any) -> None:
    """Print JSON."""
    print(json.dumps(content, indent=2))


def print_table(rows: Sequence[Mapping[str, Any]], title: str = "") -> None:
    """Print rows with the same keys as a table; the last column gets the remaining width and wraps."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(width=shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns, highlight=False, markup=False)
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    *first, last = rows[0] if rows else [""]
    for column in first:
        table.add_column(column, no_wrap=column == "name", overflow="fold")
    table.add_column(last, overflow="fold")
    for row in rows:
        table.add_row(*(value if isinstance(value, str) else json.dumps(value) for value in row.values()))
    with console.capture() as printed:
        console.print(table)
    print("\n".join(line.rstrip() for line in printed.get().splitlines()))


def as_centimetres(length: float | None) -> str:
    """Return a length in m as text in cm; empty for None."""
    return "" if length is None else f"{100 * length:.2f} cm"
