"""Checkpoints: `checkpoints/step_N/`, whole or absent, checked when read, the newest few kept."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mygym.runs.checkpoints import serialization
from mygym.runs.checkpoints.replay_log import FOLDER, ReplayLog
from mygym.runs.directory import CHECKPOINTS, checksum, remove, write_bytes, writing
from mygym.runs.result import versions

MANIFEST = "manifest.json"
SCHEMA = 1

_KINDS = {"steps": int, "finished": bool, "logs": dict, "versions": dict, "chunks": list}
"""What of a manifest becomes part of a `Checkpoint`."""

_NAME = re.compile(r"step_(\d+)(?:_(\d+))?")
_DAMAGE = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What reading something that is no checkpoint of ours may raise."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files are as they were written."""

    path: Path
    steps: int
    finished: bool
    """Whether learning had come to its end."""
    logs: Mapping[str, int]
    """Length in bytes of each log file then."""
    versions: Mapping[str, str]
    chunks: list[dict[str, Any]]
    """Files of the replay buffer (`ReplayLog`)."""
    state: Any
    """The tree that was saved."""
    replay: Any
    """What `ReplayLog.save` gave, or None."""


class Checkpoints:
    """The checkpoints of a run.

    Args:
        run: The run directory.
        keep: How many of the newest stay.
    """

    def __init__(self, run: Path, keep: int) -> None:
        self.folder = run / CHECKPOINTS
        self.keep = keep
        self.replay = ReplayLog(self.folder)

    def write(
        self, steps: int, state: Any, logs: Mapping[str, int], buffer: Any = None, finished: bool = False
    ) -> Path:
        """Write a checkpoint: its folder appears when everything in it is on the disk.

        Args:
            steps: Env steps so far.
            state: A tree (`mygym.runs.checkpoints.serialization`).
            logs: Length in bytes of each log file.
            buffer: The replay buffer, if there is one.
            finished: Whether learning has come to its end.

        Raises:
            RunError: It cannot be written; those before it are as they were.
        """
        path = self._free(steps)
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
                files[MANIFEST] = json.dumps({**manifest, "sha256": _checksum_of(manifest)}, indent=2).encode()
                for name, content in files.items():
                    write_bytes(temporary / name, content)
                temporary.rename(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        self._drop(self._all()[: -self.keep])
        return path

    def newest(self, tell: Callable[[str], None]) -> Checkpoint | None:
        """The newest checkpoint that is undamaged.

        Args:
            tell: Called with a message for each damaged one.
        """
        for path in reversed(self._all()):
            try:
                return self._read(path)
            except _DAMAGE as error:
                tell(f"{path} is damaged and not used: {error}")
        return None

    def go_on_from(self, checkpoint: Checkpoint | None) -> None:
        """Remove checkpoints and chunks that are not of the past of `checkpoint` (None: all of them).

        Raises:
            RunError: They cannot be removed.
        """
        known = self._all()
        self._drop(known[known.index(checkpoint.path) + 1 :] if checkpoint else known)

    def _free(self, steps: int) -> Path:
        """A name that is newer than all others of as many steps."""
        others = [_numbers(path)[1] for path in self._all() if _numbers(path)[0] == steps]
        suffix = f"_{max(others) + 1}" if others else ""
        return self.folder / f"step_{steps:010d}{suffix}"

    def _all(self) -> list[Path]:
        """From the oldest to the newest."""
        return sorted((path for path in self.folder.glob("step_*") if _NAME.fullmatch(path.name)), key=_numbers)

    def _read(self, path: Path) -> Checkpoint:
        manifest = _manifest(path)
        for key, kind in _KINDS.items():
            if type(manifest[key]) is not kind:
                raise ValueError(f"{MANIFEST}: {key} is {manifest[key]!r:.100}")
        files = {name: (path / name).read_bytes() for name in (serialization.STRUCTURE, serialization.TENSORS)}
        for name, content in files.items():
            _compare(name, checksum(content), manifest["files"][name])
        for chunk in manifest["chunks"]:
            if Path(chunk["file"]).name != chunk["file"]:
                raise ValueError(f"{chunk['file']!r} is no file of a replay buffer")
            _compare(chunk["file"], checksum((self.folder / FOLDER / chunk["file"]).read_bytes()), chunk["sha256"])
        tree = serialization.from_files(files)
        return Checkpoint(path, **{key: manifest[key] for key in _KINDS}, state=tree["run"], replay=tree["replay"])

    def _drop(self, paths: list[Path]) -> None:
        """Remove checkpoints, then the chunks that no other needs."""
        with writing(self.folder):
            for path in paths:
                remove(path.rename(path.with_name(f".{path.name}.part")))
            needed = {chunk["file"] for chunk in self.replay.chunks}
            for path in self._all():
                try:
                    needed |= {chunk["file"] for chunk in _manifest(path)["chunks"]}
                except _DAMAGE:
                    continue
            for path in (self.folder / FOLDER).glob("*"):
                if path.name not in needed:
                    remove(path)


def _numbers(path: Path) -> tuple[int, int]:
    """Env steps of a checkpoint, and which it is of those with as many."""
    match = _NAME.fullmatch(path.name)
    assert match is not None
    return int(match[1]), int(match[2] or 1)


def _manifest(path: Path) -> Any:
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        expected, schema = manifest.pop("sha256"), manifest["schema"]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{MANIFEST} is no manifest: {type(error).__name__}: {error}") from None
    _compare(MANIFEST, _checksum_of(manifest), expected)
    if schema != SCHEMA:
        raise ValueError(f"{MANIFEST}: schema {schema} is not {SCHEMA}")
    return manifest


def _checksum_of(manifest: Mapping[str, Any]) -> str:
    return checksum(json.dumps(manifest, sort_keys=True).encode())


def _compare(name: str, found: str, expected: str) -> None:
    if found != expected:
        raise ValueError(f"{name}: its checksum is not that of the manifest")
