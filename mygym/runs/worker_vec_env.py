"""Vector environment in worker processes that reports the errors of its workers and never leaves a process behind.

SB3's `SubprocVecEnv` with a custom worker loop and custom connections in the main process. Workers do not import SB3
and torch, which would take most of their start-up time and memory.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker, util
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import gymnasium

from mygym.errors import ConfigError, MygymError, RunError, bad_value
from mygym.registry.user_files import user_modules
from mygym.runs.stop_request import SIGNALS

PATIENCE = 60.0
"""Time limit for a worker's answer, s."""

PATIENCE_AT_START = 600.0
"""Time limit for a worker's first answer, s; on few cores, many workers need a while to import and build."""

UNGUARDED = 97
"""Exit code of a worker that would start workers itself, because it imports a script without a guard."""

GRACE = 3.0
"""Time that `close` gives the workers to end by themselves, s."""


def worker_vec_env(makers: Sequence[Callable[[], Any]]) -> Any:
    """Return an SB3 `VecEnv` with one process per environment.

    `close` never hangs. The other methods raise a `MygymError` of an environment unchanged, and `RunError` for any
    other error (with the worker's traceback as a note), for a dead worker and for a worker that does not answer.

    Args:
        makers: Functions that build the environments in the workers; they must be picklable.

    Raises:
        ConfigError: The main script starts the workers without `if __name__ == "__main__":`.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # a worker that imports the main script
        sys.exit(UNGUARDED)
    from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnv

    class WorkerVecEnv(SubprocVecEnv):
        def __init__(self, workers: list[_Worker]) -> None:
            self.waiting = self.closed = False
            self.remotes = tuple(workers)
            self.processes = [worker.process for worker in workers]
            # runs also at garbage collection, and at exit before multiprocessing waits for workers that ignore SIGTERM
            self._end = util.Finalize(self, _end, (workers,), exitpriority=0)
            spaces = [worker.recv(PATIENCE_AT_START) for worker in workers]
            VecEnv.__init__(self, len(workers), *spaces[0])

        def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
            remotes = self._get_target_remotes(indices)
            for remote in remotes:
                remote.send(("is_wrapped", _name(wrapper_class)))  # unpickling the class would import SB3 in the worker
            return [remote.recv() for remote in remotes]

        def close(self) -> None:
            self.closed = True
            self._end()

    workers: list[_Worker] = []
    try:
        with _signals_blocked():
            for number, make in enumerate(makers, 1):
                workers.append(_Worker(f"environment {number} of {len(makers)}"))
                workers[-1].send(("make", make))
        return WorkerVecEnv(workers)
    except BaseException:
        _end(workers)
        raise


class _Worker:
    """A worker process and its connection, with the methods that SB3 calls on a connection."""

    def __init__(self, name: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.name = name
        self.requests = 0
        self.pipe, worker_end = context.Pipe()
        self.readable = select.poll()  # Connection.poll creates a new selector at every call, which takes longer
        self.readable.register(self.pipe, select.POLLIN)
        self.process = context.Process(target=_work, args=(worker_end, name, user_modules.excluded), daemon=True)
        self.process.start()
        worker_end.close()

    def send(self, request: tuple[str, Any]) -> None:
        """Send a request with its number: after Ctrl-C, the answer to an earlier request may still be in the pipe."""
        self.requests += 1
        try:
            self.pipe.send((self.requests, *request))
        except ConnectionError as error:
            raise self._death() from error

    def recv(self, patience: float | None = None) -> Any:
        """Return the answer to the last request."""
        patience = PATIENCE if patience is None else patience
        answered = None
        while answered != self.requests:
            # ten short waits, because a suspension of the whole run (Ctrl-Z) uses up a single wait
            if not any(self.readable.poll(100 * patience) for _ in range(10)):
                raise RunError(f"the process of {self.name} has not answered for {patience:g} s")
            try:
                answered, is_error, answer = self.pipe.recv()
            except (EOFError, OSError) as error:
                raise self._death() from error
        if is_error:
            raise answer
        return answer

    def _death(self) -> MygymError:
        self.process.join(1.0)
        code = self.process.exitcode
        if code == UNGUARDED:
            script = getattr(sys.modules["__main__"], "__file__", "the main script")
            why = f"has each worker process import {script}, which would start workers again"
            allowed = 'false, or a script whose calls stand under `if __name__ == "__main__":`'
            return ConfigError(bad_value("subprocesses", True, allowed, why))
        how = f"exit code {code}" if code is None or code >= 0 else f"signal {-code}"
        return RunError(f"the process of {self.name} died ({how})")


def _end(workers: list[_Worker]) -> None:
    """Close the pipes, which ends the workers; kill the workers that still run after `GRACE`. Empties `workers`."""
    for worker in workers:
        worker.pipe.close()
    try:
        deadline = time.monotonic() + GRACE
        for worker in workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
    finally:
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.join(GRACE)
            with contextlib.suppress(ValueError):  # the process hangs in the kernel and survives the kill
                worker.process.close()
        workers.clear()


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block signals in processes that start within the block; their code ignores the signals after the imports."""
    resource_tracker.ensure_running()  # else it starts with the first worker and unblocks the signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# In the worker --------------------------------------------------------------------------------------------------------


