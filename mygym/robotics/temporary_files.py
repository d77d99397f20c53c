"""Temporary files for Bullet: written once per process into a folder that is removed at its end."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

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
    """Return the path of a file with this content, written once per process (a forked child writes another).

    Different contents have different paths, because Bullet caches files by path.

    Args:
        name: End of the file's name, such as `panda.urdf`.
        content: Text, or bytes.

    Raises:
        RunError: The folder for temporary files cannot be written.
    """
    return _written(os.getpid(), name, content)
