"""Atomic file writing: a file is complete or absent."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from mygym.config.loading import Dumper
from mygym.errors import ConfigError, RunError, bad_value
from mygym.nested import finite

PATIENCE = 5.0
"""Time limit for other processes that read a file, s, on Windows."""


@contextlib.contextmanager
def locked(file: Path, key: str, allowed: str, why: str) -> Iterator[None]:
    """Hold the lock of a folder, which is a `file` in it; the system releases it when the process ends.

    Raises:
        ConfigError: Another process holds the lock.
        RunError: The folder cannot be written.
    """
    held = FileLock(file)
    try:
        held.acquire(timeout=0)
    except Timeout:
        raise ConfigError(bad_value(key, str(file.parent), allowed, why)) from None
    except OSError as error:
        raise RunError(f"{file.parent}: cannot be written: {error.strerror or error}") from None
    try:
        yield
    finally:
        held.release()


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn system errors (disk full, folder removed) into `RunError` while `path` is written."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # torch reports a full disk as RuntimeError
        raise RunError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from error


def make_folder_for(path: Path) -> None:
    """Create the missing folders above a path; raise `RunError` if one cannot be created."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)


def write(path: Path, save: Callable[[Path], None]) -> None:
    """Call `save` with a temporary path beside `path`, then rename the file to `path`.

    Raises:
        RunError: Writing failed; the previous content is untouched.
    """
    temporary = path.with_name(f".{path.stem}.part{path.suffix}")
    try:
        with writing(path):
            save(temporary)
            _replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            os.truncate(temporary, 0)  # after a failed save SB3 leaves the file open, so the disk would stay full
            temporary.unlink()


def _replace(temporary: Path, path: Path) -> None:
    """Rename a file; Windows refuses it while another process reads the file at `path`, e.g. the dashboard."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            temporary.replace(path)
            return
        except PermissionError:
            if sys.platform != "win32" or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes atomically and sync them to the disk."""
    write(path, lambda temporary: _write_synced(temporary, content))


def write_text(path: Path, text: str) -> None:
    """Write a text atomically."""
    write_bytes(path, text.encode())


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON atomically; non-finite numbers become null."""
    write_text(path, json.dumps(finite(content), indent=2) + "\n")


def write_yaml(path: Path, content: Mapping[str, Any]) -> None:
    """Write YAML atomically, keys in their order."""
    write_text(path, to_yaml(content))


def to_yaml(content: Mapping[str, Any]) -> str:
    """Return YAML with keys in their order and short lists on one line."""
    return yaml.dump(
        dict(content), Dumper=Dumper, sort_keys=False, default_flow_style=None, width=100, allow_unicode=True
    )


def check_writable(folder: str | Path, key: str = "logdir", value: str | None = None) -> None:
    """Raise `ConfigError` for a folder that cannot be created or written; nothing is left behind."""
    parent = Path(folder)
    try:
        parent = parent.expanduser().absolute()
        while not parent.exists() and parent != parent.parent:
            parent = parent.parent
        if not parent.is_dir():
            raise NotADirectoryError(20, "not a folder")
        with tempfile.TemporaryFile(dir=parent):
            pass
    except (OSError, ValueError, RuntimeError) as error:  # name too long, NUL in the name, unknown home folder
        why = f"cannot be written ({getattr(error, 'strerror', None) or error}: {parent})"
        raise ConfigError(bad_value(key, value or str(folder), "a folder that you may write to", why)) from None


def check_new(path: Path, key: str, description: str) -> None:
    """Raise `ConfigError` for a path that exists or cannot be created; `description` is its kind, e.g. `a folder`."""
    check_writable(path.parent, key, str(path))
    if os.path.lexists(path):
        raise ConfigError(bad_value(key, str(path), f"{description} that does not exist yet", "exists already"))


def is_file(path: Path) -> bool:
    """Return whether `path` is a file; False for names that the system refuses."""
    try:
        return path.is_file()
    except OSError:
        return False


def remove(path: Path) -> None:
    """Remove a file, a link (not its target), or a folder with its content."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def checksum(content: bytes) -> str:
    """Return the SHA-256 of `content` in hex digits."""
    return hashlib.sha256(content).hexdigest()


def json_checksum(content: Mapping[str, Any]) -> str:
    """Return the checksum of JSON, whatever the order of its keys."""
    return checksum(json.dumps(content, sort_keys=True).encode())


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
