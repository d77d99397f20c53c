"""Execution of a list of runs, and the stop of runs that are executing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mygym.errors import InterruptedRunError
from mygym.runs.stop_request import StopRequest
from mygym.sweeps.executors import Executor, Job

POLL = 0.05
"""s between two looks at the runs."""


def execute(executor: Executor, jobs: Sequence[Job], on_end: Callable[[int], None], again: str) -> None:
    """Execute runs in their order, as many at the same time as the executor has workers.

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
    with StopRequest("after the checkpoints of the runs") as stop:
        while not stop.received:
            for index, handle in list(running.items()):
                if executor.poll(handle) is not None:
                    del running[index]
                    on_end(index)
            for index, job in list(waiting.items()):
                if len(running) < executor.workers and not job.busy():
                    running[index] = executor.submit(waiting.pop(index))
            if not running and not waiting:
                return
            time.sleep(POLL)
        stop_all(executor, running.values())
    raise InterruptedRunError(f"interrupted; go on with: {again}")


def stop_all(executor: Executor, handles: Iterable[Any]) -> None:
    """Stop runs, and wait until they have saved their checkpoints."""
    left = list(handles)
    for handle in left:
        executor.stop(handle)
    while left := [handle for handle in left if executor.poll(handle) is None]:
        time.sleep(POLL)
