"""Vector environment in worker processes that replaces dead workers, reports errors, and never leaves a process behind.

Each worker holds several environments and gets one message per step, because a message takes as long as a fraction of a
step. Workers do not import SB3 and torch, which would take most of their start-up time and memory.
"""

from __future__ import annotations

import contextlib
import itertools
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
import numpy as np

from mygym.errors import ConfigError, MygymError, RunError, bad_value
from mygym.registry.user_files import user_modules
from mygym.runs.stop_request import SIGNALS

PATIENCE = 60.0
"""Time limit for a worker's answer, s."""

PATIENCE_AT_START = 600.0
"""Time limit for a worker's first answer, s; on few cores, many workers need a while to import and build."""

DEATHS = 3
"""Deaths of a worker without a step in between that end the run."""

UNGUARDED = 97
"""Exit code of a worker that would start workers itself, because it imports a script without a guard."""

GRACE = 3.0
"""Time that `close` gives the workers to end by themselves, s."""


def worker_vec_env(
    makers: Sequence[Callable[[], Any]], processes: int | None = None, patience: float = PATIENCE_AT_START
) -> Any:
    """Return an SB3 `VecEnv` in worker processes, with the results of `DummyVecEnv` to the bit.

    A worker that dies is replaced: its episodes end as truncated, with the last observation as the terminal one and a
    reward of 0, and new episodes begin in the new process. `on_replacement`, an attribute of the environment,
    is called with the reason and the number of replacements. Values set by `set_attr` and calls of methods named
    `set_…` are repeated in the new process.

    `close` never hangs. The other methods raise a `MygymError` of an environment unchanged, and `RunError` for any
    other error (with the worker's traceback as a note), for a worker that dies again and again (`DEATHS`), and for a
    worker that does not answer.

    Args:
        makers: Functions that build the environments in the workers; they must be picklable.
        processes: Number of workers, among which the environments are split evenly; None: one per environment.
        patience: Time limit for the construction of the environments, s.

    Raises:
        ConfigError: The main script starts the workers without `if __name__ == "__main__":`.
        RunError: A worker dies before it has built its environments, or takes longer than `patience`.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # a worker that imports the main script
        sys.exit(UNGUARDED)
    from stable_baselines3.common.vec_env import VecEnv

    class WorkerVecEnv(VecEnv):
        def __init__(self, workers: list[_Worker]) -> None:
            self.workers = tuple(workers)
            self.replacements = 0
            self.on_replacement: Callable[[str, int], None] = lambda reason, replacements: None
            # runs also at garbage collection, and at exit before multiprocessing waits for workers that ignore SIGTERM
            self._end = util.Finalize(self, _end, (workers,), exitpriority=0)
            spaces = [_spaces(worker, patience) for worker in workers]
            self._reset_results: dict[_Worker, Any] = {}
            """Results of the resets of new workers, whose lost episodes have still to end as truncated."""
            self._observations: Any = None
            self._last_infos: list[dict[str, Any]] = [{} for _ in makers]
            self._first_seeds: list[int | None] = [None for _ in makers]
            self._settings: dict[tuple[int, str, str], Any] = {}
            """Index of the environment, command and name → request that a new worker repeats."""
            super().__init__(len(makers), *spaces[0])

        @property
        def processes(self) -> list[Any]:
            return [worker.process for worker in self.workers]

        # Steps and resets -----------------------------------------------------------------------------------------

        def step_async(self, actions: Any) -> None:
            for worker in self.workers:
                request = ("step", actions[worker.rows])
                if worker in self._reset_results:
                    worker.request = request
                else:
                    worker.send(*request)

        def step_wait(self) -> Any:
            answers = [self._answer(worker) for worker in self.workers]
            observations, rewards, dones, infos, reset_infos = zip(*answers, strict=True)
            for worker, new in zip(self.workers, reset_infos, strict=True):
                for index, info in new.items():
                    self.reset_infos[worker.rows.start + index] = info
            self._observations = _joined(observations)
            self._last_infos = [info for batch in infos for info in batch]
            return self._observations, np.concatenate(rewards), np.concatenate(dones), list(self._last_infos)

        def reset(self) -> Any:
            self._reset_results.clear()
            for index, seed in enumerate(self._seeds):
                self._first_seeds[index] = self._first_seeds[index] if seed is None else seed
            requests = list(zip(self._seeds, self._options, strict=True))
            for worker in self.workers:
                worker.send("reset", requests[worker.rows])
            answers = [self._answer(worker) for worker in self.workers]
            self._reset_results.clear()  # of workers that died, and have been reset once more
            self.reset_infos = [info for _, infos in answers for info in infos]
            self._observations = _joined([observations for observations, _ in answers])
            self._last_infos = list(self.reset_infos)
            self._reset_seeds()
            self._reset_options()
            return self._observations

        # Calls of single environments -----------------------------------------------------------------------------

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
            return self._call(indices, "env_method", (method_name, args, kwargs))

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return self._call(indices, "get_attr", attr_name)

        def has_attr(self, attr_name: str) -> bool:
            return all(self._call(None, "has_attr", attr_name))

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            self._call(indices, "set_attr", (attr_name, value))

        def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
            # unpickling the class would import SB3 in the worker
            return self._call(indices, "is_wrapped", _name(wrapper_class))

        def get_images(self) -> list[Any]:
            return self._call(None, "render", None)

        def close(self) -> None:
            self._end()

        def _call(self, indices: Any, command: str, data: Any) -> list[Any]:
            """Return the answers of the environments, in the order of `indices`."""
            chosen = list(self._get_indices(indices))
            asked: list[tuple[_Worker, list[int]]] = []
            for worker in self.workers:
                rows = [index for index in chosen if worker.rows.start <= index < worker.rows.stop]
                if rows:
                    worker.send(command, ([row - worker.rows.start for row in rows], data))
                    asked.append((worker, rows))
            answers: dict[int, Any] = {}
            for worker, rows in asked:
                answers.update(zip(rows, self._answer(worker), strict=True))
            if command == "set_attr" or (command == "env_method" and data[0].startswith("set_")):
                self._settings |= {(index, command, data[0]): data for index in chosen}
            return [answers[index] for index in chosen]

        # Replacement of dead workers ------------------------------------------------------------------------------

        def _answer(self, worker: _Worker) -> Any:
            """Return the answer to the worker's last request, of a new worker if it has died."""
            while True:
                stepped = worker.request[0] == "step"
                if stepped and worker in self._reset_results:
                    return self._truncated(worker)
                try:
                    answer = worker.recv()
                except EOFError:
                    request = worker.request
                    self._replace(worker)
                    if stepped:
                        worker.request = request
                    else:
                        worker.send(*request)
                    continue
                worker.deaths = 0 if stepped else worker.deaths
                return answer

        def _replace(self, worker: _Worker) -> None:
            """Start a dead worker again, and begin new episodes in it.

            Raises:
                RunError: It has died `DEATHS` times without a step.
            """
            while True:
                error = worker.death()
                worker.deaths += 1
                if worker.deaths >= DEATHS:
                    raise error
                self.replacements += 1
                self.on_replacement(str(error), self.replacements)
                worker.stop()
                try:
                    with _signals_blocked():
                        worker.start()
                    worker.recv(PATIENCE_AT_START)
                    for (index, command, _), data in self._settings.items():
                        if worker.rows.start <= index < worker.rows.stop:
                            worker.send(command, ([index - worker.rows.start], data))
                            worker.recv()
                    # other episodes than those that the seeds gave, one of which may have killed the worker
                    seeds = [_next_seed(seed, self.replacements) for seed in self._first_seeds[worker.rows]]
                    worker.send("reset", [(seed, {}) for seed in seeds])
                    self._reset_results[worker] = worker.recv()
                    return
                except EOFError:
                    continue

        def _truncated(self, worker: _Worker) -> Any:
            """Return the result of a step that ends the episodes of the worker, which have been lost."""
            observations, new_infos = self._reset_results.pop(worker)
            infos = []
            for index in range(worker.rows.start, worker.rows.stop):
                info = self.reset_infos[index] if "terminal_observation" in self._last_infos[index] else None
                info = dict(self._last_infos[index] if info is None else info)
                info["TimeLimit.truncated"] = True
                info["terminal_observation"] = _row(self._observations, index)
                infos.append(info)
            dones = np.ones(len(infos), dtype=bool)
            rewards = np.zeros(len(infos), dtype=np.float32)  # nothing happened since the last rewards
            return observations, rewards, dones, infos, dict(enumerate(new_infos))

    workers = [_Worker(rows, makers) for rows in _shares(len(makers), processes or len(makers))]
    try:
        with _signals_blocked():
            for worker in workers:
                worker.start()
        return WorkerVecEnv(workers)
    except BaseException:
        _end(workers)
        raise


