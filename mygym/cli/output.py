"""Output of the commands: tables and JSON on standard output."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from mygym.nested import finite

PLAIN_WIDTH = 140
"""Width of the text in columns if the output is not a terminal."""


def exit_with_failure() -> NoReturn:
    """Exit with 1 after everything has been printed."""
    sys.stdout.flush()
    sys.exit(1)


def print_json(content: Any) -> None:
    """Print JSON; a dataclass is a mapping of its fields, and a number that is not finite is null."""
    print(json.dumps(finite(content), indent=2))


def print_table(rows: Sequence[Mapping[str, Any]], title: str = "") -> None:
    """Print rows with the same keys as a table in the width of the terminal.

    The widest columns wrap first, and `name` last and between words alone.
    """
    titles = list(rows[0]) if rows else [""]
    texts = [[cell if isinstance(cell, str) else json.dumps(cell) for cell in row.values()] for row in rows]
    widths = [
        max(len(line) for cell in column for line in cell.split("\n")) for column in zip(titles, *texts, strict=True)
    ]
    space = shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns - 3 * len(widths) + 1
    cells = list(zip(*texts, strict=True)) or [() for _ in titles]
    ones = [1] * len(titles)
    of_titles = [max(map(len, title.split()), default=1) for title in titles]
    of_cells = [max((len(word) for cell in column for word in cell.split()), default=1) for column in cells]
    # Lines break between words as long as possible, then within the words of titles, and last within those of cells.
    for least, whole in (
        (list(map(max, of_titles, of_cells)), "name"),
        (of_cells, "name"),
        (of_cells, ""),
        (ones, "name"),
    ):
        while sum(widths) > space:
            wrapped = [column for column, key in enumerate(titles) if key != whole and widths[column] > least[column]]
            if not wrapped:
                break
            widths[max(wrapped, key=lambda column: widths[column])] -= 1
    print(f"{title}\n" if title else "")
    print_row(titles, widths)
    print(" " + "─" * (sum(widths) + 3 * len(widths) - 3))
    for row in texts:
        print_row(row, widths)
    print()


def print_row(cells: Sequence[str], widths: Sequence[int]) -> None:
    """Print the cells of a row of a table, each wrapped to its width."""
    parts = [
        [part for line in cell.split("\n") for part in textwrap.wrap(line, width, break_on_hyphens=False) or [""]]
        if len(cell) > width or "\n" in cell
        else [cell]
        for cell, width in zip(cells, widths, strict=True)
    ]
    for line in itertools.zip_longest(*parts, fillvalue=""):
        print(" " + "   ".join(map(str.ljust, line, widths)).rstrip())


def as_centimetres(length: float | None) -> str:
    """Return a length in m as text in cm; empty for None."""
    return "" if length is None else f"{100 * length:.2f} cm"
