"""Access to nested mappings by path."""

from __future__ import annotations

from collections.abc import Mapping
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
