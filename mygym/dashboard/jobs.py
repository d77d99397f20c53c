"""Jobs: processes that train and evaluate. They outlive the server, which finds them again by process and lock."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from mygym.config import RunConfig
from mygym.engines.arrays import cores
from mygym.engines.engine import engines_with_batches
from mygym.errors import ConfigError, bad_value
from mygym.reporting.records import is_locked, tail
from mygym.sweeps.executors import Job, LocalExecutor
from mygym.training import directory, files
from mygym.training.stop_request import request_stop

QUEUED, STARTED, ENDED, CANCELLED = "queued", "started", "ended", "cancelled"

TABLE = """
CREATE TABLE IF NOT EXISTS jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, command TEXT NOT NULL, words TEXT NOT NULL, title TEXT NOT NULL,
    priority INTEGER NOT NULL, cores INTEGER NOT NULL, state TEXT NOT NULL, created REAL NOT NULL,
    pid INTEGER, pid_started REAL, run TEXT, code INTEGER
)
"""


@dataclass(frozen=True)
class QueuedJob:
    """A row of the queue."""

    id: int
    command: str
    """`train` or `evaluate`."""
    words: tuple[str, ...]
    """Arguments of the command."""
    title: str
    priority: int
    """The highest begins first."""
    cores: int
    """Cores that it keeps busy."""
    state: str
    created: float
    """s since the epoch."""
    pid: int | None
    pid_started: float | None
    """s since the epoch, which with `pid` identifies the process after a restart of the server."""
    run: str | None
    """Run directory, if known."""
    code: int | None
    """Exit code; None if the server was not running when the process ended."""


class Queue:
    """Jobs in a SQLite file."""

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute(TABLE)

    def add(
        self, command: str, words: Sequence[str], title: str, priority: int = 0, cores: int = 1, run: str | None = None
    ) -> QueuedJob:
        """Add a job and return it."""
        values = (command, json.dumps(list(words)), title, priority, cores, QUEUED, time.time(), run)
        columns = "command, words, title, priority, cores, state, created, run"
        with self._lock:
            marks = ", ".join("?" * len(values))
            row = self._database.execute(f"INSERT INTO jobs ({columns}) VALUES ({marks})", values)  # noqa: S608
        return self.get(row.lastrowid or 0)

    def get(self, number: int) -> QueuedJob:
        """Return a job; refuse a number that is not in the queue."""
        rows = self._select("WHERE id = ?", (number,))
        if not rows:
            raise ConfigError(bad_value("job", number, "a job of GET /api/jobs", "is not in the queue"))
        return rows[0]

    def in_state(self, *states: str) -> list[QueuedJob]:
        """Return the jobs in some states, in the order in which they begin."""
        marks = ", ".join("?" * len(states))
        return self._select(f"WHERE state IN ({marks}) ORDER BY priority DESC, id", states)

    def newest(self, count: int = 200) -> list[QueuedJob]:
        """Return the newest jobs, the newest first."""
        return self._select("ORDER BY id DESC LIMIT ?", (count,))

    def change(self, number: int, **values: Any) -> None:
        """Set columns of a job."""
        columns = ", ".join(f"{name} = ?" for name in values)
        with self._lock:
            self._database.execute(f"UPDATE jobs SET {columns} WHERE id = ?", (*values.values(), number))  # noqa: S608

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _select(self, clause: str, values: Sequence[Any]) -> list[QueuedJob]:
        columns = ", ".join(QueuedJob.__annotations__)
        with self._lock:
            rows = self._database.execute(f"SELECT {columns} FROM jobs {clause}", tuple(values)).fetchall()  # noqa: S608
        return [QueuedJob(row[0], row[1], tuple(json.loads(row[2])), *row[3:]) for row in rows]


FOLDER = ".dashboard"
"""Folder in the log directory: the queue, the token, and logs of jobs; `mygym runs` does not look into it."""

PROGRAM = (sys.executable, "-m", "mygym")

MEMORY = 1_000_000_000
"""Bytes of free memory that a job needs to begin beside others."""

PERIOD = 1.0
"""s between two looks at the queue."""


class Jobs:
    """Starts queued jobs while memory allows and at most `slots` cores are busy, and follows their processes.

    The log directory has an absolute path, and is created if it is missing.
    """

    def __init__(self, logdir: Path, slots: int | None = None, program: Sequence[str] = PROGRAM) -> None:
        self.logdir, self.slots = logdir, slots or cores()
        self.folder = logdir / FOLDER
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.queue = Queue(self.folder / "queue.sqlite")
        self._executor = LocalExecutor(program=program)
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="jobs", daemon=True)

    def start(self) -> None:
        """Find the processes of an earlier server, and begin to start jobs, in a thread."""
        self.tick()
        self._thread.start()

    def close(self) -> None:
        """Stop to start jobs; running processes go on."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        for child in self._children.values():
            child.returncode = child.poll() or 0  # it goes on, and Python is not to warn of it
        self.queue.close()

    def train(self, config: Mapping[str, Any], complete: RunConfig, priority: int = 0) -> QueuedJob:
        """Queue a training; `complete` has all values that the run takes."""
        number = 1 + max((int(path.stem) for path in self.folder.glob("*.yaml")), default=0)
        file = self.folder / f"{number:06}.yaml"
        files.write_yaml(file, {**config, "logdir": str(self.logdir)})
        title = f"{complete.algo} · {complete.task}"
        return self.queue.add("train", ["--config", str(file)], title, priority, cores_of(complete))

    def resume(self, run: Path, steps: int | None = None, priority: int = 0) -> QueuedJob:
        """Queue the rest of a stopped run, or a longer run of a complete one; refuse a run that is running or waits."""
        waits = any(job.run == str(run) and job.command == "train" for job in self.queue.in_state(QUEUED, STARTED))
        if waits or is_locked(run):
            raise ConfigError(bad_value("resume", run.name, "a run that has stopped", "is running or waits already"))
        words = ["--resume", str(run), *(["--steps", str(steps)] if steps else [])]
        return self.queue.add("train", words, f"resume {run.parent.parent.name} {run.name}", priority, run=str(run))

    def evaluate(self, run: Path, episodes: int, priority: int = 0) -> QueuedJob:
        """Queue fresh episodes of a run's policy; the job's log is the evaluation as JSON."""
        words = [str(run), "--episodes", str(episodes), "--json"]
        return self.queue.add("evaluate", words, f"evaluate {run.name}", priority, run=str(run))

    def stop(self, job: QueuedJob) -> None:
        """Take a job from the queue, or ask its process to stop with a checkpoint; refuse a job that has ended."""
        with self._lock:
            job = self.queue.get(job.id)
            if job.state == QUEUED:
                self.queue.change(job.id, state=CANCELLED)
            elif job.state != STARTED:
                raise ConfigError(bad_value("stop", f"job-{job.id}", "a job that waits or runs", "has ended"))
            elif process := _process(job):
                request_stop(process)

    def stop_run(self, run: Path) -> None:
        """Ask the process that writes a run, also one of a terminal, to stop with a checkpoint; refuse an idle run."""
        process = holder(run)
        if process is None:
            raise ConfigError(bad_value("stop", run.name, "a run that is running", "is not running"))
        with contextlib.suppress(psutil.NoSuchProcess):
            request_stop(process)

    def log(self, job: QueuedJob) -> str:
        """Return the end of the output of a job."""
        return tail(self._log(job))

    def result(self, job: QueuedJob) -> dict[str, Any] | None:
        """Return the result of an evaluation that has ended; None for other jobs, and without a result."""
        if job.command != "evaluate" or job.state != ENDED:
            return None
        with contextlib.suppress(OSError, ValueError):  # before the JSON there may be notes
            result: dict[str, Any] = json.loads("{" + self._log(job).read_text(encoding="utf-8").partition("{")[2])
            return result
        return None

    def as_json(self, job: QueuedJob) -> dict[str, Any]:
        """Return a job for the API, with the result of an evaluation that has ended."""
        names = ("id", "command", "title", "priority", "cores", "state", "code", "created")
        content = {name: getattr(job, name) for name in names}
        return {**content, "result": self.result(job), "log": self.log(job)[-4000:]}

    def job_of(self, run: Path) -> QueuedJob | None:
        """Return the newest training of a run in the queue."""
        return next((job for job in self.queue.newest() if job.run == str(run) and job.command == "train"), None)

    def tick(self) -> None:
        """Follow the processes, then start the jobs that fit."""
        with self._lock:
            started = self.queue.in_state(STARTED)
            busy = sum(job.cores for job in started if not self._follow(job))
            for job in self.queue.in_state(QUEUED):
                alone = busy == 0
                if not alone and (busy + job.cores > self.slots or psutil.virtual_memory().available < MEMORY):
                    break  # the first in the order waits: a later, smaller job would overtake it for ever
                self._begin(job)
                busy += job.cores

    def _work(self) -> None:
        while not self._stopping.wait(PERIOD):
            with contextlib.suppress(OSError, sqlite3.Error):  # the disk is full: the next look may succeed
                self.tick()

    def _begin(self, job: QueuedJob) -> None:
        child = self._executor.submit(Job(lambda: (job.command, *job.words), self._log(job)))
        self._children[job.id] = child
        with contextlib.suppress(psutil.NoSuchProcess):
            started = psutil.Process(child.pid).create_time()
            self.queue.change(job.id, state=STARTED, pid=child.pid, pid_started=started)

    def _follow(self, job: QueuedJob) -> bool:
        """Return whether the process of a job has ended; note the run directory that it holds."""
        child = self._children.get(job.id)
        if (child is None or child.poll() is None) and (process := _process(job)):
            if job.run is None and (held := _held_run(process, self.logdir)):
                self.queue.change(job.id, run=str(held))
            return False
        self._children.pop(job.id, None)
        code = child.wait() if child else None  # it may have ended since `poll`
        run = job.run or _printed_run(self._log(job))
        self.queue.change(job.id, state=ENDED, code=code, run=run)
        return True

    def _log(self, job: QueuedJob) -> Path:
        return self.folder / f"job_{job.id}.log"


