"""Executors of runs, on this machine, with Ray or with Slurm.

Run directories of Ray and Slurm are on storage that all machines share, so that another machine continues a run from
its checkpoint.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil

from mygym.engines.arrays import cores
from mygym.errors import ConfigError, InterruptedRunError, RunError, bad_value
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
        """Limit the runs at the same time to those whose bytes of memory fit.

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

    Without a number of `jobs`, as many run at the same time as cores and memory allow.
    """

    def __init__(self, jobs: int | None = None, program: Sequence[str] = TRAIN) -> None:
        self.jobs = jobs or cores()
        self.program = tuple(program)
        self._chosen = jobs is not None

    def limit(self, memory: int) -> None:
        """Limit the processes to those that fit into the free memory of this machine."""
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

    `threads` limits its computations, unless the user has done so; None: they have as many threads as cores.
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
    """Stop the runs that a killed sweep has left executing; they save checkpoints."""
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

    `on_end` gets the index of a run that has ended; the command `again` continues the runs after a signal.

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

    `handles` returns the handles of the runs that are executing; the command `again` continues these runs.

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


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Execution:
    """Function of a task: executes a run, or the rest of it, and returns its exit code.

    The process looks up user files in the folder; `program` is by default mygym of the machine.
    """

    job: Job
    folder: str
    program: tuple[str, ...] | None = None

    def __call__(self) -> int:
        """Execute the run.

        Raises:
            FileNotFoundError: This machine does not have the folder of the run.
        """
        if not self.job.log.parent.is_dir():
            raise FileNotFoundError(f"{socket.gethostname()} has no folder {self.job.log.parent}")
        process = start(
            self.program or TRAIN,
            self.job,
            cwd=self.folder,
            preexec_fn=_prepare if hasattr(signal, "SIGUSR2") else None,
        )
        try:
            while (code := process.poll()) is None:
                time.sleep(POLL)
            return code
        except BaseException as stop:  # the cluster cancels the task, or its time is over
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            code = process.wait()
            if not isinstance(stop, KeyboardInterrupt):
                raise
            return code

    def checkpoint(self) -> Any:
        """Return the task that Slurm queues when the time of a job is over: it continues the run."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def _prepare() -> None:
    """Let the system kill this process when its parent dies: the cluster has lost this machine.

    Slurm sends SIGUSR2 to all processes of a job whose time is nearly over; the parent answers it.
    """
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


RAY_RETRIES = 20
"""Number of lost nodes or processes after which a run has failed."""

PATIENCE = 5.0
"""s in which the address of a cluster must accept a connection."""


