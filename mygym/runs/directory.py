"""The run directory: where it is, and how files get into it whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from mygym.config.loading import Dumper
from mygym.errors import ConfigError, RunError, bad_value

CONFIG = "config.yaml"
RESULT = "result.json"
PROGRESS = "progress.jsonl"
MONITOR = "monitor.csv"
MODEL = "model.zip"
BEST_MODEL = "best_model.zip"
POLICY = "policy.safetensors"
BEST_POLICY = "best_policy.safetensors"
TRACEBACK = "traceback.txt"
LOCK = ".lock"
CHECKPOINTS = "checkpoints"
TENSORBOARD = "tensorboard"
VIDEOS = "videos"


def create(logdir: str, task: str, robot: str, algo: str, setting: str, seed: int) -> Path:
    """A new `LOGDIR/TASK/ROBOT/ALGO/SETTING/seed_S`, with a suffix if that exists.

    Raises:
        ConfigError: It cannot be created or written; nothing is left behind.
    """
    folder = Path(logdir).expanduser() / re.sub(r"[^\w.+-]+", "_", task) / robot / algo / setting
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for suffix in ("", *(f"_{number}" for number in range(2, 10_000))):
            path = folder / f"seed_{seed}{suffix}"
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path
    except OSError as error:
        why = f"cannot be written ({error.strerror or error})"
        raise ConfigError(bad_value("logdir", logdir, "a folder that you may write to", why)) from None
    raise ConfigError(bad_value("logdir", str(folder), "a folder with fewer runs of one seed", "is full"))


def check_writable(folder: str | Path, key: str = "logdir", value: str | None = None) -> None:
    """Refuse a folder that cannot be written or made, before anything is built; leaves nothing behind.

    Args:
        folder: What will be written into.
        key: The setting that named it.
        value: What the user gave, if not the folder itself.

    Raises:
        ConfigError: It, or its nearest existing parent, is no folder or not writable.
    """
    place = Path(folder)
    try:
        place = place.expanduser().absolute()
        while not place.exists() and place != place.parent:
            place = place.parent
        if not place.is_dir():
            raise NotADirectoryError(20, "not a folder")
        with tempfile.TemporaryFile(dir=place):
            pass
    except (OSError, ValueError, RuntimeError) as error:  # a name too long, a NUL in it, the home of nobody
        why = f"cannot be written ({getattr(error, 'strerror', None) or error}: {place})"
        raise ConfigError(bad_value(key, value or str(folder), "a folder that you may write to", why)) from None


def check_new(path: Path, key: str, what: str) -> None:
    """Refuse a path where something is, or where nothing can be written.

    Args:
        path: Where `what`, e.g. "a folder", will be made.
        key: The setting that named it.
        what: In words.

    Raises:
        ConfigError: It is one.
    """
    check_writable(path.parent, key, str(path))
    if os.path.lexists(path):
        raise ConfigError(bad_value(key, str(path), f"{what} that does not exist yet", "exists already"))


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the system says of a failed write into our error.

    Raises:
        RunError: Writing failed (disk full, folder gone).
    """
    try:
        yield
    except (OSError, RuntimeError) as error:  # torch reports a full disk as RuntimeError
        raise RunError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from error


def write(path: Path, save: Callable[[Path], None]) -> None:
    """Let `save` write a temporary file beside `path`, then rename it: the file is whole or absent.

    Raises:
        RunError: Writing failed; what was there before is untouched.
    """
    temporary = path.with_name(f".{path.stem}.part{path.suffix}")
    try:
        with writing(path):
            save(temporary)
            temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            os.truncate(temporary, 0)  # SB3 leaves a file open where it fails, which would keep the space on the disk
            temporary.unlink()


def write_bytes(path: Path, content: bytes) -> None:
    """`write` of bytes, which are on the disk when it returns."""
    write(path, lambda temporary: _write_all(temporary, content))


def write_text(path: Path, text: str) -> None:
    """`write_bytes` of a text."""
    write_bytes(path, text.encode())


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """`write` of JSON, not-a-number as null."""
    write_text(path, json.dumps(_finite(content), indent=2) + "\n")


def write_yaml(path: Path, content: Mapping[str, Any]) -> None:
    """`write` of YAML, keys in their order."""
    write_text(path, to_yaml(content))


