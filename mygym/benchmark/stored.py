"""Results of the cells of a benchmark, of run directories or of a table.json, whose runs can be verified as well."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.reporting.comparison import Comparison, summarize
from mygym.reporting.records import RunRecord
from mygym.reporting.settings import Setting, shaping_values
from mygym.tasks.lookup import find_task
from mygym.training import directory
from mygym.training.result import Result

TABLE = "table.json"

SCHEMA = 1
"""Version of the form of table.json."""

OWN_ROBOT = "of the task"
"""Robot of methods that are aggregated over tasks with robots of their own."""

Curve = tuple[tuple[int, float], ...]
"""Env steps and success rate of each evaluation."""


@dataclass(frozen=True)
class CellRow:
    """A cell of the table, with those of its runs that have ended."""

    task: str
    robot: str
    engine: str
    method: str
    planned: tuple[int, ...]
    """Seeds of the suite."""
    setting: Setting
    """The runs that have ended; its path is the name of the cell."""
    curves: Mapping[int, Curve]
    """Seed → learning curve."""
    elsewhere: Mapping[int, Mapping[str, float]]
    """Seed → success rates elsewhere of its policy: `in ENGINE` of its certificate, `TASK` of each of several tasks."""
    command: str
    """Command that trains the run of a seed; `S` stands for the seed."""
    note: str = ""
    """What a reader must know."""
    origin: str = ""
    """Where the runs come from; empty for runs of this benchmark."""
    verified: tuple[bool, ...] = ()
    """Whether each repeated run has confirmed its result."""

    @property
    def name(self) -> str:
        """Name of the cell."""
        return self.setting.path

    @property
    def group(self) -> str:
        """Robot of the cells over which methods are aggregated: that of each task, or another one."""
        try:
            return OWN_ROBOT if self.robot == find_task(self.task).robot else self.robot
        except (ConfigError, RegistryError):  # several tasks, or one of another machine: no other robot to tell apart
            return OWN_ROBOT

    @property
    def summary(self) -> Comparison | None:
        """Figures of the runs; None without a run that has ended."""
        return summarize(self.setting) if self.setting.records else None

    @property
    def steps(self) -> float | None:
        """Env steps of the runs, their median; None without a run."""
        return float(np.median([record.steps for record in self.setting.records])) if self.setting.records else None

    @property
    def seconds(self) -> float | None:
        """Wall time of the runs in s, the median of those that have recorded it."""
        seconds = [record.wall_time_s for record in self.setting.records if record.wall_time_s is not None]
        return float(np.median(seconds)) if seconds else None

    def to_json(self) -> dict[str, Any]:
        """Return the cell for table.json, which `read_stored` reads again; without folders of this machine."""
        summary = self.summary
        figures = {} if summary is None else {"success_rate": summary.success_rate, "success": summary.success}
        content = asdict(self)
        for record in content["setting"]["records"]:
            record.update(path="", setting=self.name)
        return {"name": self.name, **content, **figures}


def cell_row(
    names: tuple[str, str, str, str],
    name: str,
    planned: tuple[int, ...],
    command: str,
    records: Sequence[RunRecord],
    stored: CellRow | None = None,
    **more: Any,
) -> CellRow:
    """Return the row of a cell with runs that have ended; those without a directory are in an earlier, `stored` row.

    `names` are task, robot, engine and method; `more` has further fields.
    """
    curves = {record.seed or 0: _curve(record, stored) for record in records}
    elsewhere = {record.seed or 0: _elsewhere(record, stored) for record in records}
    setting = Setting(name, _config(records, stored), tuple(records))
    return CellRow(*names, planned, setting, curves, elsewhere, command, **more)


def _config(records: Sequence[RunRecord], stored: CellRow | None) -> dict[str, Any]:
    """Return the config of the first run that has a directory, or the stored one, with dotted keys."""
    for record in (each for each in records if each.path):  # stored ones have none
        with contextlib.suppress(ConfigError):
            return shaping_values(directory.saved_config(Path(record.path)))
    return dict(stored.setting.config) if stored else {}


def _curve(record: RunRecord, stored: CellRow | None) -> Curve:
    result = Result.read(Path(record.path)) if record.path else None
    if result is None:
        return stored.curves.get(record.seed or 0, ()) if stored else ()
    return tuple((entry["steps"], entry["success_rate"]) for entry in result.evaluations)


def _elsewhere(record: RunRecord, stored: CellRow | None) -> dict[str, float]:
    """Return the success rates elsewhere of a run, see `CellRow`."""
    if not record.path:
        return dict(stored.elsewhere.get(record.seed or 0, {})) if stored else {}
    run = Path(record.path)
    result = Result.read(run)
    rates = dict(result.success_by_task) if result else {}
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):  # without a certificate
        verdicts = json.loads((run / directory.CERTIFICATE).read_text(encoding="utf-8"))["verdicts"]
        rates |= {f"in {each['engine']}": float(each["success_rate"]) for each in verdicts}
    return rates


def is_stored(source: str | Path) -> bool:
    """Return whether a path is a table.json, or a folder that has one."""
    path = Path(source)
    return path.name == TABLE or (path / TABLE).is_file()


def read_stored(source: str | Path) -> dict[str, CellRow]:
    """Return name of a cell → its row, of a table.json or a folder that has one; cells without runs are left out.

    Raises:
        ConfigError: The file cannot be read.
    """
    path = Path(source) / TABLE if Path(source).is_dir() else Path(source)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema"] != SCHEMA:
            raise ValueError(f"schema {content['schema']!r}, not {SCHEMA}")
        return {str(cell["name"]): _stored_row(cell) for cell in content["cells"] if cell["setting"]["records"]}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        why = f"cannot be read ({type(error).__name__}: {error})"
        raise ConfigError(bad_value("table", str(path), f"a {TABLE} of `mygym benchmark`", why)) from None


def _stored_row(cell: Mapping[str, Any]) -> CellRow:
    records = tuple(map(RunRecord.of_json, cell["setting"]["records"]))
    curves = {int(seed): tuple((int(s), float(r)) for s, r in curve) for seed, curve in cell["curves"].items()}
    elsewhere = {int(seed): dict(rates) for seed, rates in cell.get("elsewhere", {}).items()}  # absent in older tables
    setting = Setting(str(cell["name"]), dict(cell["setting"]["config"]), records)
    known = {field.name: cell[field.name] for field in fields(CellRow) if field.name in cell}
    known |= {"planned": tuple(cell["planned"]), "verified": tuple(cell["verified"])}
    return CellRow(**known | {"setting": setting, "curves": curves, "elsewhere": elsewhere})