def cores_of(config: RunConfig) -> int:
    """Return the cores that a training keeps busy: threads, learners, or processes of environments.

    With `overlap`, threads and processes are busy at the same time.
    """
    processes = config.env_processes
    if processes == "auto":
        processes = config.learners == 1 and config.engine not in engines_with_batches()
    numbers = (config.n_envs if processes is True else int(processes), config.threads * config.learners)
    return min(cores(), sum(numbers) if config.overlap else max(numbers))


def holder(run: Path) -> psutil.Process | None:
    """Return the process that holds the lock of a run; None without one."""
    if not is_locked(run):
        return None
    lock = str(run.absolute() / directory.LOCK)
    holders = {process.pid: process for process in psutil.process_iter() if lock in _open_files(process)}
    return next((process for process in holders.values() if process.ppid() not in holders), None)


def _process(job: QueuedJob) -> psutil.Process | None:
    """Return the process of a job, unless it has ended or its number belongs to another process."""
    try:
        process = psutil.Process(job.pid)
        same = abs(process.create_time() - (job.pid_started or 0)) < 1 and process.status() != psutil.STATUS_ZOMBIE
        return process if job.pid and same else None
    except psutil.NoSuchProcess:
        return None


def _held_run(process: psutil.Process, logdir: Path) -> Path | None:
    """Return the run directory whose lock a process holds."""
    paths = [Path(name) for name in _open_files(process)]
    locks = [path for path in paths if path.name == directory.LOCK and path.is_relative_to(logdir)]
    return locks[0].parent if locks else None


def _open_files(process: psutil.Process) -> list[str]:
    try:
        return [file.path for file in process.open_files()]
    except (psutil.Error, OSError):
        return []


def _printed_run(log: Path) -> str | None:
    """Return the path in the line `run: PATH` that a training prints last."""
    lines = [line for line in tail(log).splitlines() if line.startswith("run: ")]
    return str(Path(lines[-1].removeprefix("run: ")).absolute()) if lines else None
