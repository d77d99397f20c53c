"""Checkpoints in `checkpoints/step_N/`: written atomically, verified when read; only the newest are kept."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mygym.training.checkpoints import serialization
from mygym.training.checkpoints.replay_log import FOLDER, ReplayLog
from mygym.training.directory import CHECKPOINTS
from mygym.training.files import checksum, remove, write_bytes, writing
from mygym.training.result import versions

MANIFEST = "manifest.json"
SCHEMA = 1

_MANIFEST_TYPES = {"steps": int, "finished": bool, "logs": dict, "versions": dict, "chunks": list}
"""Types of the manifest's values that become fields of a `Checkpoint`."""

_NAME = re.compile(r"step_(\d+)(?:_(\d+))?")
_READ_ERRORS = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Exceptions that reading a damaged or third-party checkpoint may raise."""


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint."""

    path: Path
    steps: int
    """Env steps."""
    finished: bool
    """Whether learning had ended."""
    logs: Mapping[str, int]
    """Length of each log file, bytes."""
    versions: Mapping[str, str]
    """Versions of Python and packages."""
    chunks: list[dict[str, Any]]
    """Files of the replay buffer (`ReplayLog`)."""
    state: Any
    """The saved tree."""
    replay: Any
    """The result of `ReplayLog.save`, or None."""


