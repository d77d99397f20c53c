"""Ranges in a config: `{grid: […]}`, `{choice: […]}`, `{uniform: [a, b]}`, `{loguniform: [a, b]}`, `{int: [a, b]}`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mygym.errors import ConfigError, bad_value

LISTS = ("grid", "choice")
RANGES = ("uniform", "loguniform", "int")
RANGE_WORDS = (*LISTS, *RANGES)
"""Words that make a mapping a range."""

FIXED = ("seed", "logdir", "imports", "strict")
"""Top-level keys that no sweep changes: `sweep.seeds` lists the seeds, and the sweep has a folder."""


@dataclass(frozen=True)
class Parameter:
    """A key of the config that a sweep changes, and its range."""

    path: tuple[str, ...]
    kind: str
    """One of `RANGE_WORDS`."""
    values: tuple[Any, ...]
    """All values of a list; lowest and highest value of another range."""

    @property
    def key(self) -> str:
        """Dotted key."""
        return ".".join(self.path)

    @property
    def finite(self) -> Sequence[Any] | None:
        """All values in their order; None if their number is not finite."""
        if self.kind in LISTS:
            return self.values
        return range(self.values[0], self.values[1] + 1) if self.kind == "int" else None

    @property
    def corners(self) -> tuple[Any, ...]:
        """Values that the check of the space builds: all of a list, else both ends and the middle."""
        if self.kind in LISTS:
            return self.values
        low, high = self.values
        middle = math.sqrt(low * high) if self.kind == "loguniform" else (low + high) / 2
        return (low, high, (low + high) // 2 if self.kind == "int" else middle)

    def contains(self, value: Any) -> bool:
        """Return whether a value of a config lies in the range."""
        if self.kind in LISTS:
            return value in self.values
        kinds = int if self.kind == "int" else (int, float)
        return isinstance(value, kinds) and not isinstance(value, bool) and self.values[0] <= value <= self.values[1]

    def stored(self, value: Any) -> Any:
        """Return a value in the form in which Optuna stores it: those of lists as JSON."""
        return json.dumps(value) if self.kind in LISTS else value

    def value(self, stored: Any) -> Any:
        """Return the value of the config that Optuna has stored."""
        return json.loads(stored) if self.kind in LISTS else stored


def find_parameters(config: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Parameter, ...]]:
    """Return a config without its ranges, and the parameters in the order of the config.

    Raises:
        ConfigError: A range is empty, inverted or malformed, or at a key that takes none.
    """
    parameters: list[Parameter] = []
    base = _without_ranges(config, (), parameters)
    return base, tuple(parameters)


def with_values(base: Mapping[str, Any], values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """Return a config with other values at some paths."""
    result = dict(base)
    for path, value in values.items():
        section = result
        for name in path[:-1]:
            inner = section.get(name)
            section[name] = dict(inner) if isinstance(inner, Mapping) else {}
            section = section[name]
        section[path[-1]] = value
    return result


def _without_ranges(config: Mapping[str, Any], path: tuple[str, ...], parameters: list[Parameter]) -> dict[str, Any]:
    base: dict[str, Any] = {}
    for name, value in config.items():
        inner = (*path, name)
        if isinstance(value, Mapping) and not value.keys().isdisjoint(RANGE_WORDS):
            parameters.append(_parameter(inner, value))
        elif isinstance(value, Mapping):
            rest = _without_ranges(value, inner, parameters)
            base |= {name: rest} if rest or not value else {}  # nothing is left of a mapping of ranges alone
        else:
            _refuse_ranges(value, inner)
            base[name] = value
    return base


def _refuse_ranges(value: Any, path: tuple[str, ...]) -> None:
    """Refuse a range within a list.

    Raises:
        ConfigError: The list has a range.
    """
    for item in value if isinstance(value, list | tuple) else ():
        if isinstance(item, Mapping) and len(item) == 1 and not item.keys().isdisjoint(RANGE_WORDS):
            allowed = "{choice: [[64, 64], [128, 128]]}: a choice of whole lists"
            raise ConfigError(bad_value(".".join(path), item, allowed, "is a range within a list"))
        _refuse_ranges(item, path)


def _parameter(path: tuple[str, ...], marker: Mapping[str, Any]) -> Parameter:
    """Return the parameter of a range.

    Raises:
        ConfigError: The range is empty, inverted or malformed.
    """
    kind, content = next(iter(marker.items()))

    def refused(allowed: str, why: str) -> ConfigError:
        return ConfigError(bad_value(".".join(path), dict(marker), allowed, why))

    if path[0] in FIXED:
        raise refused(f"a key other than {', '.join(FIXED)}", "is the same in all trials")
    if len(marker) > 1 or kind not in RANGE_WORDS:
        raise refused(f"a single word of {', '.join(RANGE_WORDS)}", "is not a range")
    if kind in LISTS:
        if not isinstance(content, list | tuple) or not content:
            raise refused(f"{{{kind}: [A, B, …]}}", "is not a list with values")
        texts = [json.dumps(value) for value in content]
        if repeated := next((text for index, text in enumerate(texts) if text in texts[:index]), None):
            raise refused("each value once", f"repeats {repeated}")
        return Parameter(path, kind, tuple(content))
    form, number = f"{{{kind}: [LOWEST, HIGHEST]}}", int if kind == "int" else (int, float)
    if not isinstance(content, list | tuple) or len(content) != 2:
        raise refused(form, "is not a range of two numbers")
    if not all(isinstance(end, number) and not isinstance(end, bool) and math.isfinite(end) for end in content):
        raise refused(f"{form} with two {'whole' if kind == 'int' else 'finite'} numbers", "is not a range")
    low, high = content if kind == "int" else map(float, content)
    if kind == "loguniform" and low <= 0:
        raise refused("a lowest value above 0", "has no logarithm")
    if low >= high:
        raise refused(form, "is empty" if low == high else "is inverted")
    return Parameter(path, kind, (low, high))


def size(parameters: Sequence[Parameter]) -> int | None:
    """Return the number of combinations; None if it is not finite."""
    counts = [parameter.finite for parameter in parameters]
    return None if None in counts else math.prod(len(values or ()) for values in counts)
