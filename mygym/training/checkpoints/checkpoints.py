"""Checkpoints in `checkpoints/step_N/`: written atomically, verified when read; only the newest are kept."""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer

from mygym.engines.arrays import to_numpy
from mygym.training.buffers import FrameReplayBuffer, ImitationBuffer, MultiTaskHerReplayBuffer
from mygym.training.checkpoints import serialization
from mygym.training.device_replay import IN_TENSORS
from mygym.training.directory import CHECKPOINTS
from mygym.training.files import checksum, json_checksum, remove, write_bytes, writing
from mygym.training.result import versions
from mygym.types import Array

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
    """The checkpoints of a run."""

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
                manifest = {
                    "schema": SCHEMA,
                    "steps": steps,
                    "finished": finished,
                    "logs": dict(logs),
                    "versions": dict(versions()),
                    "chunks": self.replay.chunks,
                }
                _write_files(temporary, manifest, {"run": state, "replay": replay})
                temporary.rename(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        self._remove(self.paths()[: -self.keep])
        return path

    def rewrite(self, checkpoint: Checkpoint, state: Any) -> None:
        """Replace the state of a checkpoint, in a run that no process is training; this is not atomic. See `write`."""
        _write_files(checkpoint.path, _manifest(checkpoint.path), {"run": state, "replay": checkpoint.replay})

    def newest(self, notify: Callable[[str], None]) -> Checkpoint | None:
        """Return the newest undamaged checkpoint, or None; pass a message for each damaged checkpoint to `notify`."""
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
    _compare(MANIFEST, json_checksum(manifest), expected)
    if schema != SCHEMA:
        raise ValueError(f"{MANIFEST}: schema {schema} is not {SCHEMA}")
    return manifest


def _write_files(folder: Path, manifest: Mapping[str, Any], tree: Any) -> None:
    """Write the files of a tree, and the manifest with their checksums."""
    files = serialization.to_files(tree)
    manifest = {**manifest, "files": {name: checksum(content) for name, content in files.items()}}
    files[MANIFEST] = json.dumps({**manifest, "sha256": json_checksum(manifest)}, indent=2).encode()
    for name, content in files.items():
        write_bytes(folder / name, content)


def _compare(name: str, actual: str, expected: str) -> None:
    if actual != expected:
        raise ValueError(f"{name}: its checksum differs from the manifest")


FOLDER = "replay"
SMALL = 10_000
"""Number of transitions below which the last chunk is rewritten with the new transitions, so that chunks stay few."""

MAX_CHUNK_ROWS = 100_000
"""Maximum number of transitions in a chunk; while it is written, memory holds it twice."""

_APPENDING = (
    *(ReplayBuffer, DictReplayBuffer, HerReplayBuffer, NStepReplayBuffer),
    *(MultiTaskHerReplayBuffer, ImitationBuffer, FrameReplayBuffer, *IN_TENSORS.values()),
)
"""Classes of buffers that never change a written row of `_ROWS`; other buffers are written completely every time."""

_ROWS = frozenset(
    {"observations", "next_observations", "actions", "rewards", "dones", "timeouts", "ep_start", "earlier"}
)

_ATTRIBUTES = ("_current_ep_start", "newest")
"""Attributes without rows that are written completely."""


class ReplayLog:
    """Chunks of a replay buffer's rows in `replay/` of a folder. Row `n`, counted since the start, is at `n % size`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.chunks: list[dict[str, Any]] = []
        """`file`, `start` (first row), `rows` (number of rows) and `sha256` of each chunk, in the order of the rows."""
        self.total = 0
        """Number of rows added since the start."""
        self.steps = 0
        """Env steps at which `total` was counted."""

    def save(self, buffer: ReplayBuffer, steps: int) -> dict[str, Any]:
        """Write the new rows and return the rest of the state, an argument of `load`.

        Args:
            buffer: The buffer after `steps` env steps.
            steps: Env steps, which determine the number of new rows; if it does not fit, all rows are written.
        """
        size = buffer.buffer_size
        total, rewrite = self._count(buffer, steps)
        oldest = max(total - size, 0)
        chunks = [] if rewrite else [chunk for chunk in self.chunks if chunk["start"] + chunk["rows"] > oldest]
        if not all((self.folder / FOLDER / chunk["file"]).is_file() for chunk in chunks):
            chunks = []  # files were removed
        start = chunks[-1]["start"] + chunks[-1]["rows"] if chunks else oldest
        appended = dict(_rows(buffer))
        if appended and start < total:
            if chunks and chunks[-1]["rows"] * buffer.n_envs < SMALL and chunks[-1]["start"] >= oldest:
                start = chunks.pop()["start"]
            (self.folder / FOLDER).mkdir(exist_ok=True)
            rows = max(MAX_CHUNK_ROWS // buffer.n_envs, 1)
            for first in range(start, total, rows):
                last = min(first + rows, total)
                numbers = np.arange(first, last) % size
                separate = buffer.separate_rows(first, last) if isinstance(buffer, FrameReplayBuffer) else {}
                content = save({**{name: to_numpy(array[numbers]) for name, array in appended.items()}, **separate})
                file = f"rows_{first:012d}_{last:012d}_at_{steps}.safetensors"
                write_bytes(self.folder / FOLDER / file, content)
                chunks.append({"file": file, "start": first, "rows": last - first, "sha256": checksum(content)})
        self.chunks, self.total, self.steps = chunks, total, steps
        filled = size
        if type(buffer) in _APPENDING and not buffer.full:  # without `next_observations`, one more row is filled
            filled = buffer.pos + buffer.optimize_memory_usage
        return {
            "size": size,
            "total": total,
            "whole": {name: to_numpy(array[:filled]).copy() for name, array in _whole(buffer)},
            "infos": _infos(buffer)[:filled].tolist(),
            "own": {name: _copied(getattr(buffer, name)) for name in _ATTRIBUTES if hasattr(buffer, name)},
        }

    def load(self, buffer: ReplayBuffer, state: Mapping[str, Any], chunks: list[dict[str, Any]], steps: int) -> None:
        """Fill `buffer`, which may be larger than the saved buffer if the saved buffer was never full.

        Raises:
            ValueError: The rows do not fit.
        """
        size, total = buffer.buffer_size, state["total"]
        if size != state["size"] and total + buffer.optimize_memory_usage > min(size, state["size"]):
            raise ValueError(f"a replay buffer of {state['size']} rows does not fit into a buffer of {size}")
        self.chunks, self.total, self.steps = list(chunks), total, steps
        rows, whole = dict(_rows(buffer)), dict(_whole(buffer))
        for chunk in chunks:
            arrays = load_file(self.folder / FOLDER / chunk["file"])
            if isinstance(buffer, FrameReplayBuffer):
                arrays = buffer.load_separate_rows(arrays, total - size)
            for name, array in arrays.items():
                _fill(rows, name, (chunk["start"] + np.arange(len(array))) % size, array)
        for name, array in state["whole"].items():
            _fill(whole, name, np.arange(len(array)), array)
        for index, infos in enumerate(state["infos"]):
            _infos(buffer)[index] = infos
        for name, value in state["own"].items():
            present = getattr(buffer, name, None)
            is_tensor = isinstance(present, torch.Tensor)
            setattr(buffer, name, torch.tensor(value, device=buffer.device) if is_tensor else copy.deepcopy(value))
        buffer.pos, buffer.full = total % size, total >= size
        if isinstance(buffer, HerReplayBuffer) and total:  # in a larger buffer, the next row is not row 0
            buffer._current_ep_start[buffer.dones[buffer.pos - 1] > 0] = buffer.pos

    def _count(self, buffer: ReplayBuffer, steps: int) -> tuple[int, bool]:
        """Return the number of rows added since the start, and whether all rows must be written again.

        All rows must be written if the buffer was reset, or if its position does not fit the number of steps.
        """
        size = buffer.buffer_size
        total = self.total + (steps - self.steps) // buffer.n_envs
        if (total % size, total >= size) == (buffer.pos, buffer.full):
            return total, False
        rounds = self.total // size + 2 if buffer.full else 0
        return rounds * size + buffer.pos, True


def _arrays(buffer: ReplayBuffer) -> Iterator[tuple[str, str, Array]]:
    """Yield attribute, name and array of every array with one row per transition."""
    for attribute, value in vars(buffer).items():
        if attribute in _ATTRIBUTES:
            continue
        for key, array in value.items() if isinstance(value, dict) else [("", value)]:
            fits = isinstance(array, np.ndarray | torch.Tensor) and array.shape[:1] == (buffer.buffer_size,)
            if fits and array.dtype != object:
                yield attribute, f"{attribute}.{key}" if key else attribute, array


def _rows(buffer: ReplayBuffer) -> Iterator[tuple[str, Array]]:
    """Yield the arrays of which a checkpoint writes only new rows."""
    if type(buffer) in _APPENDING and not buffer.optimize_memory_usage:
        yield from ((name, array) for attribute, name, array in _arrays(buffer) if attribute in _ROWS)


def _whole(buffer: ReplayBuffer) -> Iterator[tuple[str, Array]]:
    """Yield the arrays that are written completely every time, because their old rows may change."""
    appending = dict(_rows(buffer))
    yield from ((name, array) for _, name, array in _arrays(buffer) if name not in appending)


def _fill(targets: Mapping[str, Array], name: str, numbers: NDArray[np.int64], rows: NDArray[Any]) -> None:
    """Write rows into the target after a check of their shape, because numpy would broadcast a mismatch."""
    if name not in targets or targets[name].shape[1:] != rows.shape[1:]:
        raise ValueError(f"{name} of the saved replay buffer does not fit into the buffer of this run")
    target = targets[name]
    target[numbers] = torch.tensor(rows, device=target.device) if isinstance(target, torch.Tensor) else rows


def _copied(value: Any) -> Any:
    """Return a copy of an attribute; a tensor as a numpy array."""
    return value.cpu().numpy().copy() if isinstance(value, torch.Tensor) else copy.deepcopy(value)


def _infos(buffer: ReplayBuffer) -> NDArray[Any]:
    """Return the infos of each transition, if hindsight replay keeps them."""
    if isinstance(buffer, HerReplayBuffer) and buffer.copy_info_dict:
        return buffer.infos
    return np.empty((0, buffer.n_envs), dtype=object)
