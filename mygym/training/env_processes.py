"""Environments in processes: a vector environment that replaces dead processes, reports errors, and leaves none behind.

A process holds several environments and gets one message per step, because a message takes as long as a fraction of a
step. The processes import this module; SB3 and torch, which would take most of their start-up time and memory, are
imported in the main process alone.
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

from mygym.errors import ConfigError, MygymError, RunError, bad_value, error_text
from mygym.nested import map_arrays
from mygym.registry.user_files import located, user_modules
from mygym.training.evaluation import next_seed
from mygym.training.stop_request import SIGNALS, ignore_signals


def answer_requests(pipe: Connection, names: Sequence[str], excluded: frozenset[Path]) -> None:
    """Answer requests until the pipe closes; the death of the main process closes it."""
    user_modules.excluded = excluded
    ignore_signals()
    share = _Share()
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            request, command, data = pipe.recv()
            try:
                message = pickle.dumps((request, False, share.answer(command, data)), pickle.HIGHEST_PROTOCOL)
            except Exception as error:  # noqa: BLE001  (the main process raises it)
                message = pickle.dumps((request, True, picklable_error(error, names[share.current])))
            pipe.send_bytes(message)
    with contextlib.suppress(Exception):  # the main process no longer listens
        share.close()


class _Share:
    """The environments of a process."""

    def __init__(self) -> None:
        self.envs: list[Any] = []
        self.current = 0
        """Index of the environment that is called, for the message of an error."""

    def answer(self, command: str, data: Any) -> Any:
        """Return the answer to a request."""
        if command in ("step", "reset", "make"):
            return getattr(self, command)(data)
        rows, values = data
        return [ANSWERS[command](self.envs[self.current], values) for self.current in rows]

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
        if name in map(full_name, type(env).__mro__):
            return True
        env = env.env
    return False


def full_name(cls: type[Any]) -> str:
    """Return the name of a class with its module: processes compare names, because they do not import the class."""
    return f"{cls.__module__}.{cls.__qualname__}"


ANSWERS: dict[str, Callable[[Any, Any], Any]] = {
    "render": lambda env, _: env.render(),
    "env_method": lambda env, call: env.get_wrapper_attr(call[0])(*call[1], **call[2]),
    "get_attr": lambda env, name: env.get_wrapper_attr(name),
    "has_attr": lambda env, name: env.has_wrapper_attr(name),
    "set_attr": lambda env, item: setattr(env, *item),
    "is_wrapped": _is_wrapped,
}
"""Command → function of an environment and the data of a request that returns the answer."""


def picklable_error(error: Exception, name: str) -> MygymError:
    """Return `error` if it is a `MygymError` that can be pickled, else a `RunError` with its type, text and line."""
    note = "".join(traceback.format_exception(error))
    if isinstance(error, MygymError):
        error.add_note(note)
        with contextlib.suppress(Exception):
            if str(pickle.loads(pickle.dumps(error))) == str(error):  # noqa: S301  (pickled on this line)
                return error
    replacement = RunError(located(f"{name}: {error_text(error)}", error))
    replacement.add_note(note)
    return replacement


PATIENCE = 60.0
"""Time limit for a process's answer, s."""

GRACE = 3.0
"""Time that `end_processes` gives the processes to end by themselves, s."""

UNGUARDED = 97
"""Exit code of a process that would start further ones, because it imports a script without a guard."""


class EnvProcess:
    """A process with a share of the environments, and the connection to it."""

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

    def close_pipes(self) -> None:
        """Close the pipe, which ends the process."""
        self.pipe.close()

    def stop(self) -> None:
        """Kill the process and close the pipe."""
        self.close_pipes()
        kill(self.handle)
        self.handle = None


def _readable(pipe: Connection) -> Callable[[float], Any]:
    """Return a function that waits until a pipe has a message or its end, for a time in s."""
    if not hasattr(select, "poll"):  # on Windows
        return pipe.poll
    poll = select.poll()  # Connection.poll creates a new selector at every call, which takes longer
    poll.register(pipe, select.POLLIN)
    return lambda seconds: poll.poll(1000 * seconds)


