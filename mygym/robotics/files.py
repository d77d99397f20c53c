"""Temporary files for Bullet, and caches of functions that notice changes of files."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache, lru_cache, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from mygym.errors import RunError


@cache
def temporary_folder(process: int) -> Path:
    """Return the temporary folder of a process, removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="mygym-"))

    def remove() -> None:
        if os.getpid() == process:  # a forked child inherits this hook but not the folder
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


@cache
def _written(process: int, name: str, content: str | bytes) -> str:
    try:
        folder = temporary_folder(process)
        path = folder / f"{len(list(folder.iterdir()))}_{name}"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise RunError(f"the folder for temporary files cannot be written: {error}") from error
    return str(path)


def temporary_file(name: str, content: str | bytes) -> str:
    """Return the path of a file with this content, once per process (a forked child writes another); it ends in `name`.

    Different contents have different paths, because Bullet caches files by path.

    Raises:
        RunError: The folder for temporary files cannot be written.
    """
    return _written(os.getpid(), name, content)


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


def cached_by(stamp_of: Callable[[Any], object], maxsize: int | None = None) -> Callable[[Function], Function]:
    """Return a decorator that caches `maxsize` results of a function until the stamp of its first argument changes.

    The results must not be changed.
    """

    def decorate(function: Function) -> Function:
        @lru_cache(maxsize=maxsize)
        def cached(stamped: object, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        @wraps(function)
        def call(first: Any, *args: Any, **kwargs: Any) -> Any:
            return cached(stamp_of(first), first, *args, **kwargs)

        return cast("Function", call)

    return decorate


def cached_by_file(maxsize: int | None = None) -> Callable[[Function], Function]:
    """Return a decorator that caches `maxsize` results of a function of a file name and more until the file changes."""
    return cached_by(stamp, maxsize)