def _work(pipe: Connection, name: str, excluded: frozenset[Path]) -> None:
    """Answer the requests of SB3's `SubprocVecEnv` until the pipe closes; the death of the main process closes it."""
    user_modules.excluded = excluded
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    env: Any = None
    reset_info: dict[str, Any] = {}
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            request, command, data = pipe.recv()
            try:
                answer: Any
                if command == "make":
                    env = data()
                    answer = env.observation_space, env.action_space
                elif command == "step":
                    observation, reward, terminated, truncated, info = env.step(data)
                    done = terminated or truncated
                    info["TimeLimit.truncated"] = truncated and not terminated
                    if done:
                        info["terminal_observation"] = observation
                        observation, reset_info = env.reset()
                    answer = observation, reward, done, info, reset_info
                elif command == "reset":
                    seed, options = data
                    answer = observation, reset_info = env.reset(seed=seed, options=options or None)
                else:
                    answer = _ANSWERS[command](env, data)
                message = pickle.dumps((request, False, answer), pickle.HIGHEST_PROTOCOL)
            except Exception as error:  # noqa: BLE001  (the main process raises it)
                message = pickle.dumps((request, True, _picklable(error, name)))
            pipe.send_bytes(message)
    with contextlib.suppress(Exception):  # the main process no longer listens
        env.close()


def _is_wrapped(env: Any, name: str) -> bool:
    while isinstance(env, gymnasium.Wrapper):
        if name in map(_name, type(env).__mro__):
            return True
        env = env.env
    return False


def _name(cls: type[Any]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


_ANSWERS: dict[str, Callable[[Any, Any], Any]] = {
    "render": lambda env, _: env.render(),
    "env_method": lambda env, call: env.get_wrapper_attr(call[0])(*call[1], **call[2]),
    "get_attr": lambda env, name: env.get_wrapper_attr(name),
    "has_attr": lambda env, name: env.has_wrapper_attr(name),
    "set_attr": lambda env, item: setattr(env, *item),
    "is_wrapped": _is_wrapped,
}


def _picklable(error: Exception, name: str) -> MygymError:
    """Return `error` if it is a `MygymError` that can be pickled, else a `RunError` with its type and text."""
    note = "".join(traceback.format_exception(error))
    if isinstance(error, MygymError):
        error.add_note(note)
        with contextlib.suppress(Exception):
            if str(pickle.loads(pickle.dumps(error))) == str(error):  # noqa: S301  (pickled on this line)
                return error
    replacement = RunError(f"{name}: {type(error).__name__}: {error}")
    replacement.add_note(note)
    return replacement
