"""Nested mappings: access by path, merging, and functions of each array in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any


def has(values: Any, path: tuple[str, ...]) -> bool:
    """Return whether nested mappings have a value, None included, at `path`."""
    for name in path:
        if not isinstance(values, Mapping) or name not in values:
            return False
        values = values[name]
    return True


def at(values: Any, path: tuple[str, ...]) -> Any:
    """Return the value at `path` in nested mappings, or None."""
    for name in path:
        values = values.get(name) if isinstance(values, Mapping) else None
    return values


def is_schedule(value: object) -> bool:
    """Return whether a value of a config is a schedule of a hyperparameter, e.g. `{"schedule": "linear", …}`."""
    return isinstance(value, Mapping) and "schedule" in value


def merged(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Return `low` overlaid by `high`: mappings are merged key by key, everything else is replaced.

    A mapping that names its `schedule` replaces the old value: keys of two schedules do not mix.
    """
    result = dict(low)
    for key, value in high.items():
        known = result.get(key)
        if isinstance(known, Mapping) and isinstance(value, Mapping) and not is_schedule(value):
            result[key] = merged(known, value)
        else:
            result[key] = value
    return result


def common(values: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of nested `values` whose keys `keys` has as well."""
    return {
        key: common(value, keys[key]) if isinstance(value, Mapping) and isinstance(keys[key], Mapping) else value
        for key, value in values.items()
        if key in keys
    }


def without(values: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested `values` without the leaves that `keys` has as well."""
    return {
        key: without(value, keys[key]) if isinstance(value, Mapping) and isinstance(keys.get(key), Mapping) else value
        for key, value in values.items()
        if key not in keys or (isinstance(value, Mapping) and isinstance(keys[key], Mapping))
    }


def changed(values: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of nested `values` that differs from `known`."""
    changes: dict[str, Any] = {}
    for key, value in values.items():
        old = known.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            if inner := changed(value, old):
                changes[key] = inner
        elif value != old:
            changes[key] = value
    return changes


def map_arrays(function: Callable[..., Any], *values: Any) -> Any:
    """Return `function(*values)`; of dictionaries with the same keys, a dictionary of these results, by key.

    Observations are arrays, or dictionaries of arrays.
    """
    if isinstance(values[0], Mapping):
        return {key: map_arrays(function, *(value[key] for value in values)) for key in values[0]}
    return function(*values)


def finite(content: Any) -> Any:
    """Return content for JSON: None in place of numbers that are not finite, and dataclasses as mappings."""
    if is_dataclass(content) and not isinstance(content, type):
        content = asdict(content)
    if isinstance(content, Mapping):
        return {key: finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    if isinstance(content, float) and (content != content or abs(content) == float("inf")):
        return None
    return content
