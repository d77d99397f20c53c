"""Service under the API and the pages: runs of a log directory, by identifiers; jobs and helper."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shlex
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from mygym.config import Resolved
from mygym.config.layers import flatten
from mygym.config.schema import RunConfig
from mygym.dashboard import helper as heavy
from mygym.dashboard.helper import Helper
from mygym.dashboard.jobs import FOLDER, PROGRAM, QUEUED, STARTED, Jobs, QueuedJob
from mygym.errors import ConfigError, MygymError, bad_value
from mygym.reporting.curves import parsed, read_curve
from mygym.reporting.records import COLUMNS, STATUSES, RunRecord, is_locked, read_run, run_directories, select, where_of
from mygym.robotics.files import stamp
from mygym.training import directory
from mygym.training.files import to_yaml
from mygym.training.result import Result

STARTING = "starting"
"""Status of a job whose run has no directory yet."""

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

    @property
    def path(self) -> Path:
        """The run directory."""
        return Path(self.record.path)


def run_id(logdir: Path, run: Path) -> str:
    """Return the identifier of a run: it follows from its path in the log directory, and holds no path."""
    return hashlib.sha256(str(run.relative_to(logdir)).encode()).hexdigest()[:12]


class RunIndex:
    """Runs of a log directory; unchanged files are not read again."""

    def __init__(self, logdir: Path) -> None:
        self.logdir = logdir
        self._known: dict[str, tuple[tuple[Any, ...], Entry]] = {}
        self._entries: dict[str, Entry] = {}
        self._read_at = -FRESH
        self._lock = threading.Lock()
        self._logs: dict[Path, tuple[int, bytes, list[dict[str, Any]]]] = {}

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
        """Return the entry of a run; refuse an unknown identifier."""
        entry = self.entries().get(identifier) or self.entries(fresh=True).get(identifier)
        if entry is None:
            raise ConfigError(bad_value("run", identifier, "an id of GET /api/runs", "is no run in the log directory"))
        return entry

    def progress(self, run: Path) -> list[dict[str, Any]]:
        """Return the lines of progress.jsonl so far; all browsers share the lines that were read."""
        path = run / directory.PROGRESS
        with self._lock:
            offset, last, lines = self._logs.get(path, (0, b"", []))
            try:
                with path.open("rb") as file:
                    file.seek(offset - len(last))
                    if file.read(len(last)) != last:  # a resumed run has cut its log, and may have written more since
                        offset, lines = file.seek(0), []
                    content = file.read()
            except OSError:
                return lines
            complete = content[: content.rfind(b"\n") + 1]
            last = complete[-200:] or last
            lines = lines + parsed(complete.decode(errors="replace").splitlines())
            if len(self._logs) > 32:  # of runs without viewers
                self._logs.pop(next(iter(self._logs)))
            self._logs[path] = offset + len(complete), last, lines
            return lines

    def _entry(self, run: Path, now: float) -> Entry:
        files = (directory.PROGRESS, directory.CONFIG, directory.RESULT)
        stamps = tuple(stamp(run / name) for name in files)
        stored = self._known.get(str(run))
        if stored and stored[0] == stamps and stored[1].record.status in ("done", "diverged"):
            record = stored[1].record
            return replace(stored[1], record=replace(record, age_s=now - stored[0][-1][0] / 1e9))
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


def files_of(run: Path) -> dict[str, Path]:
    """Return name → path of the files of a run that are served; links are left out."""
    videos = [path for path in sorted((run / directory.VIDEOS).rglob("*")) if path.suffix in VIDEO_SUFFIXES]
    return {
        str(path.relative_to(run)): path
        for path in (*(run / name for name in FILES), *videos)
        if path.is_file() and not path.is_symlink() and path.resolve().is_relative_to(run.resolve())
    }


def videos_of(run: Path) -> list[str]:
    """Return the names of the videos of a run."""
    return [name for name in files_of(run) if name.endswith(VIDEO_SUFFIXES)]


def _steps(run: Path) -> int | None:
    try:
        steps = directory.saved_config(run).get("steps")
    except ConfigError:
        return None
    return steps if isinstance(steps, int) else None


SHORT_FLAGS = ("robot", "task", "workspace", "control", "reward", "algo", "framework", "strategy", "engine", "steps")
"""Keys that are flags of `mygym train` as well, in the order of the command line."""


MAX_LEVELS = 20
"""Maximum number of levels of nested mappings and lists in a config."""


class Service:
    """All that the server needs; `slots` are the cores that jobs may keep busy, all by default."""

    def __init__(self, logdir: Path, slots: int | None = None, program: Sequence[str] = PROGRAM) -> None:
        self.logdir, self.index, self.jobs = logdir, RunIndex(logdir), Jobs(logdir, slots, program)
        self.helper = Helper()
        """Process for work that needs torch or Bullet."""

    def close(self) -> None:
        """Release files and the helper; running jobs go on."""
        self.jobs.close()
        self.helper.close()

    async def examine(self, config: Mapping[str, Any]) -> Resolved:
        """Return the values that a run of a config takes, with their origins; see `mygym.dashboard.helper.examine`.

        Raises:
            ConfigError: The config has mistakes, whose messages are its `parts`, in the words of the command line;
                environment and model cannot be built; or a strategy requires others.
        """
        refused = refused_paths(config, self.logdir)
        resolved, mistakes = await self.helper.call(heavy.examine, dict(config), refused)
        if resolved is None:
            error = ConfigError("\n".join(mistakes))
            error.parts = mistakes
            raise error
        return resolved

    async def train(self, config: Mapping[str, Any], priority: int = 0) -> QueuedJob:
        """Check and queue a training; refuse a config with mistakes, in the words of the command line."""
        resolved = await self.examine(config)
        return self.jobs.train(config, resolved.config, priority)

    async def resume(self, run: Path, steps: int | None = None, priority: int = 0) -> QueuedJob:
        """Check and queue the rest of a run.

        Raises:
            ConfigError: The run cannot be resumed, in the words of the command line.
        """
        if not is_locked(run):  # `Jobs.resume` refuses the others
            await self.helper.call(heavy.check_resume, run, steps)
        return self.jobs.resume(run, steps, priority)

    async def evaluate(self, run: Path, episodes: int, priority: int = 0) -> QueuedJob:
        """Queue fresh episodes of a run; refuse one whose policy cannot be loaded, in the words of the command line."""
        await self.helper.call(heavy.check_policy, run)
        return self.jobs.evaluate(run, episodes, priority)

    def listing(self, where: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """Return all runs, and first the jobs that have no run yet; `where` has texts, as of `mygym runs --where`.

        Raises:
            ConfigError: A status is unknown, or no run has a key.
        """
        values = where_of((where or {}).items())
        columns = {key: value for key, value in values.items() if key in COLUMNS}
        status = columns.get("status", QUEUED)
        if status not in (allowed := (*STATUSES, QUEUED, STARTING)):
            raise ConfigError(bad_value("status", status, allowed, "is no status of a run"))
        entries, of_config = self.index.entries().values(), {key: values[key] for key in values.keys() - columns}
        records = select([entry.record for entry in entries], of_config)
        kept = {record.path for record in records}
        waiting = [] if of_config else self.jobs.queue.in_state(QUEUED, STARTED)
        rows = [self.waiting(job) for job in waiting if job.run is None]
        rows += [row_of(entry, self.logdir) for entry in entries if entry.record.path in kept]
        return [row for row in rows if all(row.get(key) == value for key, value in columns.items())]

    def waiting(self, job: QueuedJob) -> dict[str, Any]:
        """Return the row of a job that has no run yet."""
        status = QUEUED if job.state == QUEUED else STARTING if job.state == STARTED else job.state
        return {"id": f"job-{job.id}", "status": status, "job": job.id, "title": job.title, "priority": job.priority}

    def job(self, identifier: str) -> QueuedJob | None:
        """Return the job `job-NUMBER`, which must exist; None for an identifier of another form."""
        number = re.fullmatch("job-([0-9]{1,11})", identifier)
        return self.jobs.queue.get(int(number[1])) if number else None

    def entry(self, identifier: str) -> Entry:
        """Return the entry of a run, by its identifier or by `job-NUMBER`.

        Raises:
            ConfigError: The run does not exist, or the job has no run yet.
        """
        job = self.job(identifier)
        if job is None:
            return self.index.get(identifier)
        if job.run is None:
            raise ConfigError(bad_value("run", identifier, "a job that has started", f"is {job.state}, without a run"))
        for entry in self.index.entries(fresh=True).values():
            if entry.record.path == job.run:
                return entry
        raise ConfigError(bad_value("run", identifier, "a run that exists", "was removed"))


def row_of(entry: Entry, logdir: Path) -> dict[str, Any]:
    """Return a run for the API; its path is relative to the log directory."""
    record = asdict(entry.record)
    record |= {key: os.path.relpath(record[key], logdir) for key in ("path", "setting")}
    return {"id": entry.id, **record, "curve": list(entry.spark), "target_steps": entry.target_steps}


def messages_of(error: MygymError) -> Sequence[str]:
    """Return the messages of an error, one for each mistake."""
    return getattr(error, "parts", ()) or (str(error),)


def refused_paths(config: Mapping[str, Any], logdir: Path) -> dict[tuple[Any, ...], str]:
    """Return keys → message of values that are paths outside the log directory and the current folder, and of logdir.

    Raises:
        ConfigError: The config is nested too deeply.
    """
    refused: dict[tuple[Any, ...], str] = {}
    if "logdir" in config and Path(str(config["logdir"])).absolute() != logdir:
        why = "is not the log directory of the server"
        refused["logdir",] = bad_value("logdir", config["logdir"], str(logdir), why)
    waiting: list[tuple[tuple[Any, ...], Any]] = [((), config)]
    for path, value in waiting:
        if len(path) > MAX_LEVELS:
            raise ConfigError(bad_value(path[0], "…", f"at most {MAX_LEVELS} levels", "is nested too deeply"))
        if isinstance(value, Mapping | list):
            items = value.items() if isinstance(value, Mapping) else enumerate(value)
            waiting += [((*path, name), item) for name, item in items]
        elif isinstance(value, str) and ("/" in value or ".." in value) and not _is_inside(value, logdir):
            why = "is outside the log directory and the folder of the server"
            message = bad_value(".".join(map(str, path)), value, "a path in one of them", why)
            refused.setdefault(path, message)
    return refused


def _is_inside(text: str, logdir: Path) -> bool:
    try:
        path = Path(text).expanduser().resolve()
    except (OSError, ValueError, RuntimeError):  # NUL, too long, unknown home folder
        return False
    return path.is_relative_to(logdir) or path.is_relative_to(Path.cwd())


def command_line(config: Mapping[str, Any], logdir: Path) -> str:
    """Return the command that trains a config in a log directory, from the folder of the server."""
    words = ["mygym", "train"]
    for key in SHORT_FLAGS:
        if isinstance(config.get(key), str | int) and not isinstance(config.get(key), bool):
            words += [f"--{key}", str(config[key])]
    for key, value in flatten(config):
        if key != "logdir" and (key not in SHORT_FLAGS or not isinstance(value, str | int)):
            text = yaml.safe_dump(value, default_flow_style=True, width=10_000).strip().removesuffix("\n...").strip()
            words += ["--set", f"{key}={text}"]
    if logdir != Path(RunConfig().logdir).absolute():
        words += ["--logdir", displayed(logdir)]
    return shlex.join(words)


def displayed(path: Path) -> str:
    """Return a path, relative to the folder of the server if it is inside."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def yaml_of(config: Mapping[str, Any]) -> str:
    """Return a config as YAML, in the order of the schema."""
    return to_yaml({key: config[key] for key in RunConfig.model_fields if key in config}) if config else "{}\n"


def stored_token(logdir: Path) -> str:
    """Return the token of a log directory, created at its first use: browsers stay signed in over a restart."""
    file = logdir / FOLDER / "token"
    if file.is_file() and (token := file.read_text(encoding="utf-8").strip()):
        return token
    token = secrets.token_urlsafe(32)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        stream.write(token)
    return token
