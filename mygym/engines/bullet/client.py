"""The only import of pybullet, which has no type stubs, and settings that all clients share."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import weakref
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from mygym.registry.entries import HAS_BULLET
from mygym.robotics.files import temporary_file


@contextlib.contextmanager
def redirected(stream: int, target: int) -> Iterator[None]:
    """Send everything written to the file descriptor `stream`, also by C code, to the file descriptor `target`."""
    sys.stdout.flush()
    _flush_c()
    saved = os.dup(stream)
    os.dup2(target, stream)
    try:
        yield
    finally:
        _flush_c()
        os.dup2(saved, stream)
        os.close(saved)


def _flush_c() -> None:
    """Write out the buffers of C code."""
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)


def _import_silently(name: str) -> Any:
    """Import a module whose C code prints to standard error."""
    with Path(os.devnull).open("w", encoding="utf-8") as devnull, redirected(2, devnull.fileno()):
        return import_module(name)


bullet: Any = _import_silently("pybullet") if HAS_BULLET else import_module("mygym.engines.drawing")
"""The pybullet module, untyped; callers convert its results immediately. Without PyBullet the module that draws alone.

Never set `contactBreakingThreshold`: it is global to the process and changes every other client.
"""

TINY_BOX = (1e-4, 1e-4, 1e-4)
"""Half extents, m, of the visual of bodies in a physics client.

Bullet tessellates collision shapes without a visual: 0.2 ms per sphere, capsule or cylinder; a box takes 2 µs.
"""


def connect() -> int:
    """Open an in-process physics client and return its id."""
    client = int(bullet.connect(bullet.DIRECT))
    if client < 0:
        raise RuntimeError("Bullet refuses another physics client: at most 1,024 may be open in one process")
    return client


def disconnect(client: int) -> None:
    """Close a client, if it is open."""
    if bullet.isConnected(physicsClientId=client):
        bullet.disconnect(physicsClientId=client)


@contextlib.contextmanager
def temporary_client() -> Iterator[int]:
    """Open an in-process physics client for the block."""
    client = connect()
    try:
        yield client
    finally:
        disconnect(client)


def closing(owner: object, client: int) -> weakref.finalize[[int], object]:
    """Return a function that closes the client of `owner` once, and is also called when `owner` is no longer used.

    A client that is never closed keeps 30 MB. Later calls do nothing: the number may belong to another client by then.
    """
    close = weakref.finalize(owner, disconnect, client)
    close.atexit = False
    return close


def joint_infos(body: int, client: int) -> list[Any]:
    """Return Bullet's description of each joint of a body, whose index is also that of the link below it."""
    count = bullet.getNumJoints(body, physicsClientId=client)
    return [bullet.getJointInfo(body, index, physicsClientId=client) for index in range(count)]


def urdf_file(name: str, text: str) -> str:
    """Write a temporary URDF file and return its path; see `temporary_file`."""
    return temporary_file(f"{name}.urdf", text.replace("><", ">\n<"))  # Bullet truncates very long lines


def load_urdf(name: str, text: str, client: int, *pose: Sequence[float], **options: Any) -> int:
    """Load a URDF text into a client, fixed at a position in m and a quaternion, and return the body's id."""
    file = urdf_file(name, text)
    return int(bullet.loadURDF(file, *pose, useFixedBase=True, physicsClientId=client, **options))
