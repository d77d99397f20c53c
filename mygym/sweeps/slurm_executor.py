"""Executor on a Slurm cluster: each run is a job, which is queued again when its time is over or its node is lost."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mygym.errors import ConfigError, bad_value
from mygym.sweeps.executors import Job
from mygym.sweeps.remote import Execution

WORKERS = 10
"""Default number of jobs in the queue."""

TIME = 24 * 60
"""Default time of a job, min; a run that takes longer is queued again, and continues from its checkpoint."""

RETRIES = 5
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
    """Executes each run as a job of Slurm.

    Args:
        workers: Largest number of jobs in the queue; None: `WORKERS`.
        resources: Parameters of submitit, e.g. `slurm_partition`, `timeout_min`, `gpus_per_node`.
        program: Words that start the program of a run.

    Raises:
        ConfigError: submitit or the commands of Slurm are missing, or a parameter is unknown.
    """

    def __init__(
        self,
        workers: int | None = None,
        resources: Mapping[str, Any] | None = None,
        program: tuple[str, ...] | None = None,
    ) -> None:
        self.workers = workers or WORKERS
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
            if handle.queued.state in LOST and handle.repeated < RETRIES:
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