def _shares(count: int, processes: int) -> list[slice]:
    """Return the environments of each worker."""
    bounds = np.linspace(0, count, min(processes, count) + 1).round().astype(int).tolist()
    return [slice(first, last) for first, last in itertools.pairwise(bounds)]


def _spaces(worker: _Worker, patience: float) -> Any:
    """Return the spaces of a worker's environments, once it has built them.

    Raises:
        RunError: The worker has died, or takes longer than `patience` in s.
    """
    try:
        return worker.recv(patience)
    except EOFError:
        raise worker.death() from None


def _joined(batches: Sequence[Any]) -> Any:
    """Return the observations of all workers in one array, or in a dictionary of arrays."""
    if isinstance(batches[0], dict):
        return {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}
    return np.concatenate(batches)


def _row(observations: Any, index: int) -> Any:
    """Return a copy of the observation of one environment."""
    if isinstance(observations, dict):
        return {key: values[index].copy() for key, values in observations.items()}
    return observations[index].copy()


def _next_seed(seed: int | None, replacements: int) -> int | None:
    """Return another seed in the same range of seeds (`mygym.runs.evaluation.episode_seeds`); None stays None."""
    if seed is None:
        return None
    word = int(np.random.SeedSequence([seed, replacements]).generate_state(1)[0])
    return seed >> 30 << 30 | word >> 2


