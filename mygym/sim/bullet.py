"""The one import of pybullet, which has no type stubs, and the settings that must be the same in every client."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from mygym.errors import RunError


def _import_silently(name: str) -> Any:
    """Import a module whose C code greets on standard error, where our messages go."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        return import_module(name)
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


bullet: Any = _import_silently("pybullet")
"""The pybullet module, untyped. Functions of this package that use it convert what it returns at once.

`contactBreakingThreshold` must never be set: it is a global of the process and would change every other client.
"""

TINY_BOX = (1e-4, 1e-4, 1e-4)
"""Half extents, m, of the visual given to bodies of a physics client.

Bullet tessellates collision shapes that come without a visual: 0.2 ms for each sphere, capsule or cylinder; a box takes
2 µs.
"""


def connect() -> int:
    """A new in-process physics client."""
    client = int(bullet.connect(bullet.DIRECT))
    if client < 0:
        raise RuntimeError("Bullet refuses another physics client: at most 1,024 may be open in one process")
    return client


def disconnect(client: int) -> None:
    """Close a client; a client that is already closed is left alone."""
    if bullet.isConnected(physicsClientId=client):
        bullet.disconnect(physicsClientId=client)


@cache
def _folder(process: int) -> Path:
    """A temporary folder of this process, removed when it ends."""
    folder = Path(tempfile.mkdtemp(prefix="mygym-"))

    def remove() -> None:
        if os.getpid() == process:  # a forked child inherits this hook but not the folder
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


@cache
def _written(process: int, name: str, text: str) -> str:
    try:
        folder = _folder(process)
        path = folder / f"{len(list(folder.iterdir()))}_{name}.urdf"
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunError(f"the folder for temporary files cannot be written: {error}") from error
    return str(path)


def urdf_file(name: str, text: str) -> str:
    """Path of a file with this text, written once per process (a forked child writes its own).

    Different texts have different paths, because Bullet caches files by path and never looks again.
    """
    return _written(os.getpid(), name, text)
