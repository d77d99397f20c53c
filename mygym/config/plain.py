"""Plain data: values that YAML and JSON both store and return unchanged, in a limited amount."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np

from mygym.errors import ConfigError, bad_value

MAX_DEPTH = 32
MAX_VALUES = 10_000
MAX_INTEGER = 2**63 - 1
"""Maximum whole number: numpy and torch store no larger number, and Python refuses to print thousands of digits."""

LEAVES = (str, bool, int, float, type(None))
"""Types of values that contain no others."""


def check_plain(values: Mapping[str, Any], origin: str = "") -> None:
    """Refuse values that a config file would not return unchanged.

    Aliases are followed, because with aliases a mapping may contain itself and a short file may be endless.

    Args:
        values: Config values by name.
        origin: Their origin, for the message.

    Raises:
        ConfigError: A value is not null, a boolean, a finite number, text, a list, or a mapping with text as keys; or
            the nesting is too deep, or the number of values is too large.
    """
    suffix = f" ({origin})" if origin else ""
    count = 0
    waiting: list[tuple[tuple[str, ...], Any]] = [((), values)]
    while waiting:
        path, value = waiting.pop()
        if type(value) in LEAVES or not isinstance(value, Mapping | list | tuple):  # the first is quicker
            _check_leaf(path, value, suffix)
            continue
        count += len(value)
        if count > MAX_VALUES:
            raise ConfigError(f"{path[0] if path else 'config'}: holds more than {MAX_VALUES} values{suffix}")
        if len(path) > MAX_DEPTH:
            raise ConfigError(f"{'.'.join(path)}: is nested more than {MAX_DEPTH} deep{suffix}")
        if isinstance(value, Mapping):
            for name in value:
                if not isinstance(name, str) or not name.isprintable():
                    allowed = "strings, as in `key: value`"
                    key = ".".join(path) or "config"
                    raise ConfigError(f"{key}: {_shown(name)} is not a key{suffix}; allowed: {allowed}")
            waiting += [((*path, name), inner) for name, inner in value.items()]
        else:
            waiting += [((*path, str(index)), inner) for index, inner in enumerate(value)]


def as_plain(value: Any, depth: int = 0) -> Any:
    """Return numbers and arrays of numpy, paths and tuples as plain data, and other values unchanged."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, PurePath):
        return str(value)
    if depth > MAX_DEPTH:  # which `check_plain` refuses
        return value
    if isinstance(value, Mapping):
        return {key: as_plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(inner, depth + 1) for inner in value]
    return value


def is_plain(value: Any) -> bool:
    """Return whether `check_plain` accepts `value`."""
    try:
        check_plain({"value": value})
    except ConfigError:
        return False
    return True


def _check_leaf(path: Sequence[str], value: Any, suffix: str) -> None:
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):  # halves of characters
            raise ConfigError(bad_value(".".join(path), value, "text that UTF-8 can hold", f"is not text{suffix}"))
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ConfigError(bad_value(".".join(path), value, "finite numbers", f"is not finite{suffix}"))
    elif isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise ConfigError(f"{'.'.join(path)}: {_shown(value)} is too large{suffix}; allowed: at most {MAX_INTEGER}")
    elif value is not None:
        allowed = "null, true, false, numbers, text, lists, mappings"
        raise ConfigError(bad_value(".".join(path), value, allowed, f"is a {type(value).__name__}{suffix}"))


def _shown(value: object) -> str:
    huge = isinstance(value, int) and value.bit_length() > 1000  # Python refuses to print thousands of digits
    return "a number of more than 1000 bits" if huge else repr(value)
