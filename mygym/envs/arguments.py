"""Checks of the arguments of environments and of their methods."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import gymnasium
import numpy as np

from mygym.config import RunConfig
from mygym.errors import ConfigError, DivergedError, bad_value
from mygym.registry.signatures import signature
from mygym.types import FloatArray

MAX_EPISODES = 100_000
"""Maximum number of episodes of an evaluation or a dataset, as in the schema of configs."""

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


def checked_count(count: Any, key: str) -> int:
    """Return a number of episodes, images or steps.

    Raises:
        ConfigError: It is not a whole number, less than 1, or more than `MAX_EPISODES`.
    """
    try:
        number = operator.index(count)
    except TypeError:
        number = 0
    _check(key, count, 1 <= number <= MAX_EPISODES, f"a whole number from 1 to {MAX_EPISODES}")
    return number


def checked_seed(seed: Any) -> int:
    """Return the seed of `reset`.

    Raises:
        ConfigError: It is not a whole number, or negative.
    """
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    _check("seed", seed, number >= 0, "a whole number, at least 0, or None")
    return number


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
    if command.shape != shape:
        raise ValueError(f"action has shape {command.shape}, needs {shape}")
    values = command.tolist()
    if not all(map(math.isfinite, values)):  # for few values faster than `isfinite().all()`
        raise DivergedError(f"action {values} is not finite")
    return command


def _check(name: str, value: Any, valid: bool, allowed: Any) -> None:
    if not valid:
        raise ConfigError(bad_value(name, value, allowed))
