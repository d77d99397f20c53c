"""Index of runs and sweeps: a record of each run directory below a folder, read without importing an algorithm."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from mygym.config.layers import flatten
from mygym.config.loading import parse_value
from mygym.config.schema import renamed
from mygym.errors import ConfigError, RunError, bad_value, nearest
from mygym.nested import at, has
from mygym.reporting.statistics import success_interval
from mygym.training import directory, files
from mygym.training.result import SCHEMA, Result

THRESHOLD = 0.9
"""Success rate whose first evaluation is reported as the time to learn."""

RUNNING, STOPPED, DAMAGED = "running", "stopped", "damaged"
"""Statuses besides those of `Result`: a process is writing the run; a process was killed; result.json is unreadable."""

STATUSES = ("done", "diverged", "interrupted", "failed", RUNNING, STOPPED, DAMAGED)
"""Those of `Result`, and these."""

TAIL = 100_000
"""Bytes at the end of a log in which its last evaluation is looked for."""


@dataclass(frozen=True)
class RunRecord:
    """A run directory in one line; a field that is unknown is None."""

    path: str
    setting: str
    """Directory of the setting, whose runs differ in their seeds."""
    status: str
    """`done`, `diverged`, `interrupted`, `failed`, `running`, `stopped` or `damaged`."""
    task: str
    robot: str
    algo: str
    framework: str | None
    seed: int | None
    config_hash: str
    steps: int
    """Env steps."""
    success_rate: float | None
    """Success rate of the saved policy over `episodes` fresh episodes; while it trains, of the last evaluation."""
    success_low: float | None
    success_high: float | None
    """Bounds of the success rate at 95 % confidence, see `success_interval`."""
    episodes: int
    """Final episodes; 0 if the run has not ended."""
    mean_return: float | None
    wall_time_s: float | None
    steps_to_90: int | None
    """Env steps until the first evaluation with at least 90 % success."""
    seconds_to_90: float | None
    """s, until the same evaluation."""
    age_s: float
    """s since the run was last written."""
    error: str | None
    machine: str = ""
    """Processor and number of its cores; empty if unknown."""

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> Self:
        """Return a record that was stored as JSON, perhaps with fewer or other fields."""
        return cls(**{name: content[name] for name in COLUMNS if name in content})


COLUMNS = tuple(field.name for field in fields(RunRecord))
"""Names of the fields of a record."""

SHORT_NAMES = {"success": "success_rate", "age": "age_s", "wall_time": "wall_time_s", "return": "mean_return"}
"""Short name of a field → the field."""


def read_run(run: Path, now: float) -> RunRecord:
    """Read a run directory; if its result is not readable, the status is `damaged`. `now` is in s since the epoch."""
    result = Result.read(run)
    status, error = _status(run, result)
    ended = result if status == "done" else None
    last = {} if ended else _last_figures(run / directory.PROGRESS)
    episodes = sum(ended.stage_reached.values()) if ended else 0
    rate = ended.success_rate if ended else last.get("eval/success_rate")
    bounds = success_interval(rate * episodes, episodes) if episodes and rate is not None else None
    learned = (result.first_at(THRESHOLD) if result else None) or {}
    *_, task, robot, algo, setting, name = ("", "", "", "", *run.absolute().parts)
    seed = re.match(r"seed_(\d+)", name)
    return RunRecord(
        path=str(run),
        setting=str(run.parent),
        status=status,
        task=result.task if result else task,
        robot=result.robot if result else robot,
        algo=result.algo if result else algo,
        framework=result.framework if result else None,
        seed=result.seed if result else int(seed[1]) if seed else None,
        config_hash=result.config_hash if result else setting.rpartition("-")[2],
        steps=max(result.steps if result else 0, last.get("steps", 0)),
        success_rate=rate,
        success_low=bounds.low if bounds else None,
        success_high=bounds.high if bounds else None,
        episodes=episodes,
        mean_return=ended.mean_return if ended else last.get("eval/mean_return"),
        wall_time_s=result.wall_time_s if result else None,
        steps_to_90=learned.get("steps"),
        seconds_to_90=learned.get("wall_time_s"),
        age_s=max(0.0, now - _last_change(run, ended is not None)),
        error=error,
        machine=result.machine if result else "",
    )


def find_runs(folder: str | Path, where: Mapping[str, Any] | None = None) -> list[RunRecord]:
    """Return the records of all runs below a folder, or of the folder itself if it is a run, sorted by path.

    Args:
        folder: A `logdir`, a setting, a run, or any folder above them.
        where: Key → value that a run must have; keys are fields of `RunRecord`, and dotted keys of configs such as
            `algo_params.gamma`.

    Raises:
        ConfigError: The folder does not exist, or no run has a key of `where`.
    """
    path, now = Path(folder), time.time()
    if not path.is_dir():
        beside = [str(entry) for entry in path.parent.glob("*/")] if path.parent.is_dir() else []
        allowed = nearest(path, beside) or "a folder with runs; the first training makes one"
        raise ConfigError(bad_value("folder", str(folder), allowed, "is not a folder"))
    records = [read_run(run, now) for run in sorted(run_directories(path))]
    return select(records, where or {})


def run_directories(folder: Path) -> Iterator[Path]:
    """Yield the run directories below a folder; the search does not go into them, nor along links."""
    for current, folders, names in os.walk(folder):  # passes folders by that it may not read
        if directory.CONFIG in (*names, *folders):
            yield Path(current)
            folders.clear()
        folders[:] = [name for name in folders if not name.startswith(".")]


def _status(run: Path, result: Result | None) -> tuple[str, str | None]:
    """Return the status of a run, and its error."""
    if result is not None and result.status == "done":
        return "done", None
    if is_locked(run):
        return RUNNING, None
    if result is not None:
        return result.status, result.error
    if (run / directory.RESULT).exists():
        return DAMAGED, _why_damaged(run / directory.RESULT)
    return STOPPED, None


def _why_damaged(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
        schema = json.loads(path.read_text(encoding="utf-8"))["schema"] if path.is_file() else SCHEMA
        if schema != SCHEMA:
            return f"{path.name} has schema {schema!r:.20}; this version of mygym reads schema {SCHEMA}"
    return f"{path.name} is not readable"


def is_locked(run: Path) -> bool:
    """Return whether a process is writing a run directory."""
    path = run / directory.LOCK
    if not path.is_file():
        return False
    try:
        FileLock(path).acquire(timeout=0).lock.release()
    except Timeout:
        return True
    except OSError:  # of another user
        return False
    return False


def where_of(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return key → value of texts that name what a run must have, for `find_runs`; refuse a malformed value."""
    where: dict[str, Any] = {}
    for key, value in pairs:
        column = SHORT_NAMES.get(key, key)
        is_text = column in COLUMNS and "str" in str(RunRecord.__annotations__[column])
        where[column] = value if is_text else parse_value(value, f"--where {key}")  # hashes may have digits alone
    return where


