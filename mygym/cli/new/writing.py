"""New files: all of them or none, and never in the place of others."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mygym.errors import ConfigError, bad_value


def write_new(files: Mapping[Path, str]) -> None:
    """Write files that do not exist yet.

    Each is written aside, then put into its place whole; what is there already is never replaced. If one cannot be
    written, those before it are removed again, and so are the folders that were made.

    Raises:
        ConfigError: One exists, or cannot be written; nothing has been left.
    """
    for path in files:
        if os.path.lexists(path):
            raise _exists(path)
    made: list[Path] = []
    written: list[Path] = []
    try:
        for path, text in files.items():
            made += _make_folders(path.parent)
            _write_one(path, text)
            written.append(path)
    except BaseException as error:
        for one in written:
            one.unlink(missing_ok=True)
        for folder in reversed(made):
            with contextlib.suppress(OSError):
                folder.rmdir()
        if isinstance(error, FileExistsError | NotADirectoryError):
            raise _exists(path) from None
        if isinstance(error, OSError):
            why = f"cannot be written ({error.strerror or error})"
            raise ConfigError(bad_value("file", str(path), "a folder that you may write to", why)) from None
        raise


def _write_one(path: Path, text: str) -> None:
    number, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    aside = Path(name)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        aside.chmod(0o666 & ~_umask())
        try:
            os.link(aside, path)  # unlike a rename it fails where something is
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            path.touch(exist_ok=False)
            aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def _make_folders(folder: Path) -> list[Path]:
    """Make a folder and those above it; returns those that are new, the topmost first."""
    new = [one for one in (folder, *folder.parents) if not one.exists()][::-1]
    for one in new:
        one.mkdir()
    return new


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _exists(path: Path) -> ConfigError:
    why = "exists already, and nothing is overwritten"
    return ConfigError(bad_value("file", str(path), "another NAME, or remove it yourself", why))
