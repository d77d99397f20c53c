"""Code of a process of environments: answers the requests of the main process about its environments.

It imports neither SB3 nor torch, which would take most of its start-up time and memory.
"""

from __future__ import annotations

import contextlib
import pickle
import signal
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from mygym.errors import MygymError, RunError, error_text
from mygym.registry.user_files import located, user_modules
from mygym.training.stop_request import SIGNALS


def answer_requests(pipe: Connection, names: Sequence[str], excluded: frozenset[Path]) -> None:
    """Answer requests until the pipe closes; the death of the main process closes it."""
    user_modules.excluded = excluded
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
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
        if command == "step":
            return self.step(data)
        if command == "reset":
            return self.reset(data)
        if command == "make":
            return self.make(data)
        rows, values = data
        return [answer(self.envs[self.current], command, values) for self.current in rows]

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


def answer(env: Any, command: str, data: Any) -> Any:
    """Return an environment's answer to a request, e.g. to `env_method`."""
    return _ANSWERS[command](env, data)


def _is_wrapped(env: Any, name: str) -> bool:
    while isinstance(env, gymnasium.Wrapper):
        if name in map(full_name, type(env).__mro__):
            return True
        env = env.env
    return False


def full_name(cls: type[Any]) -> str:
    """Return the name of a class with its module: processes compare names, because they do not import the class."""
    return f"{cls.__module__}.{cls.__qualname__}"


_ANSWERS: dict[str, Callable[[Any, Any], Any]] = {
    "render": lambda env, _: env.render(),
    "env_method": lambda env, call: env.get_wrapper_attr(call[0])(*call[1], **call[2]),
    "get_attr": lambda env, name: env.get_wrapper_attr(name),
    "has_attr": lambda env, name: env.has_wrapper_attr(name),
    "set_attr": lambda env, item: setattr(env, *item),
    "is_wrapped": _is_wrapped,
}


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