def death_of(process: Any, name: str, key: str, value: Any, alone: str) -> MygymError:
    """Return the error of a dead process. `value` of the config's `key` started it; `alone` starts no process."""
    process.join(1.0)
    code = process.exitcode
    if code == UNGUARDED:
        script = getattr(sys.modules["__main__"], "__file__", "the main script")
        why = f"has each new process import {script}, which would start processes again"
        allowed = f'{alone}, or a script whose calls stand under `if __name__ == "__main__":`'
        return ConfigError(bad_value(key, value, allowed, why))
    if code is None:  # of another machine
        return RunError(f"{name} is lost: its process or its machine has died, or the network has failed")
    how = f"exit code {code}" if code >= 0 else f"signal {-code}"
    return RunError(f"{name} died ({how})")


def kill(process: Any) -> None:
    """Kill a process, and release it."""
    process.kill()
    process.join(GRACE)
    with contextlib.suppress(ValueError):  # the process hangs in the kernel and survives the kill
        process.close()


def end_processes(processes: list[Any]) -> None:
    """Close the pipes, which ends the processes; kill those that still run after `GRACE`. Empties `processes`."""
    processes[:] = [process for process in processes if process.handle is not None]
    for process in processes:
        process.close_pipes()
    try:
        deadline = time.monotonic() + GRACE
        for process in processes:
            process.handle.join(max(0.0, deadline - time.monotonic()))
    finally:
        for process in processes:
            process.stop()
        processes.clear()


@contextlib.contextmanager
def starting_processes() -> Iterator[None]:
    """Block signals in processes that start within the block; their code ignores the signals after the imports.

    A process that imports the main script, and would start further processes, ends with `UNGUARDED`.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        sys.exit(UNGUARDED)
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    resource_tracker.ensure_running()  # else it starts with the first process and unblocks the signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


PATIENCE_AT_START = 600.0
"""Time limit for a process's first answer, s; on few cores, many processes need a while to import and build."""

DEATHS = 3
"""Deaths of a process without a step in between that end the run."""