class _Worker:
    """A worker process, its connection, and its share of the environments.

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
        self.process: Any = None
        """The process; None before `start` and after `stop`."""

    def start(self) -> None:
        """Start the process, which builds the environments."""
        context = multiprocessing.get_context("spawn")
        self.pipe, worker_end = context.Pipe()
        self.readable = select.poll()  # Connection.poll creates a new selector at every call, which takes longer
        self.readable.register(self.pipe, select.POLLIN)
        arguments = (worker_end, self.names, user_modules.excluded)
        process = context.Process(target=_work, args=arguments, daemon=True)
        process.start()
        self.process = process
        worker_end.close()
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
            if not any(self.readable.poll(100 * patience) for _ in range(10)):
                raise RunError(f"the process of {self.name} has not answered for {patience:g} s")
            try:
                answered, is_error, answer = self.pipe.recv()
            except OSError as error:
                raise EOFError from error
        if is_error:
            raise answer
        return answer

    def death(self) -> MygymError:
        """Return the error of a dead process."""
        self.process.join(1.0)
        code = self.process.exitcode
        if code == UNGUARDED:
            script = getattr(sys.modules["__main__"], "__file__", "the main script")
            why = f"has each worker process import {script}, which would start workers again"
            allowed = '0, or a script whose calls stand under `if __name__ == "__main__":`'
            return ConfigError(bad_value("subprocesses", True, allowed, why))
        how = f"exit code {code}" if code is None or code >= 0 else f"signal {-code}"
        return RunError(f"the process of {self.name} died ({how})")

    def stop(self) -> None:
        """Kill the process and close the pipe."""
        self.pipe.close()
        self.process.kill()
        self.process.join(GRACE)
        with contextlib.suppress(ValueError):  # the process hangs in the kernel and survives the kill
            self.process.close()
        self.process = None


def _end(workers: list[_Worker]) -> None:
    """Close the pipes, which ends the workers; kill the workers that still run after `GRACE`. Empties `workers`."""
    workers[:] = [worker for worker in workers if worker.process is not None]
    for worker in workers:
        worker.pipe.close()
    try:
        deadline = time.monotonic() + GRACE
        for worker in workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
    finally:
        for worker in workers:
            worker.stop()
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


def _work(pipe: Connection, names: Sequence[str], excluded: frozenset[Path]) -> None:
    """Answer requests until the pipe closes; the death of the main process closes it."""
    user_modules.excluded = excluded
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    share = _Share()
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            request, command, data = pipe.recv()
            try:
                answer = share.answer(command, data)
                message = pickle.dumps((request, False, answer), pickle.HIGHEST_PROTOCOL)
            except Exception as error:  # noqa: BLE001  (the main process raises it)
                message = pickle.dumps((request, True, _picklable(error, names[share.current])))
            pipe.send_bytes(message)
    with contextlib.suppress(Exception):  # the main process no longer listens
        share.close()


class _Share:
    """The environments of a worker process."""

    def __init__(self) -> None:
        self.envs: list[Any] = []
        self.current = 0
        """Index of the environment that is called, for the message of an error."""

    def answer(self, command: str, data: Any) -> Any:
        """Return the answer to a request."""
        if command == "step":
            return self.step(data)
        if command == "reset":
            return self.reset(data)
        if command == "make":
            return self.make(data)
        rows, values = data
        return [_ANSWERS[command](self.envs[self.current], values) for self.current in rows]

    def make(self, makers: Sequence[Callable[[], Any]]) -> Any:
        """Build the environments; return the spaces of the first."""
        for self.current, make in enumerate(makers):
            self.envs.append(make())
        return self.envs[0].observation_space, self.envs[0].action_space

    def reset(self, requests: Sequence[tuple[int | None, dict[str, Any]]]) -> Any:
        """Reset the environments with seeds and options; return observations and infos."""
        results = []
        for self.current, (seed, options) in enumerate(requests):
            results.append(self.envs[self.current].reset(seed=seed, options=options or None))
        return self._stacked([observation for observation, _ in results]), [info for _, info in results]

    def step(self, actions: Any) -> Any:
        """Step the environments, and reset those whose episodes end.

        Returns:
            Observations, rewards `(k,)`, whether an episode has ended `(k,)`, infos, and index → info of a reset.
        """
        rewards, dones = np.zeros(len(self.envs), dtype=np.float32), np.zeros(len(self.envs), dtype=bool)
        observations, infos, reset_infos = [], [], {}
        for index, env in enumerate(self.envs):
            self.current = index
            observation, rewards[index], terminated, truncated, info = env.step(actions[index])
            info["TimeLimit.truncated"] = truncated and not terminated
            if terminated or truncated:
                dones[index] = True
                info["terminal_observation"] = observation
                observation, reset_infos[index] = env.reset()
            observations.append(observation)
            infos.append(info)
        return self._stacked(observations), rewards, dones, infos, reset_infos

    def close(self) -> None:
        """Close the environments."""
        for env in self.envs:
            env.close()

    def _stacked(self, observations: Sequence[Any]) -> Any:
        """Return observations in one array, or in a dictionary of arrays in the order of the space."""
        if isinstance(observations[0], dict):
            keys = self.envs[0].observation_space.spaces
            return {key: np.stack([observation[key] for observation in observations]) for key in keys}
        return np.stack(observations)


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
