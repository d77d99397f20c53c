"""Results in a table.json: those of runs whose directories are not there count as well, and can be verified."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mygym.errors import ConfigError, bad_value
from mygym.reporting.records import RunRecord
from mygym.reporting.settings import Setting

TABLE = "table.json"

SCHEMA = 1
"""Version of the form of table.json."""

Curve = tuple[tuple[int, float], ...]
"""Env steps and success rate of each evaluation."""


@dataclass(frozen=True)
class StoredCell:
    """The results of a cell."""

    setting: Setting
    """The runs that have ended, whose config has dotted keys."""
    curves: Mapping[int, Curve]
    """Seed → learning curve."""
    elsewhere: Mapping[int, Mapping[str, float]]
    """Seed → success rates elsewhere, see `CellRow`."""
    verified: tuple[bool, ...]
    """Whether each repeated run has confirmed its result."""


def is_stored(source: str | Path) -> bool:
    """Return whether a path is a table.json, or a folder that has one."""
    path = Path(source)
    return path.name == TABLE or (path / TABLE).is_file()


def read_stored(source: str | Path) -> dict[str, StoredCell]:
    """Return name of a cell → its results, of a table.json or a folder that has one; cells without runs are left out.

    Raises:
        ConfigError: The file cannot be read.
    """
    path = Path(source) / TABLE if Path(source).is_dir() else Path(source)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema"] != SCHEMA:
            raise ValueError(f"schema {content['schema']!r}, not {SCHEMA}")
        return {str(cell["name"]): _cell(cell) for cell in content["cells"] if cell["setting"]["records"]}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        why = f"cannot be read ({type(error).__name__}: {error})"
        raise ConfigError(bad_value("table", str(path), f"a {TABLE} of `mygym benchmark`", why)) from None


def _cell(cell: Mapping[str, Any]) -> StoredCell:
    stored = cell["setting"]
    records = tuple(map(RunRecord.of_json, stored["records"]))
    curves = {int(seed): tuple((int(s), float(r)) for s, r in curve) for seed, curve in cell["curves"].items()}
    elsewhere = {int(seed): dict(rates) for seed, rates in cell.get("elsewhere", {}).items()}  # absent in older tables
    setting = Setting(str(cell["name"]), dict(stored["config"]), records)
    return StoredCell(setting, curves, elsewhere, tuple(cell["verified"]))
