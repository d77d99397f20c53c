"""Checks of the arguments of environments and of their methods."""

from __future__ import annotations

import copy
import inspect
import math
import operator
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import gymnasium
import numpy as np

from mygym.config import Layer, RunConfig, resolve
from mygym.config.parameter_checks import RANGES
from mygym.config.plain import as_plain
from mygym.config.schema import TaskParams
from mygym.errors import ConfigError, DivergedError, bad_value
from mygym.types import FloatArray

IN_CONFIGS = (
    *("robot", "robot_params", "workspace", "control", "actions", "reward"),
    *("observations", "critic_observations", "image_params", "spaces", "task_params", "randomize"),
)
"""Arguments of `RobotEnv` that are keys of configs, too."""

MAX_EPISODES = 100_000
"""Maximum number of episodes of an evaluation or a dataset, as in the schema of configs."""

MAX_IMAGE_SIZE = 4096
"""Maximum width and height of images, pixels."""


P = ParamSpec("P")
R = TypeVar("R")


def checked_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: an unknown keyword argument of a function of the Python API is a ConfigError with the nearest name."""
    known = inspect.signature(function).parameters

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        check_keywords(function.__name__, kwargs, known)
        return function(*args, **kwargs)

    return checked


def check_keywords(function: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    """Check the names of keyword arguments.

    Args:
        function: Name of the function, for the message.
        given: The keyword arguments.
        known: Names of the parameters.

    Raises:
        ConfigError: A name is unknown.
    """
    for name, value in given.items():
        if name in RunConfig.model_fields and name not in known and "config" in known:
            allowed = f"{function}({{{name!r}: {value!r}, …}})"
            raise ConfigError(bad_value(function, name, allowed, "is a key of the config"))
        if name not in known:
            raise ConfigError(bad_value(function, name, known, "is not a parameter"))


def checked_arguments(given: Mapping[str, Any]) -> tuple[dict[str, Any], RunConfig]:
    """Return the arguments of `RobotEnv` as plain data, and a config with those that are keys of configs.

    Later changes of the caller's objects affect neither.

    Args:
        given: All arguments by name.

    Raises:
        ConfigError: An argument has the wrong type or is out of its range.
    """
    arguments = copy.deepcopy({name: as_plain(value) for name, value in given.items()})
    values = {name: arguments[name] for name in IN_CONFIGS if arguments[name] is not None}
    config = resolve([Layer("argument", values)]).config
    modes = ("human", "rgb_array")
    _check("goal_env", arguments["goal_env"], isinstance(arguments["goal_env"], bool), "true or false")
    gamma = arguments["gamma"]
    _check("gamma", gamma, _is_number(gamma, int | float) and gamma in RANGES["gamma"], str(RANGES["gamma"]))
    _check("render_mode", arguments["render_mode"], arguments["render_mode"] in (None, *modes), modes)
    _check("camera", arguments["camera"], isinstance(arguments["camera"], str), "text")
    for name in ("render_width", "render_height"):
        valid = _is_number(arguments[name], int) and 1 <= arguments[name] <= MAX_IMAGE_SIZE
        _check(name, arguments[name], valid, f"a whole number of pixels from 1 to {MAX_IMAGE_SIZE}")
    return arguments, config


def checked_task_params(task_params: Mapping[str, Any]) -> TaskParams:
    """Return the validated argument `task_params`.

    Raises:
        ConfigError: A key is unknown, or a value has the wrong type or is out of its range.
    """
    return resolve([Layer("argument", {"task_params": dict(task_params)})]).config.task_params


def checked_count(count: Any, key: str) -> int:
    """Return a number of episodes, images or steps.

    Args:
        count: The number.
        key: Name of the argument, for the message.

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

    Args:
        action: The action.
        shape: Shape of actions.

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


def _is_number(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _check(name: str, value: Any, valid: bool, allowed: Any) -> None:
    if not valid:
        raise ConfigError(bad_value(name, value, allowed))