def to_yaml(content: Mapping[str, Any]) -> str:
    """YAML with keys in their order and short lists on one line."""
    return yaml.dump(
        dict(content), Dumper=Dumper, sort_keys=False, default_flow_style=None, width=100, allow_unicode=True
    )


@contextlib.contextmanager
def lock(run: Path) -> Iterator[None]:
    """Hold a run directory for writing; the system lets go of it when the process ends, however it ends.

    Raises:
        ConfigError: Another process holds it, or something in it is a link.
        RunError: It cannot be written.
    """
    _refuse_what_leads_elsewhere(run)
    held = FileLock(run / LOCK)
    try:
        held.acquire(timeout=0)
    except Timeout:
        why = "is being written by another process"
        raise ConfigError(bad_value("run", str(run), "a run that no other process is training", why)) from None
    except OSError as error:
        raise RunError(f"{run}: cannot be written: {error.strerror or error}") from None
    try:
        yield
    finally:
        held.release()


class Place:
    """A run directory that must stay the one that it was: somebody may remove it, or move it, and begin another there.

    Args:
        run: The run directory.
    """

    def __init__(self, run: Path) -> None:
        self.run = run
        self._held = os.open(run, os.O_RDONLY)

    def check(self) -> None:
        """Raise unless the path still leads to it.

        Raises:
            RunError: It is gone.
        """
        try:
            gone = not os.path.samestat(os.fstat(self._held), self.run.stat())
        except OSError as error:
            gone = isinstance(error, FileNotFoundError | NotADirectoryError)
        if gone:
            raise RunError(f"{self.run}: is gone: it was removed or moved while the run wrote there")

    def close(self) -> None:
        """Let go of it."""
        os.close(self._held)


def sweep(run: Path) -> None:
    """Remove what a process that was killed has left half-written."""
    for path in [path for path in run.rglob(".*.part*") if path.exists()]:
        remove(path)


def remove(path: Path) -> None:
    """Remove a file or a folder and everything in it; of a link the link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def checksum(content: bytes) -> str:
    """SHA-256, in hex digits."""
    return hashlib.sha256(content).hexdigest()


def is_run(path: Path) -> bool:
    """Whether `path` is a run directory."""
    return _is_file(path / CONFIG)


def find(run: str | Path, key: str = "run") -> Path:
    """The run directory that the user means.

    Args:
        run: Its path.
        key: The setting that named it.

    Raises:
        ConfigError: There is none.
    """
    path = Path(run)
    if not is_run(path):
        near: list[str] = []
        with contextlib.suppress(OSError):  # the system takes no such name
            near = sorted(str(config.parent) for config in path.glob("**/config.yaml"))[:5]
        why = f"is not a run directory (no {CONFIG} in it)"
        raise ConfigError(bad_value(key, str(run), near or "the path that train.py printed last", why))
    return path


def find_policy(run: str | Path, key: str = "run") -> tuple[Path, Path]:
    """The run directory and the file in it that holds the policy which the user means; as `find`.

    Raises:
        ConfigError: There is none.
    """
    path = Path(run)
    if path.suffix not in (".zip", ".safetensors"):
        return find(path, key), path / POLICY
    if not _is_file(path):
        files = sorted(str(file) for file in path.parent.glob(f"*{path.suffix}"))
        raise ConfigError(bad_value(key, str(run), files, "does not exist"))
    return find(path.parent, key), path


def _refuse_what_leads_elsewhere(run: Path) -> None:
    """Refuse links, through which files elsewhere would be written, and pipes, which nobody may ever read.

    Raises:
        ConfigError: Names the first.
    """
    for path in run.rglob("*"):
        if path.is_symlink():
            why = "is a link: what it points to would be written"
        elif not path.is_file() and not path.is_dir() and path.exists():
            why = "is neither a file nor a folder"
        else:
            continue
        raise ConfigError(bad_value("run", str(path), "a run directory of plain files", why))


def _is_file(path: Path) -> bool:
    """Whether there is a file, also where the system takes no such name."""
    try:
        return path.is_file()
    except OSError:
        return False


def _write_all(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _finite(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float) and (content != content or abs(content) == float("inf")):
        return None
    return content
