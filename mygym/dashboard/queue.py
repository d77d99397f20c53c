"""Queue of jobs in SQLite: it holds the order of work alone; run directories stay the truth about runs."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mygym.errors import ConfigError, bad_value

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
    """Jobs in a SQLite file.

    Args:
        file: The file, created if it is missing.
    """

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
        """Return a job.

        Raises:
            ConfigError: The job does not exist.
        """
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
