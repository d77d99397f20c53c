"""Tables on a terminal, and the hyperparameters of an algorithm as rows of one."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from mygym.registry import Algorithm, registry
from mygym.registry.signatures import Parameter, parameters

PLAIN_WIDTH = 140
"""Columns of text where the output is no terminal."""


def print_table(rows: Sequence[Mapping[str, Any]], title: str = "") -> None:
    """Print rows with the same keys; the last column takes what width is left, and breaks its lines."""
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


def hyperparameters(entry: Algorithm) -> list[dict[str, Any]]:
    """A row for each hyperparameter, nested ones by dotted name: type and range, default, first sentence of its text.

    Raises:
        ConfigError: The registration is wrong.
    """
    from mygym.config.hyperparameters import Schema
    from mygym.config.loading import merged
    from mygym.config.named_components import INNER
    from mygym.config.nested import at

    schema = Schema(entry, {}, her=entry.goal_relabelling)
    schema.check_registration()
    values = merged(schema.defaults(), schema.registered())
    rows = []

    def walk(path: tuple[str, ...]) -> None:
        for name, parameter in (schema.inside(path) or {}).items():
            here = (*path, name)
            if name in INNER and schema.inside(here):
                walk(here)
                continue
            default = at(values, here) if name in (at(values, path) or {}) else "required"
            rows.append(_row(".".join(here), parameter, default))

    walk(())
    return rows


def training_parameters(entry: Algorithm) -> list[dict[str, Any]]:
    """The same for the training parameters of a `Runner`; of other algorithms none."""
    from mygym.config import parameter_checks
    from mygym.runs.runner import Runner

    cls = entry.combo()[0]
    known = parameter_checks.training_parameters(cls) if issubclass(cls, Runner) else {}
    return [
        _row(name, one, entry.training_defaults.get(name, "required" if one.required else one.default))
        for name, one in known.items()
    ]


def strategy_parameters(name: str) -> list[dict[str, Any]]:
    """The same for the parameters of a strategy, with all of their texts."""
    known = parameters(registry("strategy").get(name, "strategy").load()).values()
    rows = [_row(one.name, one, "required" if one.required else one.default) for one in known]
    return [{**row, "type": one.type_in_words, "help": one.help} for row, one in zip(rows, known, strict=True)]


def _row(name: str, parameter: Parameter, default: Any) -> dict[str, Any]:
    from mygym.config.named_components import NAMED
    from mygym.config.ranges import RANGES

    short = parameter.name
    kind = f"a name of `mygym list {NAMED[short]}`" if short in NAMED else parameter.type_in_words
    return {
        "name": name,
        "type": kind + (f", {RANGES[short]}" if short in RANGES else ""),
        "default": default,
        "help": re.split(r"(?<=\.)\s+(?=[A-Z])", parameter.help)[0],
    }
