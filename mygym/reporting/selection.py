"""Selection of runs for figures and reports: their settings with curves, and notes on runs that cannot take part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mygym.errors import ConfigError, bad_value
from mygym.reporting.comparison import count
from mygym.reporting.curves import SettingCurves, read_curves
from mygym.reporting.records import DAMAGED, RunRecord, find_runs
from mygym.reporting.settings import ENDED, settings_of


@dataclass(frozen=True)
class Selection:
    """Runs below some folders."""

    records: tuple[RunRecord, ...]
    """All runs, sorted by path."""
    settings: tuple[SettingCurves, ...]
    """Settings whose configs can be read; of damaged runs none."""
    notes: tuple[str, ...]
    """Sentences on runs that are damaged, have no evaluation or have not ended, and on settings with one seed."""


def select_runs(folders: Iterable[str | Path], where: Mapping[str, Any] | None = None) -> Selection:
    """Read the runs below folders.

    Args:
        folders: Folders of runs, settings, or runs.
        where: Key → value that a run must have, see `find_runs`.

    Raises:
        ConfigError: A folder does not exist or has no runs.
    """
    records: dict[str, RunRecord] = {}
    for folder in folders:
        more = find_runs(folder, where)
        if not more:
            why = "has no runs" if not where else "has no runs with these values"
            raise ConfigError(bad_value("folder", str(folder), "a folder with runs, e.g. runs", why))
        records |= {record.path: record for record in more}
    notes = [f"{record.path}: {record.error}" for record in records.values() if record.status == DAMAGED]
    by_folder: dict[str, list[RunRecord]] = {}
    for record in records.values():
        if record.status != DAMAGED:
            by_folder.setdefault(record.setting, []).append(record)
    settings = []
    for members in by_folder.values():
        try:
            settings += [read_curves(setting) for setting in settings_of(members)]
        except ConfigError as error:
            notes.append(f"{error}; the setting is left out")
    return Selection(tuple(records.values()), tuple(settings), (*notes, *_notes(settings)))


def _notes(settings: Sequence[SettingCurves]) -> list[str]:
    empty = sum(len(each.setting.records) - len(each.curves) for each in settings)
    unfinished = sum(curve.status not in ENDED for each in settings for curve in each.curves)
    single = sum(len(each.curves) == 1 for each in settings)
    notes = []
    if empty:
        notes.append(f"{count(empty, 'run')} without an evaluation: left out of the curves")
    if unfinished:
        notes.append(f"{count(unfinished, 'run')} not ended: the curve of a setting ends with its shortest such run")
    if single:
        notes.append(f"{count(single, 'setting')} with one seed: no interval")
    return notes
