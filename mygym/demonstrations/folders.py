"""`new_folder`: a data set's folder, which appears at its path completely or not at all."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from mygym.errors import ConfigError, RunError, bad_value
from mygym.runs import directory, files


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder `.NAME.part` beside `path`; rename it to `path` at the end, or remove it after an error.

    The folder is locked against other processes. Remains of a killed process are removed.

    Args:
        path: Path of the folder, which does not exist.

    Raises:
        ConfigError: Another process is writing the same folder, or `.NAME.part` contains foreign files.
        RunError: The folder cannot be written.
    """
    temporary = path.absolute().with_name(f".{path.name}.part")  # Minari cannot measure files under a relative path
    with _exclusive(temporary) as lock:
        yield temporary
        with writing(path):
            if sys.platform == "win32":  # it removes no open file
                lock.release()
            (temporary / directory.LOCK).unlink(missing_ok=True)
            temporary.rename(path)


@contextlib.contextmanager
def _exclusive(temporary: Path) -> Iterator[BaseFileLock]:
    """Create an empty folder, locked against other processes; remove it when the block ends."""
    with writing(temporary):
        temporary.mkdir(parents=True, exist_ok=True)
        removable = (temporary / directory.LOCK).exists() or not any(temporary.iterdir())
    if not removable:
        why = "exists and was not written by mygym"
        raise ConfigError(bad_value("out", str(temporary), "another folder", why))
    lock = FileLock(temporary / directory.LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        why = "is being written by another process"
        raise ConfigError(bad_value("out", str(temporary), "another folder", why)) from None
    try:
        with writing(temporary):
            for remains in temporary.iterdir():
                if remains.name != directory.LOCK:
                    files.remove(remains)
        yield lock
    finally:
        if sys.platform == "win32":
            lock.release()
        shutil.rmtree(temporary, ignore_errors=True)
        lock.release()


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert system errors as `files.writing` does, with messages in one line, because HDF5's have several lines."""
    try:
        with files.writing(path):
            yield
    except RunError as error:
        raise RunError(" ".join(str(error).split())) from error
