"""Atomic writing of new files: all files or none, and never over existing files."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mygym.errors import ConfigError, bad_value


def write_new(files: Mapping[Path, str | bytes]) -> None:
    """Write files that do not exist yet.

    Each file is written under a temporary name and then linked to its path: the file is complete, and it replaces
    nothing. If a file cannot be written, the new files and folders are removed.

    Args:
        files: Path → content.

    Raises:
        ConfigError: A file exists or cannot be written; no file is left.
    """
    for path in files:
        if os.path.lexists(path):
            raise _exists(path)
    folders: list[Path] = []
    written: list[Path] = []
    try:
        for path, content in files.items():
            folders += _make_folders(path.parent)
            _write(path, content)
            written.append(path)
    except BaseException as error:
        for file in written:
            file.unlink(missing_ok=True)
        for folder in reversed(folders):
            with contextlib.suppress(OSError):
                folder.rmdir()
        if isinstance(error, FileExistsError | NotADirectoryError):
            raise _exists(path) from None
        if isinstance(error, OSError):
            why = f"cannot be written ({error.strerror or error})"
            raise ConfigError(bad_value("file", str(path), "a file in a writable folder", why)) from None
        raise


def _write(path: Path, content: str | bytes) -> None:
    descriptor, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        temporary.chmod(0o666 & ~_umask())
        try:
            os.link(temporary, path)  # unlike a rename, this fails if the path exists
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            path.touch(exist_ok=False)
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _make_folders(folder: Path) -> list[Path]:
    """Make a folder and its parents; return the new folders, the topmost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()][::-1]
    for path in missing:
        path.mkdir()
    return missing


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _exists(path: Path) -> ConfigError:
    why = "exists already, and nothing is overwritten"
    return ConfigError(bad_value("file", str(path), "another NAME, or remove the file", why))
