"""Execution of a run on a machine of a cluster: a process that ends with the task that started it.

Run directories are on storage that all machines share, so that another machine continues a run from its checkpoint.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any

from mygym.sweeps.executors import TRAIN, Job, start

POLL = 0.2
"""s between two looks at the process."""

_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Execution:
    """Function of a task: executes a run, or the rest of it, and returns its exit code.

    Args:
        job: The run.
        folder: Current folder of the process, in which user files are looked up.
        program: Words that start the program of a run; None: mygym of the machine.
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