class RayExecutor:
    """Executes each run as a task of a Ray cluster at an address, e.g. `auto` or `10.0.0.1:6379`.

    Without a number of `jobs`, as many run at the same time as the nodes have resources for. `resources` are options of
    Ray's tasks, e.g. `num_gpus`; a run has one CPU by default.

    Raises:
        ConfigError: Ray is missing, the address has no cluster, or a resource is unknown.
    """

    def __init__(
        self, address: str = "auto", jobs: int | None = None, resources: Mapping[str, Any] | None = None
    ) -> None:
        try:
            import ray
        except ImportError as error:
            raise ConfigError("--executor ray needs the package 'ray': pip install \"mygym[cluster]\"") from error
        self._ray: Any = ray
        self._chosen = jobs
        self.jobs = jobs or 1
        self._options = {
            "num_cpus": 1,
            "max_retries": RAY_RETRIES,
            "scheduling_strategy": "SPREAD",
            **(resources or {}),
        }
        try:
            self._task: Any = ray.remote(_execute)
            self._task.options(**self._options)
        except (ValueError, TypeError) as error:
            raise ConfigError(bad_value("--resource", dict(resources or {}), "options of Ray's tasks")) from error
        _connect(address)

    def limit(self, memory: int) -> None:
        """Limit the runs at the same time to those that fit into the cluster; refuse a run that fits into no node."""
        cpus = float(self._options["num_cpus"])
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        fitting = sum(int(min(node.get("CPU", 0) // cpus, node.get("memory", 0) // memory)) for node in nodes)
        if fitting < 1:
            largest = max((node.get("memory", 0) for node in nodes), default=0)
            why = f"needs a node with {cpus:g} free CPUs and {memory / 1e9:.1f} GB of memory"
            allowed = f"{len(nodes)} nodes with at most {largest / 1e9:.1f} GB"
            raise ConfigError(bad_value("--executor", "ray", allowed, why))
        self.jobs = self._chosen or fitting

    def submit(self, job: Job) -> Any:
        """Submit the task of a run; return its reference."""
        return self._task.options(**self._options, memory=job.memory).remote(Execution(job, os.getcwd()))  # noqa: PTH109 (a string)

    def poll(self, handle: Any) -> int | None:
        """Return the exit code of a run; None while it waits or is executing.

        Raises:
            RunError: A node has no access to the folder of the sweep, or the connection to the cluster is lost.
        """
        ready, _ = self._ray.wait([handle], timeout=0)
        if not ready:
            return None
        try:
            return int(self._ray.get(handle))
        except self._ray.exceptions.TaskCancelledError:
            return 130
        except self._ray.exceptions.RayTaskError as error:
            raise RunError(f"{error.cause}: run directories must be on storage that all nodes share") from error
        except self._ray.exceptions.RayError:  # the last of its nodes is lost
            return 1

    def stop(self, handle: Any) -> None:
        """Cancel the task of a run, which stops its process with a checkpoint."""
        self._ray.cancel(handle)


def _execute(execution: Execution) -> int:
    return execution()


def _connect(address: str) -> None:
    """Connect to a cluster."""
    import ray

    allowed = "the address of a cluster that `ray start --head` has printed, or auto on one of its machines"
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address != "auto":
        try:
            socket.create_connection((host, int(port)), PATIENCE).close()
        except (OSError, ValueError, OverflowError) as error:
            raise ConfigError(bad_value("--address", address, allowed, "has no cluster")) from error
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(bad_value("--address", address, allowed, "has no cluster")) from error


JOBS = 10
"""Default number of jobs in the queue."""

TIME = 24 * 60
"""Default time of a job, min; a run that takes longer is queued again, and continues from its checkpoint."""

SLURM_RETRIES = 5
"""Number of lost nodes after which a run has failed."""

LOST = ("NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "REVOKED", "TIMEOUT")
"""States of jobs that ended through no fault of the run."""


@dataclass
class Submission:
    """A run in the queue."""

    job: Job
    queued: Any
    """Job of submitit."""
    stopped: bool = False
    repeated: int = 0


class SlurmExecutor:
    """Executes each run as a job of Slurm, with at most `jobs` in the queue; `JOBS` by default.

    `resources` are parameters of submitit, e.g. `slurm_partition`, `timeout_min`, `gpus_per_node`.

    Raises:
        ConfigError: submitit or the commands of Slurm are missing, or a parameter is unknown.
    """

    def __init__(
        self,
        jobs: int | None = None,
        resources: Mapping[str, Any] | None = None,
        program: tuple[str, ...] | None = None,
    ) -> None:
        self.jobs = jobs or JOBS
        self._program = program
        self._parameters = {"timeout_min": TIME, "cpus_per_task": 1, "name": "mygym", **(resources or {})}
        with tempfile.TemporaryDirectory() as folder:
            try:
                self._queue(Path(folder), 1)
            except ImportError as error:
                message = "--executor slurm needs the package 'submitit': pip install \"mygym[cluster]\""
                raise ConfigError(message) from error
            except RuntimeError as error:
                why = "needs the commands of Slurm: sbatch, srun, sacct, scancel"
                raise ConfigError(bad_value("--executor", "slurm", "a machine of a Slurm cluster", why)) from error
            except (NameError, ValueError, TypeError, AssertionError) as error:
                why = f"is refused by submitit: {str(error).splitlines()[0]}"
                raise ConfigError(
                    bad_value("--resource", dict(resources or {}), "parameters of submitit", why)
                ) from error

    def limit(self, memory: int) -> None:
        """Do nothing: Slurm knows the memory of its nodes, and refuses jobs that are too large."""

    def submit(self, job: Job) -> Submission:
        """Queue the job of a run; those that a killed sweep has left in the queue are cancelled."""
        import submitit

        left: Any
        folder = job.log.with_suffix(".slurm")
        for path in folder.glob("*_submitted.pkl"):
            left = submitit.SlurmJob(folder, path.name.partition("_")[0])
            if not left.paths.result_pickle.exists():
                left.cancel(check=False)
        execution = Execution(job, os.getcwd(), self._program)  # noqa: PTH109 (a string)
        return Submission(job, self._queue(folder, job.memory).submit(execution))

    def poll(self, handle: Submission) -> int | None:
        """Return the exit code of a run; None while it is in the queue or executing."""
        if not handle.queued.done():
            return None
        import submitit

        if not handle.queued.paths.result_pickle.exists():
            if handle.stopped:
                return 130
            if handle.queued.state in LOST and handle.repeated < SLURM_RETRIES:
                again = self.submit(handle.job)
                handle.queued, handle.repeated = again.queued, handle.repeated + 1
                return None
        try:
            return int(handle.queued.result())
        except submitit.core.utils.UncompletedJobError:
            return 1

    def stop(self, handle: Submission) -> None:
        """Cancel the job of a run: Slurm sends SIGTERM, which the run answers with a checkpoint."""
        handle.stopped = True
        handle.queued.cancel(check=False)

    def _queue(self, folder: Path, memory: int) -> Any:
        import submitit

        queue = submitit.AutoExecutor(folder=folder, cluster="slurm")
        queue.update_parameters(**{"mem_gb": -(-memory // 1_000_000_000), **self._parameters})
        return queue
