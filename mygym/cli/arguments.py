"""Parsing of flag values: config values, numbers, files and names of kinds."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from mygym.cli.foreign_configs import read_config
from mygym.cli.output import print_note
from mygym.config import merge_configs, parse_overrides
from mygym.config.loading import parse_value
from mygym.config.schema import DEFAULT_ENGINE
from mygym.errors import ConfigError, UnknownNameError, bad_value
from mygym.registry import REGISTRIES
from mygym.training.files import check_writable

CONFIG_FLAGS = {
    "robot": ("R", "robot arm: a name of `mygym list robot`, or a URDF or YAML file"),
    "task": ("T", "task: a name of `mygym list task`, letters such as AGMDW, [approach, push], or plain words"),
    "workspace": ("W", "workspace: a name of `mygym list workspace`"),
    "control": ("C", "controller, which defines the actions: a name of `mygym list controller`, or {name: NAME, …}"),
    "reward": ("KIND", "reward: sparse, dense or another name of `mygym list reward`"),
    "algo": ("A", "algorithm: a name of `mygym list algo`"),
    "framework": ("F", "implementation of the algorithm: pytorch or jax"),
    "strategy": ("S", "training strategy, such as curriculum, or several joined by + (mygym list strategy)"),
    "pretrained": ("RUN", "start from a run, or from its model.zip or policy.safetensors"),
    "engine": ("E", f"physics engine of training: a name of `mygym list engine` (default {DEFAULT_ENGINE})"),
    "steps": ("N", "env steps to train"),
    "n_envs": ("N", "number of training environments"),
    "learners": ("K", "processes that train the same model (ppo, a2c), each with a share of the environments"),
    "seed": ("S", "seed of all random numbers"),
    "logdir": ("DIR", "folder of all runs"),
}
"""Config key with a flag → metavar and help; other keys are set by `--set`."""

NUMBER_FLAGS = frozenset({"steps", "n_envs", "learners", "seed"})
"""Config flags whose values are numbers; other values are text, except those of `NESTED_FLAGS`."""

NESTED_FLAGS = frozenset({"task", "control"})
"""Config flags whose values may be lists or mappings."""

KIND_ALIASES = {"algo": "algorithm"}
"""Short name of a kind on the command line → its name in the registry."""


def registry_kind(name: str) -> str:
    """Return the registry's name of a kind of component.

    Raises:
        UnknownNameError: The kind does not exist.
    """
    kind = KIND_ALIASES.get(name, name)
    if kind not in REGISTRIES:
        known = sorted({*REGISTRIES, *KIND_ALIASES})
        raise UnknownNameError(bad_value("kind", name, known, "is not a kind of component"))
    return kind


def command_kind(kind: str) -> str:
    """Return the command line's name of a kind of component."""
    return next((alias for alias, name in KIND_ALIASES.items() if name == kind), kind)


def config_layers(options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values of the config file, which may be of another system, and the values of the flags."""
    texts = {key: getattr(options, key, None) for key in CONFIG_FLAGS}
    flags = {key: flag_value(key, text) for key, text in texts.items() if text is not None}
    flags |= {"imports": options.imports} if options.imports else {}
    flags = merge_configs(flags, parse_overrides(options.set))
    return read_config(options.config, flags) if options.config else {}, flags


def flag_value(key: str, text: str) -> Any:
    """Return the value of a config flag: numbers, lists and mappings are parsed as YAML, names stay text.

    The reading of a task in plain words is printed.
    """
    if key == "task" and " " in text.strip():
        _print_reading(text)
    is_nested = key in NESTED_FLAGS and text.startswith(("[", "{"))
    return parse_value(text, key) if is_nested or key in NUMBER_FLAGS else text


def _print_reading(task: str) -> None:
    from mygym.tasks.language import is_sentence, read_sentence

    if is_sentence(task):
        print_note(f"task: {read_sentence(task).words}")


def parse_task(text: str) -> Any:
    """Return a task: a list or mapping parsed as YAML; a name, letters or plain words unchanged."""
    return flag_value("task", text)


def parse_integer(text: str, flag: str, allowed: str = "a whole number", low: int | None = None) -> int:
    """Return the value of a flag as a whole number.

    Args:
        text: Value on the command line.
        flag: Flag, for the message.
        allowed: Allowed values, for the message.
        low: Minimum value; None: no minimum.

    Raises:
        ConfigError: The text is not a whole number, or the number is too low.
    """
    number = parse_value(text, flag)
    if not isinstance(number, int) or isinstance(number, bool) or (low is not None and number < low):
        raise ConfigError(bad_value(flag, text, allowed))
    return number


def parse_count(text: str, flag: str) -> int:
    """Return the value of a flag as a positive whole number.

    Raises:
        ConfigError: The text is not a whole number of at least 1.
    """
    return parse_integer(text, flag, "a whole number, at least 1", low=1)


def parse_percent(text: str, flag: str) -> float:
    """Return the share in [0, 1] of a flag such as `5%` or `5`.

    Raises:
        ConfigError: Not a number of percent points.
    """
    try:
        value = float(text.removesuffix("%")) / 100
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ConfigError(bad_value(flag, text, "a number of percent points, e.g. 5%"))
    return value


def check_output(path: Path, flag: str, suffixes: Collection[str], force: bool) -> None:
    """Refuse a file that cannot be written or exists, before the work starts.

    Args:
        path: The file.
        flag: Flag, for the message.
        suffixes: Allowed suffixes of the file.
        force: Whether a file that exists may be overwritten.

    Raises:
        ConfigError: The path has another suffix, exists, or cannot be written.
    """
    if path.suffix not in suffixes:
        raise ConfigError(bad_value(flag, str(path), f"a file ending in {' or '.join(suffixes)}"))
    if os.path.lexists(path) and not (force and path.is_file()):
        raise ConfigError(bad_value(flag, str(path), "a new file, or --force", "exists already"))
    check_writable(path.parent, flag, str(path))
