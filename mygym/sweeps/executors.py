"""Executors of runs: objects with three methods; the search uses no other.

submit  starts the command of a run
poll    returns the exit code of a run that has ended
stop    requests that a run stops with a checkpoint
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil

TRAIN = (sys.executable, "-m", "mygym", "train")
"""Words that start the program of a run."""

STOPPING = 120.0
"""s within which a run of a killed sweep stops with a checkpoint; after them it is killed, and loses the rest."""


@dataclass(frozen=True)
class Job:
    """A run to execute."""

    words: tuple[str, ...]
    """Arguments of `mygym train`."""
    log: Path
    """File for its output, which is appended."""


class Executor(Protocol):
    """Executes runs, some of them at the same time."""

    workers: int
    """Largest number of runs at the same time."""

    def submit(self, job: Job) -> Any:
        """Start a run; return its handle."""

    def poll(self, handle: Any) -> int | None:
        """Return the exit code of a run; None while it is executing."""

    def stop(self, handle: Any) -> None:
        """Request that a run stops with a checkpoint; it ends some time later."""


class LocalExecutor:
    """Executes each run in a process of this machine, with one thread for its computations.

    Args:
        workers: Largest number of processes; None: the number of cores that this process may use.
        program: Words that start the program of a run.
    """

    def __init__(self, workers: int | None = None, program: Sequence[str] = TRAIN) -> None:
        self.workers = workers or cores()
        self.program = tuple(program)

    def submit(self, job: Job) -> subprocess.Popen[bytes]:
        """Start the process of a run; it does not end with this process, but `stop_left_over` stops it later."""
        with job.log.open("ab") as log:
            return subprocess.Popen(  # noqa: S603  (the program that runs now)
                [*self.program, *job.words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"OMP_NUM_THREADS": "1", **os.environ},
                start_new_session=True,  # Ctrl-C reaches the runs once, through `stop`
            )

    def poll(self, handle: subprocess.Popen[bytes]) -> int | None:
        """Return the exit code of a run; None while it is executing."""
        return handle.poll()

    def stop(self, handle: subprocess.Popen[bytes]) -> None:
        """Send SIGTERM, which a run answers with a checkpoint."""
        handle.terminate()


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def stop_left_over(folder: Path) -> None:
    """Stop the runs below a folder that a killed sweep has left executing; they save checkpoints.

    Args:
        folder: Absolute path that is a part of the commands of the runs.
    """
    processes = [process for process in psutil.process_iter(["cmdline"]) if _works_in(folder, process.info["cmdline"])]
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    for process in psutil.wait_procs(processes, timeout=STOPPING)[1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def _works_in(folder: Path, words: Sequence[str] | None) -> bool:
    """Return whether a command trains below a folder."""
    inside = (word.startswith(f"{folder}{os.sep}") for word in words or ())
    return any(inside) and "train" in (words or ())
