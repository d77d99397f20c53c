"""Index of the runs of a log directory: records, curves and files of a run, by an identifier that holds no path."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mygym.errors import ConfigError, bad_value
from mygym.reporting.curves import read_curve
from mygym.reporting.records import RunRecord, read_run, run_directories
from mygym.training import directory
from mygym.training.result import Result

FRESH = 1.0
"""s for which a list of runs is not read again, so that ten browsers cost as much as one."""

SPARKS = 24
"""Points of the small curve of a run."""

FILES = (directory.CONFIG, directory.RESULT, directory.PROGRESS, directory.MONITOR, directory.TRACEBACK)
"""Files of a run that are served, besides its videos."""

VIDEO_SUFFIXES = (".mp4", ".gif")


@dataclass(frozen=True)
class Entry:
    """A run in the list."""

    id: str
    record: RunRecord
    spark: tuple[float, ...]
    """Success rates of the evaluations, thinned."""
    target_steps: int | None
    """Env steps of the config."""


def run_id(logdir: Path, run: Path) -> str:
    """Return the identifier of a run: it follows from its path in the log directory, and holds no path."""
    return hashlib.sha256(str(run.relative_to(logdir)).encode()).hexdigest()[:12]


class RunIndex:
    """Runs of a log directory; unchanged files are not read again.

    Args:
        logdir: Absolute path.
    """

    def __init__(self, logdir: Path) -> None:
        self.logdir = logdir
        self._known: dict[str, tuple[tuple[Any, ...], Entry]] = {}
        self._entries: dict[str, Entry] = {}
        self._read_at = -FRESH
        self._lock = threading.Lock()
        self._logs: dict[Path, tuple[int, list[dict[str, Any]]]] = {}

    def entries(self, fresh: bool = False) -> dict[str, Entry]:
        """Return identifier → entry of all runs, the newest first."""
        with self._lock:
            if fresh or time.monotonic() - self._read_at > FRESH:
                now = time.time()
                entries = [self._entry(run, now) for run in run_directories(self.logdir)]
                entries.sort(key=lambda entry: (entry.record.age_s, entry.record.path))
                self._known = {entry.record.path: self._known[entry.record.path] for entry in entries}
                self._entries, self._read_at = {entry.id: entry for entry in entries}, time.monotonic()
            return self._entries

    def get(self, identifier: str) -> Entry:
        """Return the entry of a run.

        Raises:
            ConfigError: The run does not exist.
        """
        entry = self.entries().get(identifier) or self.entries(fresh=True).get(identifier)
        if entry is None:
            raise ConfigError(bad_value("run", identifier, "an id of GET /api/runs", "is no run in the log directory"))
        return entry

    def path(self, identifier: str) -> Path:
        """Return the directory of a run; raises as `get` does."""
        return Path(self.get(identifier).record.path)

    def progress(self, run: Path) -> list[dict[str, Any]]:
        """Return the lines of progress.jsonl so far; all browsers share the lines that were read."""
        with self._lock:
            return self._progress(run / directory.PROGRESS)

    def _progress(self, path: Path) -> list[dict[str, Any]]:
        offset, lines = self._logs.get(path, (0, []))
        try:
            if path.stat().st_size < offset:  # a resumed run has cut its log
                offset, lines = 0, []
            with path.open("rb") as file:
                file.seek(offset)
                content = file.read()
        except OSError:
            return lines
        complete = content[: content.rfind(b"\n") + 1]
        lines = lines + [line for text in complete.splitlines() if isinstance(line := _parsed(text), dict)]
        if len(self._logs) > 32:  # of runs without viewers
            self._logs.pop(next(iter(self._logs)))
        self._logs[path] = offset + len(complete), lines
        return lines

    def config(self, identifier: str) -> dict[str, Any]:
        """Return the config of a run."""
        return directory.saved_config(self.path(identifier))

    def files(self, identifier: str) -> dict[str, Path]:
        """Return name → path of the files of a run that are served; links are left out."""
        run = self.path(identifier)
        paths = [run / name for name in FILES]
        videos = sorted((run / directory.VIDEOS).rglob("*")) if (run / directory.VIDEOS).is_dir() else []
        paths += [path for path in videos if path.suffix in VIDEO_SUFFIXES]
        return {str(path.relative_to(run)): path for path in paths if _is_inside(path, run)}

    def videos(self, identifier: str) -> list[str]:
        """Return the names of the videos of a run."""
        return [name for name in self.files(identifier) if name.endswith(VIDEO_SUFFIXES)]

    def _entry(self, run: Path, now: float) -> Entry:
        files = (directory.PROGRESS, directory.CONFIG, directory.RESULT)
        stamps = tuple(stamp for name in files for stamp in _stamp(run / name))
        stored = self._known.get(str(run))
        if stored and stored[0] == stamps and stored[1].record.status in ("done", "diverged"):
            record = stored[1].record
            return replace(stored[1], record=replace(record, age_s=now - stored[0][-1] / 1e9))
        record = read_run(run, now)
        curve = read_curve(record, evaluations_only=True)
        rates = [] if curve is None else curve.along("steps", "success")[1].tolist()
        spark = tuple(rates[:: max(1, len(rates) // SPARKS)])
        target = None if record.status == "done" else _steps(run)
        entry = Entry(run_id(self.logdir, run), record, spark, target)
        self._known[str(run)] = stamps, entry
        return entry


def stages_of(run: Path) -> dict[str, int]:
    """Return stage → number of final episodes that ended in it; empty before the end of the run."""
    result = Result.read(run)
    return dict(result.stage_reached) if result else {}


def walk_sweeps(logdir: Path) -> Iterator[Path]:
    """Yield the folders of sweeps in the log directory and in the folder `sweeps` beside it."""
    for root in (logdir, logdir.parent / "sweeps"):
        if root.is_dir():
            yield from (path.parent for path in sorted(root.glob("**/sweep.yaml")) if not path.is_symlink())


def _is_inside(path: Path, run: Path) -> bool:
    return path.is_file() and not path.is_symlink() and path.resolve().is_relative_to(run.resolve())


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return status.st_size, status.st_mtime_ns


def _steps(run: Path) -> int | None:
    try:
        steps = directory.saved_config(run).get("steps")
    except ConfigError:
        return None
    return steps if isinstance(steps, int) else None
