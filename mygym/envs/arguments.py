"""Checks of the arguments of environments and of their methods."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import gymnasium
import numpy as np
from gymnasium.error import ClosedEnvironmentError

from mygym.config import RunConfig
from mygym.errors import ConfigError, DivergedError, bad_value
from mygym.registry.signatures import check_types, parameters, signature
from mygym.types import FloatArray

MAX_EPISODES = 100_000
"""Maximum number of episodes of an evaluation or a dataset, as in the schema of configs."""

MAX_BATCH_SEED = 2**63 - 1
"""Maximum seed of an environment in a batch, whose seeds are an int64 array."""

P = ParamSpec("P")
R = TypeVar("R")


def checked_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: an unknown keyword or a wrong type of a function of the Python API is a ConfigError.

    The functions themselves check configs, callbacks, reports and whole numbers, whose ranges they know.
    """
    known = signature(function).parameters

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        check_keywords(function.__name__, kwargs, known)
        for name, value in [*zip(known, args, strict=False), *kwargs.items()]:
            if parameters(function)[name].annotation is not int and name not in ("config", "callbacks", "report"):
                plain = str(value) if isinstance(value, os.PathLike) else value
                check_types(function, {name: plain}, ConfigError)
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
    """Return the seeds `(count,)` of the reset of a batch, which are given, or the first of consecutive seeds.

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


def check_observation(given: Mapping[str, Any], shapes: Mapping[str, Sequence[tuple[int, ...]]]) -> None:
    """Check the arrays of an observation, or of a batch of them, that a policy is to act on.

    Args:
        given: Name → array; the name of an only array is empty.
        shapes: Name of each array that the policy takes → its possible shapes without rows.

    Raises:
        ConfigError: An array is missing, or it has another shape or no numbers.
    """
    for name, possible in shapes.items():
        if name not in given:
            allowed = f"a dictionary of {', '.join(shapes)}" if name else f"an array of shape {possible[0]}"
            raise ConfigError(bad_value("observation", ", ".join(given) or "an array", allowed))
        array = given[name] if hasattr(given[name], "dtype") else np.asarray(given[name])
        shape, kind = tuple(array.shape), getattr(array.dtype, "kind", "f")  # those of torch have no kind
        if kind not in "biuf" or not {shape, shape[1:]} & set(possible):
            allowed = " or ".join(map(str, possible)) + ", or a batch of them"
            raise ConfigError(
                bad_value(f"observation.{name}".rstrip("."), f"{array.dtype} {shape}", f"numbers of shape {allowed}")
            )


def check_open(env: object, closed: bool, method: str) -> None:
    """Refuse to use a closed environment, whose engine may serve another environment by now.

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
