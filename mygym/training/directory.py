"""Run directory: names of its files, creation, lock, and look-up."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mygym.config.loading import load_file
from mygym.config.schema import renamed
from mygym.errors import ConfigError, RunError, bad_value
from mygym.registry.user_files import user_modules
from mygym.training.files import is_file, locked, remove

CONFIG = "config.yaml"
RESULT = "result.json"
PROGRESS = "progress.jsonl"
MONITOR = "monitor.csv"
MODEL = "model.zip"
BEST_MODEL = "best_model.zip"
POLICY = "policy.safetensors"
BEST_POLICY = "best_policy.safetensors"
NORMALIZER = "vecnormalize.pkl"
BEST_NORMALIZER = "best_vecnormalize.pkl"
TRACEBACK = "traceback.txt"
LOCK = ".lock"
CHECKPOINTS = "checkpoints"
TENSORBOARD = "tensorboard"
VIDEOS = "videos"
CERTIFICATE = "certificate.json"

WRITTEN = (RESULT, MODEL, BEST_MODEL, POLICY, BEST_POLICY, NORMALIZER, BEST_NORMALIZER, TRACEBACK)
"""Files that a run writes more than once, besides its logs and config."""


def create(logdir: str, task: str, robot: str, algo: str, setting: str, seed: int) -> Path:
    """Create and return `LOGDIR/TASK/ROBOT/ALGO/SETTING/seed_S`, with a suffix if the path exists.

    Raises:
        ConfigError: The directory cannot be created; nothing is left behind.
    """
    folder = Path(logdir).expanduser().joinpath(*map(_folder_name, (task, robot, algo, setting)))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(1, 10_000):
            path = folder / (f"seed_{seed}" if number == 1 else f"seed_{seed}_{number}")
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path
    except OSError as error:
        why = f"cannot be written ({error.strerror or error})"
        raise ConfigError(bad_value("logdir", logdir, "a folder that you may write to", why)) from None
    raise ConfigError(bad_value("logdir", str(folder), "a folder with fewer runs of one seed", "is full"))


def resume_flag(path: str | Path) -> str:
    """Return the flag that goes on with a run or a sweep, for messages with commands."""
    return f"--resume {shlex.quote(str(path))}"


def saved_config(run: Path) -> dict[str, Any]:
    """Return the content of a run's config.yaml, in which an older run may have former names of keys.

    Raises:
        ConfigError: The file is missing or damaged.
    """
    return renamed(load_file(run / CONFIG), notify=False)


def _folder_name(name: str) -> str:
    """Return a possible name of a folder: without separators, and neither `.` nor `..` (of a robot file `...urdf`)."""
    plain = re.sub(r"[^\w.+=-]+", "_", name)
    return plain if plain.strip(".") else "_" * max(len(plain), 1)


@contextlib.contextmanager
def lock(run: Path) -> Iterator[None]:
    """Hold the lock of a run directory; the system releases it when the process ends.

    Raises:
        ConfigError: Another process holds the lock, or the directory contains a link.
        RunError: The directory cannot be written.
    """
    _refuse_special_files(run)
    allowed = "a run that no other process is training"
    with locked(run / LOCK, "run", allowed, "is being written by another process"):
        yield


class DirectoryGuard:
    """Detects that a run directory was removed or moved while the run writes into it."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self._held = None if sys.platform == "win32" else os.open(run, os.O_RDONLY)

    def check(self) -> None:
        """Raise `RunError` if the path no longer leads to the same directory."""
        if self._held is None:  # Windows moves and removes no folder with an open file, and the lock is open
            return
        try:
            gone = not os.path.samestat(os.fstat(self._held), self.run.stat())
        except OSError as error:
            gone = isinstance(error, FileNotFoundError | NotADirectoryError)
        if gone:
            raise RunError(f"{self.run}: was removed or moved during the run")

    def close(self) -> None:
        """Release the directory."""
        if self._held is not None:
            os.close(self._held)


def remove_partial_files(run: Path) -> None:
    """Remove half-written files that a killed process has left."""
    for path in [path for path in run.rglob(".*.part*") if path.exists()]:
        remove(path)


def is_run(path: Path) -> bool:
    """Return whether `path` is a run directory."""
    return is_file(path / CONFIG)


def find(run: str | Path, key: str = "run") -> Path:
    """Return the path of a run directory, from which no code is imported from now on.

    Raises:
        ConfigError: The path is not a run directory.
    """
    path = Path(run)
    if not is_run(path):
        near: list[str] = []
        with contextlib.suppress(OSError, ValueError):  # the system, or Python, refuses such a name
            near = sorted(str(config.parent) for config in path.glob("**/config.yaml"))[:5]
        why = f"is not a run directory (no {CONFIG} in it)"
        raise ConfigError(bad_value(key, str(run), near or "the path that train.py printed last", why))
    user_modules.exclude(path)
    return path


def find_policy(run: str | Path, key: str = "run") -> tuple[Path, Path]:
    """Return the run directory and the policy file of a run, or of a policy file in a run.

    Raises:
        ConfigError: The file does not exist, or the folder is not a run directory.
    """
    path = Path(run)
    if path.suffix not in (".zip", ".safetensors"):
        return find(path, key), path / POLICY
    if not is_file(path):
        files = sorted(str(file) for file in path.parent.glob(f"*{path.suffix}"))
        raise ConfigError(bad_value(key, str(run), files, "does not exist"))
    return find(path.parent, key), path


def _refuse_special_files(run: Path) -> None:
    """Refuse links, because their targets would be written, and pipes, because a write to a pipe would block."""
    for path in run.rglob("*"):
        if path.is_symlink():
            why = "is a link: its target would be written"
        elif not path.is_file() and not path.is_dir() and path.exists():
            why = "is neither a file nor a folder"
        else:
            continue
        raise ConfigError(bad_value("run", str(path), "a run directory of plain files", why))