class Checkpoints:
    """The checkpoints of a run.

    Args:
        run: The run directory.
        keep: Number of checkpoints to keep.
    """

    def __init__(self, run: Path, keep: int) -> None:
        self.folder = run / CHECKPOINTS
        self.keep = keep
        self.replay = ReplayLog(self.folder)

    def write(
        self, steps: int, state: Any, logs: Mapping[str, int], buffer: Any = None, finished: bool = False
    ) -> Path:
        """Write a checkpoint; its folder appears when all its files are on the disk.

        Args:
            steps: Env steps so far.
            state: A tree (`mygym.training.checkpoints.serialization`).
            logs: Length of each log file, bytes.
            buffer: The replay buffer; None if the algorithm has none.
            finished: Whether learning has ended.

        Returns:
            Path of the checkpoint.

        Raises:
            RunError: The checkpoint cannot be written; earlier checkpoints are unchanged.
        """
        path = self._unused(steps)
        temporary = path.with_name(f".{path.name}.part")
        try:
            with writing(path):
                self.folder.mkdir(exist_ok=True)
                temporary.mkdir()
                replay = None if buffer is None else self.replay.save(buffer, steps)
                files = serialization.to_files({"run": state, "replay": replay})
                manifest = {
                    "schema": SCHEMA,
                    "steps": steps,
                    "finished": finished,
                    "logs": dict(logs),
                    "versions": dict(versions()),
                    "chunks": self.replay.chunks,
                    "files": {name: checksum(content) for name, content in files.items()},
                }
                files[MANIFEST] = _manifest_file(manifest)
                for name, content in files.items():
                    write_bytes(temporary / name, content)
                temporary.rename(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        self._remove(self.paths()[: -self.keep])
        return path

    def rewrite(self, checkpoint: Checkpoint, state: Any) -> None:
        """Replace the state of a checkpoint, in a run that no process is training; this is not atomic.

        Raises:
            RunError: The checkpoint cannot be written.
        """
        manifest = _manifest(checkpoint.path)
        files = serialization.to_files({"run": state, "replay": checkpoint.replay})
        manifest["files"] = {name: checksum(content) for name, content in files.items()}
        files[MANIFEST] = _manifest_file(manifest)
        for name, content in files.items():
            write_bytes(checkpoint.path / name, content)

    def newest(self, notify: Callable[[str], None]) -> Checkpoint | None:
        """Return the newest undamaged checkpoint; None if no checkpoint is undamaged.

        Args:
            notify: Called with a message for each damaged checkpoint.
        """
        for path in reversed(self.paths()):
            try:
                return self.read(path)
            except _READ_ERRORS as error:
                notify(f"{path} is damaged and not used: {error}")
        return None

    def discard_after(self, checkpoint: Checkpoint | None) -> None:
        """Remove the checkpoints and chunks that are newer than `checkpoint`; None: remove all.

        Raises:
            RunError: A checkpoint cannot be removed.
        """
        paths = self.paths()
        self._remove(paths[paths.index(checkpoint.path) + 1 :] if checkpoint else paths)

    def paths(self) -> list[Path]:
        """Return the folders of all checkpoints, the oldest first."""
        return sorted((path for path in self.folder.glob("step_*") if _NAME.fullmatch(path.name)), key=_numbers)

    def read(self, path: Path) -> Checkpoint:
        """Read and verify a checkpoint.

        Raises:
            OSError: A file is missing.
            ValueError: A file is damaged, or not written by `write`.
        """
        manifest = _manifest(path)
        for key, expected_type in _MANIFEST_TYPES.items():
            if type(manifest[key]) is not expected_type:
                raise ValueError(f"{MANIFEST}: {key} is {manifest[key]!r:.100}")
        files = {name: (path / name).read_bytes() for name in (serialization.STRUCTURE, serialization.TENSORS)}
        for name, content in files.items():
            _compare(name, checksum(content), manifest["files"][name])
        for chunk in manifest["chunks"]:
            if Path(chunk["file"]).name != chunk["file"]:
                raise ValueError(f"{chunk['file']!r} is not a file of a replay buffer")
            _compare(chunk["file"], checksum((self.folder / FOLDER / chunk["file"]).read_bytes()), chunk["sha256"])
        tree = serialization.from_files(files)
        fields = {key: manifest[key] for key in _MANIFEST_TYPES}
        return Checkpoint(path, **fields, state=tree["run"], replay=tree["replay"])

    def _unused(self, steps: int) -> Path:
        """Return a new path whose name sorts after all checkpoints with the same number of steps."""
        suffixes = [_numbers(path)[1] for path in self.paths() if _numbers(path)[0] == steps]
        suffix = f"_{max(suffixes) + 1}" if suffixes else ""
        return self.folder / f"step_{steps:010d}{suffix}"

    def _remove(self, paths: list[Path]) -> None:
        """Remove checkpoints, then the chunks that no remaining checkpoint needs."""
        with writing(self.folder):
            for path in paths:
                remove(path.rename(path.with_name(f".{path.name}.part")))
            needed = {chunk["file"] for chunk in self.replay.chunks}
            for path in self.paths():
                try:
                    needed |= {chunk["file"] for chunk in _manifest(path)["chunks"]}
                except _READ_ERRORS:
                    continue
            for path in (self.folder / FOLDER).glob("*"):
                if path.name not in needed:
                    remove(path)


def _numbers(path: Path) -> tuple[int, int]:
    """Return the env steps of a checkpoint, and its number among the checkpoints with the same env steps."""
    match = _NAME.fullmatch(path.name)
    assert match is not None
    return int(match[1]), int(match[2] or 1)


def _manifest(path: Path) -> Any:
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        expected, schema = manifest.pop("sha256"), manifest["schema"]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{MANIFEST} is not a manifest: {type(error).__name__}: {error}") from None
    _compare(MANIFEST, manifest_checksum(manifest), expected)
    if schema != SCHEMA:
        raise ValueError(f"{MANIFEST}: schema {schema} is not {SCHEMA}")
    return manifest


def _manifest_file(manifest: Mapping[str, Any]) -> bytes:
    return json.dumps({**manifest, "sha256": manifest_checksum(manifest)}, indent=2).encode()


def manifest_checksum(manifest: Mapping[str, Any]) -> str:
    """Return the checksum of a manifest, computed without the entry `sha256`."""
    return checksum(json.dumps(manifest, sort_keys=True).encode())


def _compare(name: str, actual: str, expected: str) -> None:
    if actual != expected:
        raise ValueError(f"{name}: its checksum differs from the manifest")