def process_vec_env(
    makers: Sequence[Callable[[], Any]],
    processes: int | None = None,
    patience: float = PATIENCE_AT_START,
    reward_maker: Callable[[], Any] | None = None,
) -> Any:
    """Return an SB3 `VecEnv` in processes, with the results of `DummyVecEnv` to the bit.

    A process that dies is replaced: its episodes end as truncated, with the last observation as the terminal
    observation and a reward of 0, and new episodes begin in the new process. `on_replacement`, an attribute of the
    environment, is called with the reason and the number of replacements. Values set by `set_attr` and
    calls of methods named `set_…` are repeated in the new process.

    `close` never hangs. The other methods raise a `MygymError` of an environment unchanged, and `RunError` for any
    other error (with the process's traceback as a note), for a process that dies again and again (`DEATHS`), and for a
    process that does not answer.

    Args:
        makers: Functions that build the environments in the processes; they must be picklable.
        processes: Number of processes, among which the environments are split evenly; None: one per environment.
        patience: Time limit for the construction of the environments, s.
        reward_maker: Builds an environment in this process that answers `compute_reward` in place of the first, so that
            hindsight replay does not wait for a process, which may be busy with a step. None: the first answers.

    Raises:
        ConfigError: The main script starts the processes without `if __name__ == "__main__":`.
        RunError: A process dies before it has built its environments, or takes longer than `patience`.
    """
    from stable_baselines3.common.vec_env import VecEnv

    class ProcessVecEnv(VecEnv):
        def __init__(self, env_processes: list[EnvProcess]) -> None:
            self.env_processes = tuple(env_processes)
            self.replacements = 0
            self.on_replacement: Callable[[str, int], None] = lambda reason, replacements: None
            # runs also at garbage collection, and at exit before multiprocessing waits for those that ignore SIGTERM
            self._end = util.Finalize(self, end_processes, (env_processes,), exitpriority=0)
            spaces = [_spaces(process, patience) for process in env_processes]
            self._reset_results: dict[EnvProcess, Any] = {}
            """Results of the resets of new processes, whose lost episodes have still to end as truncated."""
            self._observations: Any = None
            self._last_infos: list[dict[str, Any]] = [{} for _ in makers]
            self._first_seeds: list[int | None] = [None for _ in makers]
            self._settings: dict[tuple[int, str, str], Any] = {}
            """Index of the environment, command and name → request that a new process repeats."""
            self._reward_env: Any = None
            """Environment of `reward_maker`, built for the first reward, with the settings of the first environment."""
            self._stepping = False
            """Whether the processes have a step whose results have not been received."""
            self._results: list[Any] = []
            """Results of a step, by process, until `step_wait` returns them."""
            super().__init__(len(makers), *spaces[0])

        @property
        def processes(self) -> list[Any]:
            return [process.handle for process in self.env_processes]

        # Steps and resets -----------------------------------------------------------------------------------------

        def step_async(self, actions: Any) -> None:
            for process in self.env_processes:
                request = ("step", actions[process.rows])
                if process in self._reset_results:
                    process.request = request
                else:
                    process.send(*request)
            self._stepping = True

        def step_wait(self) -> Any:
            self._receive_step()
            observations, rewards, dones, infos, reset_infos = zip(*self._results, strict=True)
            for process, new in zip(self.env_processes, reset_infos, strict=True):
                for index, info in new.items():
                    self.reset_infos[process.rows.start + index] = info
            self._observations = _joined(observations)
            self._last_infos = [info for batch in infos for info in batch]
            return self._observations, np.concatenate(rewards), np.concatenate(dones), list(self._last_infos)

        def _receive_step(self) -> None:
            """Receive the results of a step before another request: the processes answer one after the other."""
            if self._stepping:
                self._stepping = False
                self._results = [self._answer(process) for process in self.env_processes]

        def reset(self) -> Any:
            self._stepping = False
            self._reset_results.clear()
            for index, seed in enumerate(self._seeds):
                self._first_seeds[index] = self._first_seeds[index] if seed is None else seed
            requests = list(zip(self._seeds, self._options, strict=True))
            for process in self.env_processes:
                process.send("reset", requests[process.rows])
            answers = [self._answer(process) for process in self.env_processes]
            self._reset_results.clear()  # of processes that died, and have been reset once more
            self.reset_infos = [info for _, infos in answers for info in infos]
            self._observations = _joined([observations for observations, _ in answers])
            self._last_infos = list(self.reset_infos)
            self._reset_seeds()
            self._reset_options()
            return self._observations

        # Calls of single environments -----------------------------------------------------------------------------

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
            if method_name == "compute_reward" and reward_maker is not None and list(self._get_indices(indices)) == [0]:
                if self._reward_env is None:
                    self._reward_env = self._made_like_the_first(reward_maker)
                return [ANSWERS["env_method"](self._reward_env, (method_name, args, kwargs))]
            return self._call(indices, "env_method", (method_name, args, kwargs))

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return self._call(indices, "get_attr", attr_name)

        def has_attr(self, attr_name: str) -> bool:
            return all(self._call(None, "has_attr", attr_name))

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            self._call(indices, "set_attr", (attr_name, value))

        def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
            # unpickling the class would import SB3 in the process
            return self._call(indices, "is_wrapped", full_name(wrapper_class))

        def get_images(self) -> list[Any]:
            return self._call(None, "render", None)

        def close(self) -> None:
            self._end()
            if self._reward_env is not None:
                self._reward_env.close()

        def _made_like_the_first(self, maker: Callable[[], Any]) -> Any:
            """Return a new environment with the settings of the first environment."""
            env = maker()
            for (index, command, _), data in self._settings.items():
                if index == 0:
                    ANSWERS[command](env, data)
            return env

        def _call(self, indices: Any, command: str, data: Any) -> list[Any]:
            """Return the answers of the environments, in the order of `indices`."""
            self._receive_step()
            chosen = list(self._get_indices(indices))
            asked: list[tuple[EnvProcess, list[int]]] = []
            for process in self.env_processes:
                rows = [index for index in chosen if process.rows.start <= index < process.rows.stop]
                if rows:
                    process.send(command, ([row - process.rows.start for row in rows], data))
                    asked.append((process, rows))
            answers: dict[int, Any] = {}
            for process, rows in asked:
                answers.update(zip(rows, self._answer(process), strict=True))
            if command == "set_attr" or (command == "env_method" and data[0].startswith("set_")):
                self._settings |= {(index, command, data[0]): data for index in chosen}
                if 0 in chosen and self._reward_env is not None:
                    ANSWERS[command](self._reward_env, data)
            return [answers[index] for index in chosen]

        # Replacement of dead processes ----------------------------------------------------------------------------

        def _answer(self, process: EnvProcess) -> Any:
            """Return the answer to the last request of a process, or of the new process in place of a dead one."""
            while True:
                stepped = process.request[0] == "step"
                if stepped and process in self._reset_results:
                    return self._truncated(process)
                try:
                    received = process.recv()
                except EOFError:
                    request = process.request
                    self._replace(process)
                    if stepped:
                        process.request = request
                    else:
                        process.send(*request)
                    continue
                process.deaths = 0 if stepped else process.deaths
                return received

        def _replace(self, process: EnvProcess) -> None:
            """Start a dead process again with new episodes; raise its error after `DEATHS` deaths without a step."""
            while True:
                error = process.death()
                process.deaths += 1
                if process.deaths >= DEATHS:
                    raise error
                self.replacements += 1
                self.on_replacement(str(error), self.replacements)
                process.stop()
                try:
                    with starting_processes():
                        process.start()
                    process.recv(PATIENCE_AT_START)
                    for (index, command, _), data in self._settings.items():
                        if process.rows.start <= index < process.rows.stop:
                            process.send(command, ([index - process.rows.start], data))
                            process.recv()
                    # other episodes than those that the seeds gave, one of which may have killed the process
                    first = self._first_seeds[process.rows]
                    seeds = [seed if seed is None else next_seed(seed, self.replacements) for seed in first]
                    process.send("reset", [(seed, {}) for seed in seeds])
                    self._reset_results[process] = process.recv()
                    return
                except EOFError:
                    continue

        def _truncated(self, process: EnvProcess) -> Any:
            """Return the result of a step that ends the episodes of the process, which have been lost."""
            observations, new_infos = self._reset_results.pop(process)
            infos = []
            for index in range(process.rows.start, process.rows.stop):
                info = self.reset_infos[index] if "terminal_observation" in self._last_infos[index] else None
                info = dict(self._last_infos[index] if info is None else info)
                info["TimeLimit.truncated"] = True
                info["terminal_observation"] = map_arrays(lambda rows, row=index: rows[row].copy(), self._observations)
                infos.append(info)
            dones = np.ones(len(infos), dtype=bool)
            rewards = np.zeros(len(infos), dtype=np.float32)  # nothing happened since the last rewards
            return observations, rewards, dones, infos, dict(enumerate(new_infos))

    env_processes = [EnvProcess(rows, makers) for rows in _shares(len(makers), processes or len(makers))]
    try:
        with starting_processes():
            for process in env_processes:
                process.start()
        return ProcessVecEnv(env_processes)
    except BaseException:
        end_processes(env_processes)
        raise


def _shares(count: int, processes: int) -> list[slice]:
    """Return the environments of each process."""
    bounds = np.linspace(0, count, min(processes, count) + 1).round().astype(int).tolist()
    return [slice(first, last) for first, last in itertools.pairwise(bounds)]


def _spaces(process: EnvProcess, patience: float) -> Any:
    """Return the spaces of a process's environments, once it has built them; it has `patience` s."""
    try:
        return process.recv(patience)
    except EOFError:
        raise process.death() from None


def _joined(batches: Sequence[Any]) -> Any:
    """Return the observations of all processes in one array, or in a dictionary of arrays."""
    return map_arrays(lambda *parts: np.concatenate(parts), *batches)
