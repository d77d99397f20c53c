"""Caches of results from files, which end when a file changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

Stamp = tuple[int, int]
"""Time of the last change in ns, and size in bytes; zeros for a missing file."""


def stamp(path: str | Path) -> Stamp:
    """Return a value that changes with the content of a file."""
    try:
        status = Path(path).stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def cached_by_file(maxsize: int | None = None) -> Callable[[Function], Function]:
    """Return a decorator that caches a function of a file name and further arguments until the file changes.

    Args:
        maxsize: Number of results that are kept; None: all.
    """

    def decorate(function: Function) -> Function:
        @lru_cache(maxsize=maxsize)
        def cached(stamped: Stamp, *args: Any) -> Any:
            return function(*args)

        @wraps(function)
        def call(path: str | Path, *args: Any) -> Any:
            return cached(stamp(path), path, *args)

        return cast("Function", call)

    return decorate
