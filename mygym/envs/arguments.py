"""Checks of the arguments of environments and of their methods."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import gymnasium
import numpy as np
from gymnasium.error import ClosedEnvironmentError

from mygym.config import RunConfig
from mygym.errors import ConfigError, DivergedError, bad_value
from mygym.registry.signatures import signature
from mygym.types import FloatArray

MAX_EPISODES = 100_000
"""Maximum number of episodes of an evaluation or a dataset, as in the schema of configs."""

MAX_BATCH_SEED = 2**63 - 1
"""Maximum seed of an environment in a batch, whose seeds are an int64 array."""

P = ParamSpec("P")
R = TypeVar("R")


def checked_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: an unknown keyword argument of a function of the Python API is a ConfigError with the nearest name."""
    known = signature(function).parameters

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        check_keywords(function.__name__, kwargs, known)
        return function(*args, **kwargs)

    return checked


def check_keywords(function: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    """Check the names of keyword arguments.

    Raises:
        ConfigError: A name is unknown.
    """
    for name, value in given.items():
        if name in RunConfig.model_fields and name not in known and "config" in known:
            allowed = f"{function}({{{name!r}: {value!r}, …}})"
            raise ConfigError(bad_value(function, name, allowed, "is a key of the config"))
        if name not in known:
            raise ConfigError(bad_value(function, name, known, "is not a parameter"))


def checked_count(count: Any, key: str, most: int | None = MAX_EPISODES) -> int:
    """Return a number of episodes, images, steps or environments.

    Raises:
        ConfigError: It is not a whole number, less than 1, or more than `most`.
    """
    number = _whole(count)
    allowed = "a whole number, at least 1" if most is None else f"a whole number from 1 to {most}"
    _check(key, count, 1 <= number <= (most or number), allowed)
    return number


def checked_seed(seed: Any) -> int:
    """Return the seed of `reset`.

    Raises:
        ConfigError: It is not a whole number, or negative.
    """
    number = _whole(seed)
    _check("seed", seed, number >= 0, "a whole number, at least 0, or None")
    return number


def checked_seeds(seed: Any, count: int) -> list[int]:
    """Return the seeds of the reset of a batch.

    Args:
        seed: Seed of each environment, or the first of consecutive seeds.
        count: Number of environments.

    Raises:
        ConfigError: A seed is not a whole number from 0 to `MAX_BATCH_SEED`, or the seeds are more or fewer than the
            environments.
    """
    first = _whole(seed)
    try:
        seeds = list(seed if first < 0 else range(first, first + count))
    except TypeError:
        seeds = [seed]
    numbers, allowed = list(map(_whole, seeds)), f"a whole number from 0 to {MAX_BATCH_SEED}, {count} of them, or None"
    for given, number in zip(seeds, numbers, strict=True):
        if not 0 <= number <= MAX_BATCH_SEED:
            raise ConfigError(bad_value("seed", given, allowed))
    if len(numbers) != count:
        raise ConfigError(bad_value("seed", len(numbers), allowed, "seeds are given"))
    return numbers


def check_options(options: Any) -> None:
    """Warn about `options` of `reset`: the environments have no options, but other libraries pass some.

    Raises:
        ConfigError: The options are not a mapping.
    """
    _check("options", options, options is None or isinstance(options, Mapping), "a mapping, or None")
    if options:
        gymnasium.logger.warn(f"reset ignores the options {', '.join(map(repr, options))}: mygym has no options")


def checked_command(action: Any, shape: tuple[int, ...] | None) -> FloatArray:
    """Return a copy of a continuous action, which may be a torch tensor on any device, with a gradient or without.

    Raises:
        DivergedError: A value is not finite.
        ValueError: The action has another shape.
    """
    command = np.array(action.detach().cpu().numpy() if hasattr(action, "detach") else action, dtype=np.float64)
    check_shape(command.shape, shape)
    values = command.tolist()
    if not all(map(math.isfinite, values)):  # for few values faster than `isfinite().all()`
        raise DivergedError(f"action {values} is not finite")
    return command


def check_shape(shape: tuple[int, ...], needed: tuple[int, ...] | None) -> None:
    """Refuse an action, or the actions of a batch, of another shape than the action space's.

    Raises:
        ValueError: The shape is another one.
    """
    if shape != needed:
        raise ValueError(f"action has shape {shape}, needs {needed}")


def check_open(env: object, closed: bool, method: str) -> None:
    """Refuse to use a closed environment.

    Raises:
        ClosedEnvironmentError: The environment is closed.
    """
    if closed:
        raise ClosedEnvironmentError(f"{method}: {env!r} is closed; make a new environment")


def _whole(value: Any) -> int:
    """Return a whole number; -1 for another value."""
    try:
        return operator.index(value)
    except TypeError:
        return -1


def _check(name: str, value: Any, valid: bool, allowed: Any) -> None:
    if not valid:
        raise ConfigError(bad_value(name, value, allowed))
