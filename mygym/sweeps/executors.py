"""Executors of runs: objects with a few methods; the search uses no others.

limit   checks that a run fits, before the first of them
submit  starts a run
poll    returns the exit code of a run that has ended
stop    requests that a run stops with a checkpoint
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil

from mygym.engines.arrays import cores
from mygym.errors import ConfigError, InterruptedRunError, bad_value
from mygym.training.stop_request import SEPARATE, StopRequest, request_stop

TRAIN = (sys.executable, "-m", "mygym", "train")
"""Words that start the program of a run."""

OWNER = "MYGYM_SWEEP_LOG"
"""Environment variable by which a sweep recognizes the processes that it has started: the log of the run."""

STOPPING = 120.0
"""s within which a run of a killed sweep stops with a checkpoint; after them it is killed, and loses the rest."""


@dataclass(frozen=True)
class Job:
    """A run to execute."""

    words: Callable[[], tuple[str, ...]]
    """Returns the arguments of `mygym train`, decided when the run starts: a repeated job continues its run."""
    log: Path
    """File for its output, which is appended; an absolute path below the folder of the sweep."""
    memory: int = 0
    """Estimated bytes of memory."""
    busy: Callable[[], bool] = bool
    """Returns whether another process is writing the run, e.g. of a user who continues it by hand."""


class Executor(Protocol):
    """Executes runs, some of them at the same time."""

    jobs: int
    """Largest number of runs at the same time."""

    def limit(self, memory: int) -> None:
        """Limit the runs at the same time to those that fit into the memory.

        Args:
            memory: Bytes that a run needs.

        Raises:
            ConfigError: The user's number of runs, or a single run, needs more memory than is free.
        """

    def submit(self, job: Job) -> Any:
        """Start a run; return its handle."""

    def poll(self, handle: Any) -> int | None:
        """Return the exit code of a run; None while it is executing."""

    def stop(self, handle: Any) -> None:
        """Request that a run stops with a checkpoint; it ends some time later."""


class LocalExecutor:
    """Executes each run in a process of this machine, with one thread for its computations.

    Args:
        jobs: Largest number of processes; None: the number of cores that this process may use, if memory allows.
        program: Words that start the program of a run.
    """

    def __init__(self, jobs: int | None = None, program: Sequence[str] = TRAIN) -> None:
        self.jobs = jobs or cores()
        self.program = tuple(program)
        self._chosen = jobs is not None

    def limit(self, memory: int) -> None:
        """Limit the processes to those that fit into the free memory of this machine.

        Raises:
            ConfigError: The user's number of runs, or a single run, needs more memory than is free.
        """
        free = psutil.virtual_memory().available
        fitting = free // memory
        if fitting < 1 or (self._chosen and fitting < self.jobs):
            needed = memory * (self.jobs if self._chosen else 1)
            why = f"needs {needed / 1e9:,.1f} GB of memory, of which {free / 1e9:.1f} GB are free"
            allowed = f"at most {fitting}" if fitting else f"a machine with {memory / 1e9:,.1f} GB, or a smaller run"
            raise ConfigError(bad_value("--jobs", self.jobs if self._chosen else 1, allowed, why))
        self.jobs = min(self.jobs, fitting)

    def submit(self, job: Job) -> Any:
        """Start the process of a run; it does not end with this process, but `stop_left_over` stops it later."""
        return start(self.program, job, **SEPARATE)  # Ctrl-C reaches the runs once, through `stop`

    def poll(self, handle: Any) -> int | None:
        """Return the exit code of a run; None while it is executing."""
        code: int | None = handle.poll()
        return code

    def stop(self, handle: Any) -> None:
        """Request that a run stops with a checkpoint."""
        request_stop(handle)


def start(program: Sequence[str], job: Job, threads: int | None = 1, **options: Any) -> subprocess.Popen[bytes]:
    """Start the process of a run; its output goes to the log.

    Args:
        program: Words that start the program.
        job: The run.
        threads: Threads for its computations, unless the user has limited them; None: as many as it has cores.
        **options: Further arguments of `Popen`.
    """
    with job.log.open("ab") as log:
        return subprocess.Popen(  # noqa: S603  (the program that runs now)
            [*program, *job.words()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**({"OMP_NUM_THREADS": str(threads)} if threads else {}), **os.environ, OWNER: str(job.log)},
            **options,
        )


def stop_left_over(folder: Path) -> None:
    """Stop the runs that a killed sweep has left executing; they save checkpoints.

    Args:
        folder: Absolute path of the sweep.
    """
    begin = f"{folder}{os.sep}"
    every = psutil.process_iter(["environ", "ppid"])
    started = {each.pid: each for each in every if (each.info["environ"] or {}).get(OWNER, "").startswith(begin)}
    processes = [each for each in started.values() if each.info["ppid"] not in started]  # a run ends its processes
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            request_stop(process)
    for process in psutil.wait_procs(processes, timeout=STOPPING)[1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


POLL = 0.05
"""s between two looks at the runs."""


def execute(executor: Executor, jobs: Sequence[Job], on_end: Callable[[int], None], again: str) -> None:
    """Execute runs in their order, as many at the same time as the executor allows.

    Args:
        executor: Executes the runs.
        jobs: The runs.
        on_end: Called with the index of a run that has ended.
        again: Command that continues after a signal.

    Raises:
        InterruptedRunError: Ctrl-C, SIGTERM or SIGHUP; the runs have stopped with checkpoints.
    """
    running: dict[int, Any] = {}
    waiting = dict(enumerate(jobs))
    with interruptible(executor, running.values, again) as stop:
        while not stop.received and (running or waiting):
            for index, handle in list(running.items()):
                if executor.poll(handle) is not None:
                    del running[index]
                    on_end(index)
            for index, job in list(waiting.items()):
                if len(running) < executor.jobs and not job.busy():
                    running[index] = executor.submit(waiting.pop(index))
            time.sleep(POLL)


@contextlib.contextmanager
def interruptible(executor: Executor, handles: Callable[[], Iterable[Any]], again: str) -> Iterator[StopRequest]:
    """Yield a request that signals set; after the first, stop the runs with checkpoints, and wait for them.

    Args:
        executor: Executes the runs.
        handles: Returns the handles of the runs that are executing.
        again: Command that continues.

    Raises:
        InterruptedRunError: Ctrl-C, SIGTERM or SIGHUP.
        KeyboardInterrupt: A second signal; the runs have been asked to stop.
    """
    with StopRequest("after the checkpoints of the runs") as stop:
        try:
            yield stop
        except KeyboardInterrupt:
            for handle in handles():
                executor.stop(handle)
            raise
        if stop.received:
            left = list(handles())
            for handle in left:
                executor.stop(handle)
            while left := [handle for handle in left if executor.poll(handle) is None]:
                time.sleep(POLL)
            raise InterruptedRunError(f"interrupted; go on with: {again}")
