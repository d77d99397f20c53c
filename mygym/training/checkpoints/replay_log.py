"""Incremental storage of a replay buffer: each checkpoint writes only the rows added since the previous checkpoint."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
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
from mygym.training.device_replay import IN_TENSORS
from mygym.training.files import checksum, write_bytes
from mygym.types import Array

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
    """Chunks of a replay buffer's rows. Row `n`, counted since the start, is in the buffer at `n % size`.

    Args:
        folder: `checkpoints/` of the run; the chunks are in its subfolder `replay/`.
    """

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

        Args:
            buffer: The buffer to fill.
            state: The result of `save`.
            chunks: The chunks of the checkpoint.
            steps: Env steps of the checkpoint.

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
    """Write rows into the target after a check of their shape, because numpy would broadcast a mismatch.

    Raises:
        ValueError: The rows do not fit.
    """
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