def select(records: Sequence[RunRecord], where: Mapping[str, Any]) -> list[RunRecord]:
    """Return the records with these values, see `find_runs`."""
    selected = list(records)
    for key, value in renamed(where).items():
        selected = _select(selected, key, value)
    return selected


def _select(records: Sequence[RunRecord], key: str, value: Any) -> list[RunRecord]:
    if key == "status" and value not in STATUSES:
        raise ConfigError(bad_value("--where status", value, STATUSES, "is no status of a run"))
    if key in COLUMNS:
        return [record for record in records if getattr(record, key) == value]
    path = tuple(key.split("."))
    configs = {record.path: _config(record) for record in records}
    if records and not any(has(config, path) for config in configs.values()):
        known = {name for config in configs.values() for name, _ in flatten(config)}
        raise ConfigError(bad_value("--where", key, [*COLUMNS, *sorted(known - {*COLUMNS})], "is a key of no run"))
    return [record for record in records if at(configs[record.path], path) == value]


def _config(record: RunRecord) -> dict[str, Any]:
    try:
        return directory.saved_config(Path(record.path))
    except ConfigError:
        return {}


def _last_figures(path: Path) -> dict[str, Any]:
    """Return the env steps of the last complete line of a log, and the figures of the last evaluation near its end."""
    lines = tail(path, TAIL).split("\n")[:-1]
    try:
        evaluation = next((line for line in reversed(lines) if '"eval/success_rate"' in line), "{}")
        last, figures = json.loads(lines[-1]), json.loads(evaluation)
        return {**figures, "steps": last["steps"]}
    except (ValueError, LookupError, TypeError):
        return {}


