"""Environments in worker processes: what happens to one of them is told, and none of them outlives the main process.

SB3's `SubprocVecEnv` with a worker loop, and a main process's end of the pipes, of our own. SB3, and torch with it, is
imported in the main process alone: most of the time and memory that a worker would need.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker, util
from multiprocessing.connection import Connection
from typing import Any

import gymnasium

from mygym.errors import MygymError, RunError
from mygym.runs.stop_request import SIGNALS  # left to the main process

PATIENCE = 60.0
"""Seconds that a worker may take to answer."""

PATIENCE_AT_START = 600.0
"""The same for its first answer: many workers on few cores import and build for a while."""

GRACE = 3.0
"""Seconds that closing leaves the workers to end by themselves."""


def worker_vec_env(makers: Sequence[Callable[[], Any]]) -> Any:
    """An SB3 `VecEnv` with a process for each environment.

    `close` never hangs. Every other method raises what an environment raised, if it is one of ours, and `RunError` for
    any other error (the worker's traceback is a note of it), for a worker that died and for one that does not answer.

    Args:
        makers: Builds each environment in its worker; they must pickle.
    """
    from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnv

    class WorkerVecEnv(SubprocVecEnv):
        def __init__(self, workers: list[_Worker]) -> None:
            self.waiting = self.closed = False
            self.remotes = tuple(workers)
            self.processes = [worker.process for worker in workers]
            # also when it is forgotten, and before multiprocessing, at exit, waits for workers that ignore SIGTERM
            self._end = util.Finalize(self, _end, (workers,), exitpriority=0)
            spaces = [worker.recv(PATIENCE_AT_START) for worker in workers]
            VecEnv.__init__(self, len(workers), *spaces[0])

        def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
            remotes = self._get_target_remotes(indices)
            for remote in remotes:
                remote.send(("is_wrapped", _name(wrapper_class)))  # the class itself would bring SB3 to the workers
            return [remote.recv() for remote in remotes]

        def close(self) -> None:
            self.closed = True
            self._end()

    workers: list[_Worker] = []
    try:
        with _signals_held():
            for number, make in enumerate(makers, 1):
                workers.append(_Worker(f"environment {number} of {len(makers)}"))
                workers[-1].send(("make", make))
        return WorkerVecEnv(workers)
    except BaseException:
        _end(workers)
        raise


class _Worker:
    """A worker process and the main process's end of its pipe, with the methods that SB3 calls on a connection."""

    def __init__(self, name: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.name = name
        self.asked = 0
        self.pipe, its_end = context.Pipe()
        self.readable = select.poll()  # Connection.poll makes a new one for every call, which costs more than it
        self.readable.register(self.pipe, select.POLLIN)
        self.process = context.Process(target=_work, args=(its_end, name), daemon=True)
        self.process.start()
        its_end.close()

    def send(self, request: tuple[str, Any]) -> None:
        """Ask; the question has a number, as the answer to an earlier one may not have been fetched (Ctrl-C)."""
        self.asked += 1
        try:
            self.pipe.send((self.asked, *request))
        except ConnectionError as error:
            raise self._death() from error

    def recv(self, patience: float | None = None) -> Any:
        """The answer to what was asked last."""
        patience = PATIENCE if patience is None else patience
        answered = None
        while answered != self.asked:
            # in tenths, as time in which the whole run was stopped (Ctrl-Z) uses up one of them only
            if not any(self.readable.poll(100 * patience) for _ in range(10)):
                raise RunError(f"the process of {self.name} has not answered for {patience:g} s")
            try:
                answered, is_error, answer = self.pipe.recv()
            except (EOFError, OSError) as error:
                raise self._death() from error
        if is_error:
            raise answer
        return answer

    def _death(self) -> RunError:
        self.process.join(1.0)
        code = self.process.exitcode
        how = f"exit code {code}" if code is None or code >= 0 else f"signal {-code}"
        return RunError(f"the process of {self.name} died ({how})")


def _end(workers: list[_Worker]) -> None:
    """A closed pipe asks a worker to end; who has not done so a little later is killed. Empties `workers`."""
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
            with contextlib.suppress(ValueError):  # not even killed: it hangs in the kernel
                worker.process.close()
        workers.clear()


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Processes started within hold back the signals until they ignore them: imports come first."""
    resource_tracker.ensure_running()  # or it would be started with the first worker, and let the signals through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# In the worker --------------------------------------------------------------------------------------------------------


def _work(pipe: Connection, name: str) -> None:
    """Do what SB3's `SubprocVecEnv` asks for until the pipe is closed, as it also is when the main process is gone."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    env: Any = None
    reset_info: dict[str, Any] = {}
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            asked, command, data = pipe.recv()
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
                message = pickle.dumps((asked, False, answer), pickle.HIGHEST_PROTOCOL)
            except Exception as error:  # noqa: BLE001  (whatever it is, the main process raises it)
                message = pickle.dumps((asked, True, _portable(error, name)))
            pipe.send_bytes(message)
    with contextlib.suppress(Exception):  # nobody is there to be told
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


def _portable(error: Exception, name: str) -> MygymError:
    """`error`, if it is one of ours and survives pickling; else its type and text."""
    note = "".join(traceback.format_exception(error))
    if isinstance(error, MygymError):
        error.add_note(note)
        with contextlib.suppress(Exception):
            if str(pickle.loads(pickle.dumps(error))) == str(error):  # noqa: S301  (our own)
                return error
    told = RunError(f"{name}: {type(error).__name__}: {error}")
    told.add_note(note)
    return told
