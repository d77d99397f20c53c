"""The one import of pybullet, which has no type stubs, and the settings that must be the same in every client."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from mygym.models.temporary_files import temporary_file


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


def urdf_file(name: str, text: str) -> str:
    """Path of a temporary URDF file with this text; see `temporary_file`."""
    return temporary_file(f"{name}.urdf", text.replace("><", ">\n<"))  # Bullet cuts lines that are very long