def tail(path: Path, size: int = 20_000) -> str:
    """Return the end of a text file; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - size))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _last_change(run: Path, ended: bool) -> float:
    """Return s since the epoch: when the run was last written; a run that has ended wrote its result last."""
    times = []
    for name in (directory.RESULT,) if ended else (directory.RESULT, directory.PROGRESS, directory.CONFIG):
        with contextlib.suppress(OSError):
            times.append((run / name).stat().st_mtime)
    return max(times, default=0.0)


def size_of(records: Sequence[RunRecord]) -> int:
    """Return the bytes of all files of the runs."""
    paths = (path for record in records for path in Path(record.path).rglob("*"))
    return sum(path.lstat().st_size for path in paths if not path.is_dir())


def remove_runs(records: Sequence[RunRecord], archive: Path | None = None) -> list[str]:
    """Remove the directories of runs, and folders above them that are then empty; pack them into a new `.zip` first.

    All runs are locked until the end, so that no process begins to resume them.

    Returns:
        A message for each run that stays: another process is writing it, or it holds links.

    Raises:
        ConfigError: The archive would be in one of the runs; nothing is removed.
        RunError: The archive cannot be written or a run cannot be removed; without an archive nothing is removed.
    """
    for record in records:
        if archive is not None and archive.resolve().is_relative_to(Path(record.path).resolve()):
            why = f"is in {record.path}, which is removed"
            raise ConfigError(bad_value("archive", str(archive), "a file outside of the runs", why))
    kept: list[str] = []
    _allow_open_files(len(records))
    with contextlib.ExitStack() as locks:
        locked = []
        for record in records:
            try:
                locks.enter_context(directory.lock(Path(record.path)))
                locked.append(Path(record.path))
            except (ConfigError, RunError) as error:
                kept.append(str(error))
        if archive is not None and locked:
            files.make_folder_for(archive)
            files.write(archive, lambda temporary: _pack(locked, temporary))
        if sys.platform == "win32":  # it removes no open file
            locks.close()
        for run in locked:
            _remove(run)
    return kept


SPARE_FILES = 200
"""Files that a process may open besides the locks of runs."""


def _allow_open_files(count: int) -> None:
    """Raise the soft limit of this process to `count` open files, each a lock, as far as the hard limit allows it."""
    if sys.platform == "win32":  # it has no such limit
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def _pack(runs: Sequence[Path], archive: Path) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as packed:
        for path in (path for run in runs for path in sorted(run.rglob("*")) if path.name != directory.LOCK):
            packed.write(path)


def _remove(run: Path) -> None:
    with files.writing(run):
        shutil.rmtree(run)
    for folder in list(run.parents)[:4]:  # setting, algorithm, robot, task
        try:
            folder.rmdir()
        except OSError:  # it holds other runs
            return


class SweepFiles:
    """Names of the files in the folder of a sweep."""

    SWEEP = "sweep.yaml"
    BEST = "best.yaml"
    TABLE = "trials.csv"
    LINEAGE = "lineage.csv"
    SLICES, PARALLEL, FRONT, POPULATION = "slices.svg", "parallel.svg", "front.svg", "population.svg"
    TRAINED_ON, TRAINED_ON_BEST = "trained_on.csv", "trained_on.yaml"
    FIGURES: Mapping[str, str] = {
        FRONT: "Pareto front",
        SLICES: "Score over each value; later trials are darker",
        PARALLEL: "Values and score of each trial",
        POPULATION: "Members of the population",
    }
    TABLES: Mapping[str, str] = {TABLE: "Trials", TRAINED_ON: "Trials that were trained on", LINEAGE: "Lineage"}
    """File → its title in a report."""


def find_sweeps(folder: str | Path) -> list[Path]:
    """Return the folders of sweeps below a folder, and the folder itself if it is one."""
    return sorted(file.parent for file in Path(folder).glob(f"**/{SweepFiles.SWEEP}") if not file.is_symlink())
