"""Removal of runs, with or without an archive; a run that a process is writing stays."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from mygym.errors import ConfigError, RunError
from mygym.reporting.records import RunRecord
from mygym.runs import directory, files


def size_of(records: Sequence[RunRecord]) -> int:
    """Return the bytes of all files of the runs."""
    paths = (path for record in records for path in Path(record.path).rglob("*"))
    return sum(path.lstat().st_size for path in paths if not path.is_dir())


def remove_runs(records: Sequence[RunRecord], archive: Path | None = None) -> list[str]:
    """Remove the directories of runs, and folders above them that are then empty.

    Args:
        records: The runs; all are locked until the end, so that no process begins to resume them.
        archive: New `.tar.gz` file that receives the runs first.

    Returns:
        A message for each run that stays: another process is writing it, or it holds links.

    Raises:
        RunError: The archive cannot be written or a run cannot be removed; without an archive nothing is removed.
    """
    kept: list[str] = []
    with contextlib.ExitStack() as locks:
        locked = []
        for record in records:
            try:
                locks.enter_context(directory.lock(Path(record.path)))
                locked.append(Path(record.path))
            except (ConfigError, RunError) as error:
                kept.append(str(error))
        if archive is not None and locked:
            files.write(archive, lambda temporary: _pack(locked, temporary))
        if sys.platform == "win32":  # it removes no open file
            locks.close()
        for run in locked:
            _remove(run)
    return kept


def _pack(runs: Sequence[Path], archive: Path) -> None:
    with tarfile.open(archive, "w:gz") as packed:
        for run in runs:
            packed.add(run, filter=lambda entry: None if entry.name.endswith(f"/{directory.LOCK}") else entry)


def _remove(run: Path) -> None:
    with files.writing(run):
        shutil.rmtree(run)
    for folder in list(run.parents)[:4]:  # setting, algorithm, robot, task
        try:
            folder.rmdir()
        except OSError:  # it holds other runs
            return
