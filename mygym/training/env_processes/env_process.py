"""Processes of environments as the main process sees them: start, requests and their answers, death, end."""

from __future__ import annotations

import contextlib
import multiprocessing
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from mygym.errors import ConfigError, MygymError, RunError, bad_value
from mygym.registry.user_files import user_modules
from mygym.training.env_processes.process_main import answer_requests
from mygym.training.stop_request import SIGNALS

PATIENCE = 60.0
"""Time limit for a process's answer, s."""

GRACE = 3.0
"""Time that `end_processes` gives the processes to end by themselves, s."""

UNGUARDED = 97
"""Exit code of a process that would start further ones, because it imports a script without a guard."""


class EnvProcess:
    """A process with a share of the environments, and the connection to it.

    Args:
        rows: Indices of its environments.
        makers: Functions that build all environments.
    """

    def __init__(self, rows: slice, makers: Sequence[Callable[[], Any]]) -> None:
        self.rows, self.makers = rows, list(makers[rows])
        first, last, count = rows.start + 1, rows.stop, len(makers)
        self.names = [f"environment {number} of {count}" for number in range(first, last + 1)]
        self.name = self.names[0] if first == last else f"environments {first} to {last} of {count}"
        self.deaths = 0
        """Deaths since the last step."""
        self.requests = 0
        self.request: tuple[str, Any] = ("", None)
        """The last request."""
        self.handle: Any = None
        """The process; None before `start` and after `stop`."""

    def start(self) -> None:
        """Start the process, which builds the environments."""
        context = multiprocessing.get_context("spawn")
        self.pipe, other_end = context.Pipe()
        self.readable = _readable(self.pipe)
        arguments = (other_end, self.names, user_modules.excluded)
        process = context.Process(target=answer_requests, args=arguments, daemon=True)
        process.start()
        self.handle = process
        other_end.close()
        self.send("make", self.makers)

    def send(self, command: str, data: Any) -> None:
        """Send a request with its number: after Ctrl-C, the answer to an earlier request may still be in the pipe."""
        self.requests += 1
        self.request = (command, data)
        with contextlib.suppress(ConnectionError):  # a dead process: `recv` reports it
            self.pipe.send((self.requests, command, data))

    def recv(self, patience: float | None = None) -> Any:
        """Return the answer to the last request.

        Raises:
            EOFError: The process is dead.
            MygymError: An environment has raised it, or the process does not answer.
        """
        patience = PATIENCE if patience is None else patience
        answered = None
        while answered != self.requests:
            # ten short waits, because a suspension of the whole run (Ctrl-Z) uses up a single wait
            try:
                if not any(self.readable(patience / 10) for _ in range(10)):
                    raise RunError(f"the process of {self.name} has not answered for {patience:g} s")
                answered, is_error, answer = self.pipe.recv()
            except OSError as error:
                raise EOFError from error
        if is_error:
            raise answer
        return answer

    def death(self) -> MygymError:
        """Return the error of a dead process."""
        return death_of(self.handle, f"the process of {self.name}", "env_processes", True, "0")

    def stop(self) -> None:
        """Kill the process and close the pipe."""
        self.pipe.close()
        self.handle.kill()
        self.handle.join(GRACE)
        with contextlib.suppress(ValueError):  # the process hangs in the kernel and survives the kill
            self.handle.close()
        self.handle = None


def _readable(pipe: Connection) -> Callable[[float], Any]:
    """Return a function that waits until a pipe has a message or its end, for a time in s."""
    if not hasattr(select, "poll"):  # on Windows
        return pipe.poll
    poll = select.poll()  # Connection.poll creates a new selector at every call, which takes longer
    poll.register(pipe, select.POLLIN)
    return lambda seconds: poll.poll(1000 * seconds)


def death_of(process: Any, name: str, key: str, value: Any, alone: str) -> MygymError:
    """Return the error of a dead process.

    Args:
        process: The process.
        name: Its name in the message.
        key: Config key that has started it.
        value: Value of the key.
        alone: Value of the key that starts no process.
    """
    process.join(1.0)
    code = process.exitcode
    if code == UNGUARDED:
        script = getattr(sys.modules["__main__"], "__file__", "the main script")
        why = f"has each new process import {script}, which would start processes again"
        allowed = f'{alone}, or a script whose calls stand under `if __name__ == "__main__":`'
        return ConfigError(bad_value(key, value, allowed, why))
    how = f"exit code {code}" if code is None or code >= 0 else f"signal {-code}"
    return RunError(f"{name} died ({how})")


def end_processes(processes: list[EnvProcess]) -> None:
    """Close the pipes, which ends the processes; kill those that still run after `GRACE`. Empties `processes`."""
    processes[:] = [process for process in processes if process.handle is not None]
    for process in processes:
        process.pipe.close()
    try:
        deadline = time.monotonic() + GRACE
        for process in processes:
            process.handle.join(max(0.0, deadline - time.monotonic()))
    finally:
        for process in processes:
            process.stop()
        processes.clear()


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Block signals in processes that start within the block; their code ignores the signals after the imports."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    resource_tracker.ensure_running()  # else it starts with the first process and unblocks the signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
