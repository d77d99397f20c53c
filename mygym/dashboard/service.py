"""Service under the API and the pages: index of runs, jobs and helper of a log directory."""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from mygym.config.layers import flatten
from mygym.config.schema import RunConfig
from mygym.dashboard import helper as heavy
from mygym.dashboard.helper import Helper
from mygym.dashboard.jobs import FOLDER, PROGRAM, Jobs
from mygym.dashboard.queue import QUEUED, STARTED, QueuedJob
from mygym.dashboard.run_index import Entry, RunIndex
from mygym.errors import ConfigError, bad_value
from mygym.reporting.records import COLUMNS
from mygym.runs.files import to_yaml

SHORT_FLAGS = ("robot", "task", "workspace", "control", "reward", "algo", "framework", "strategy", "engine", "steps")
"""Keys that are flags of `mygym train` as well, in the order of the command line."""


MAX_LEVELS = 20
"""Maximum number of levels of nested mappings and lists in a config."""


@dataclass
class Service:
    """All that the server needs.

    Args:
        logdir: Absolute path of the log directory.
        slots: Cores that jobs may keep busy; None: all.
        helper: Process for work that needs torch or Bullet.
        program: Words that start the program `mygym`.
    """

    logdir: Path
    slots: int | None = None
    index: RunIndex = field(init=False)
    jobs: Jobs = field(init=False)
    helper: Helper = field(default_factory=Helper)
    program: Sequence[str] = PROGRAM

    def __post_init__(self) -> None:
        self.index, self.jobs = RunIndex(self.logdir), Jobs(self.logdir, self.slots, self.program)

    def close(self) -> None:
        """Release files and the helper; running jobs go on."""
        self.jobs.close()
        self.helper.close()

    async def train(self, config: Mapping[str, Any], priority: int = 0) -> QueuedJob:
        """Check and queue a training.

        Raises:
            ConfigError: A mistake in the config, in the words of the command line.
        """
        check_paths(config, self.logdir)
        await self.helper.call(heavy.check, dict(config))
        return self.jobs.train(config, priority)

    def listing(self, where: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Return all runs, and first the jobs that have no run yet.

        Raises:
            ConfigError: A key of `where` is no column.
        """
        for key in where or {}:
            if key not in COLUMNS:
                raise ConfigError(bad_value("where", key, COLUMNS, "is not a column"))
        rows = [self.waiting(job) for job in self.jobs.queue.in_state(QUEUED, STARTED) if job.run is None]
        rows += [row_of(entry, self.logdir) for entry in self.index.entries().values()]
        return [row for row in rows if all(str(row.get(key)) == str(value) for key, value in (where or {}).items())]

    def waiting(self, job: QueuedJob) -> dict[str, Any]:
        """Return the row of a job that has no run yet."""
        status = QUEUED if job.state == QUEUED else "starting" if job.state == STARTED else job.state
        return {"id": f"job-{job.id}", "status": status, "job": job.id, "title": job.title, "priority": job.priority}

    def entry(self, identifier: str) -> Entry:
        """Return the entry of a run, by its identifier or by `job-NUMBER`.

        Raises:
            ConfigError: The run does not exist, or the job has no run yet.
        """
        number = identifier.removeprefix("job-")
        if number == identifier:
            return self.index.get(identifier)
        job = self.jobs.queue.get(int(number) if number.isdigit() and len(number) < 12 else 0)
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


def check_paths(config: Mapping[str, Any], logdir: Path) -> None:
    """Refuse values that are paths outside the log directory and the current folder, and another log directory.

    Raises:
        ConfigError: Such a value; the message has its key.
    """
    if "logdir" in config and Path(str(config["logdir"])).absolute() != logdir:
        raise ConfigError(bad_value("logdir", config["logdir"], str(logdir), "is not the log directory of the server"))
    waiting: list[tuple[str, Any, int]] = [("", dict(config), 0)]
    while waiting:
        key, value, depth = waiting.pop()
        if depth > MAX_LEVELS:
            raise ConfigError(bad_value(key.split(".")[0], "…", f"at most {MAX_LEVELS} levels", "is nested too deeply"))
        if isinstance(value, Mapping | list):
            items = value.items() if isinstance(value, Mapping) else enumerate(value)
            waiting += [(f"{key}.{name}".lstrip("."), item, depth + 1) for name, item in items]
        elif isinstance(value, str) and ("/" in value or ".." in value) and not _is_inside(value, logdir):
            why = "is outside the log directory and the folder of the server"
            raise ConfigError(bad_value(key, value, "a path in one of them", why))


def _is_inside(text: str, logdir: Path) -> bool:
    try:
        path = Path(text).expanduser().resolve()
    except (OSError, ValueError, RuntimeError):  # NUL, too long, unknown home folder
        return False
    return path.is_relative_to(logdir) or path.is_relative_to(Path.cwd())


def command_line(config: Mapping[str, Any]) -> str:
    """Return the command that trains a config."""
    words = ["mygym", "train"]
    for key in SHORT_FLAGS:
        if isinstance(config.get(key), str | int) and not isinstance(config.get(key), bool):
            words += [f"--{key}", str(config[key])]
    for key, value in flatten(config):
        if key not in SHORT_FLAGS or not isinstance(value, str | int):
            text = yaml.safe_dump(value, default_flow_style=True, width=10_000).strip().removesuffix("\n...").strip()
            words += ["--set", f"{key}={text}"]
    return shlex.join(words)


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
