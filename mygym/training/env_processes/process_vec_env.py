"""Vector environment in processes, which replaces dead ones, reports errors, and never leaves a process behind.

A process holds several environments and gets one message per step, because a message takes as long as a fraction of a
step.
"""

from __future__ import annotations

import itertools
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from multiprocessing import util
from typing import Any

import numpy as np

from mygym.training.env_processes.env_process import UNGUARDED, EnvProcess, end_processes, signals_blocked
from mygym.training.env_processes.process_main import answer, full_name
from mygym.training.evaluation import next_seed

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
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # a process that imports the main script
        sys.exit(UNGUARDED)
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
                return [answer(self._reward_env, "env_method", (method_name, args, kwargs))]
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
                    answer(env, command, data)
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
                    answer(self._reward_env, command, data)
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
            """Start a dead process again, and begin new episodes in it.

            Raises:
                RunError: It has died `DEATHS` times without a step.
            """
            while True:
                error = process.death()
                process.deaths += 1
                if process.deaths >= DEATHS:
                    raise error
                self.replacements += 1
                self.on_replacement(str(error), self.replacements)
                process.stop()
                try:
                    with signals_blocked():
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
                info["terminal_observation"] = _row(self._observations, index)
                infos.append(info)
            dones = np.ones(len(infos), dtype=bool)
            rewards = np.zeros(len(infos), dtype=np.float32)  # nothing happened since the last rewards
            return observations, rewards, dones, infos, dict(enumerate(new_infos))

    env_processes = [EnvProcess(rows, makers) for rows in _shares(len(makers), processes or len(makers))]
    try:
        with signals_blocked():
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
    """Return the spaces of a process's environments, once it has built them.

    Raises:
        RunError: The process has died, or takes longer than `patience` in s.
    """
    try:
        return process.recv(patience)
    except EOFError:
        raise process.death() from None


def _joined(batches: Sequence[Any]) -> Any:
    """Return the observations of all processes in one array, or in a dictionary of arrays."""
    if isinstance(batches[0], dict):
        return {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}
    return np.concatenate(batches)


def _row(observations: Any, index: int) -> Any:
    """Return a copy of the observation of one environment."""
    if isinstance(observations, dict):
        return {key: values[index].copy() for key, values in observations.items()}
    return observations[index].copy()
