"""A replay buffer on disk: what was added since the last checkpoint is written, what was written before stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer

from mygym.runs.directory import checksum, write_bytes
from mygym.runs.imitation_buffer import ImitationBuffer
from mygym.runs.multi_task_her import MultiTaskHerReplayBuffer

FOLDER = "replay"
SMALL = 10_000
"""Transitions below which the last chunk is written again together with the new ones: so chunks stay few."""

LARGEST = 100_000
"""Transitions in a chunk at most, because a chunk is in memory twice while it is written."""

_APPENDING = (
    *(ReplayBuffer, DictReplayBuffer, HerReplayBuffer, NStepReplayBuffer),
    *(MultiTaskHerReplayBuffer, ImitationBuffer),
)
"""Buffers that change no row of `_ROWS` once it is written; of other classes everything is written every time."""

_ROWS = frozenset({"observations", "next_observations", "actions", "rewards", "dones", "timeouts", "ep_start"})


class ReplayLog:
    """Chunks of a replay buffer's rows. Row `n` of all that were ever added is in the buffer at `n % size`.

    Args:
        folder: `checkpoints/` of the run; the chunks are in `replay/` below it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.chunks: list[dict[str, Any]] = []
        """`file`, `start` and `rows` (numbers of rows), `sha256`; in the order of their rows."""
        self.total = 0
        """Rows ever added."""
        self.steps = 0
        """Env steps when `total` was that."""

    def save(self, buffer: ReplayBuffer, steps: int) -> dict[str, Any]:
        """Write what is new; returns the rest of the state, which `load` wants.

        Args:
            buffer: The buffer as it is after `steps` env steps.
            steps: Tells how many rows came; where it is wrong, everything is written.
        """
        size = buffer.buffer_size
        total, anew = self._count(buffer, steps)
        oldest = max(total - size, 0)
        chunks = [] if anew else [chunk for chunk in self.chunks if chunk["start"] + chunk["rows"] > oldest]
        if not all((self.folder / FOLDER / chunk["file"]).is_file() for chunk in chunks):
            chunks = []  # somebody has removed some
        start = chunks[-1]["start"] + chunks[-1]["rows"] if chunks else oldest
        appended = dict(_rows(buffer))
        if appended and start < total:
            if chunks and chunks[-1]["rows"] * buffer.n_envs < SMALL and chunks[-1]["start"] >= oldest:
                start = chunks.pop()["start"]
            (self.folder / FOLDER).mkdir(exist_ok=True)
            rows = max(LARGEST // buffer.n_envs, 1)
            for first in range(start, total, rows):
                last = min(first + rows, total)
                numbers = np.arange(first, last) % size
                content = save({name: array[numbers] for name, array in appended.items()})
                file = f"rows_{first:012d}_{last:012d}_at_{steps}.safetensors"
                write_bytes(self.folder / FOLDER / file, content)
                chunks.append({"file": file, "start": first, "rows": last - first, "sha256": checksum(content)})
        self.chunks, self.total, self.steps = chunks, total, steps
        filled = size
        if type(buffer) in _APPENDING and not buffer.full:  # without `next_observations` the last is a row further
            filled = buffer.pos + buffer.optimize_memory_usage
        return {
            "size": size,
            "total": total,
            "whole": {name: array[:filled].copy() for name, array in _whole(buffer)},
            "infos": _infos(buffer)[:filled].tolist(),
            "own": {name: getattr(buffer, name).copy() for name in ("_current_ep_start",) if hasattr(buffer, name)},
        }

    def load(self, buffer: ReplayBuffer, state: Mapping[str, Any], chunks: list[dict[str, Any]], steps: int) -> None:
        """Fill `buffer`, which may be larger than the saved one if that never was full.

        Raises:
            ValueError: The rows do not fit.
        """
        size, total = buffer.buffer_size, state["total"]
        if size != state["size"] and total + buffer.optimize_memory_usage > min(size, state["size"]):
            raise ValueError(f"a replay buffer of {state['size']} rows does not fit into one of {size}")
        self.chunks, self.total, self.steps = list(chunks), total, steps
        rows, whole = dict(_rows(buffer)), dict(_whole(buffer))
        for chunk in chunks:
            for name, array in load_file(self.folder / FOLDER / chunk["file"]).items():
                _fill(rows, name, (chunk["start"] + np.arange(len(array))) % size, array)
        for name, array in state["whole"].items():
            _fill(whole, name, np.arange(len(array)), array)
        for index, infos in enumerate(state["infos"]):
            _infos(buffer)[index] = infos
        for name, array in state["own"].items():
            setattr(buffer, name, array.copy())
        buffer.pos, buffer.full = total % size, total >= size
        if isinstance(buffer, HerReplayBuffer) and total:  # row 0 of a buffer just full is not the next of a larger one
            buffer._current_ep_start[buffer.dones[buffer.pos - 1] > 0] = buffer.pos

    def _count(self, buffer: ReplayBuffer, steps: int) -> tuple[int, bool]:
        """Rows ever added, and whether none on disk counts any more: the buffer was reset, or steps do not tell."""
        size = buffer.buffer_size
        total = self.total + (steps - self.steps) // buffer.n_envs
        if (total % size, total >= size) == (buffer.pos, buffer.full):
            return total, False
        rounds = self.total // size + 2 if buffer.full else 0
        return rounds * size + buffer.pos, True


def _arrays(buffer: ReplayBuffer) -> Iterator[tuple[str, str, NDArray[Any]]]:
    """Attribute, name and array of everything with a row for each transition."""
    for attribute, value in vars(buffer).items():
        for key, array in value.items() if isinstance(value, dict) else [("", value)]:
            fits = isinstance(array, np.ndarray) and array.shape[:1] == (buffer.buffer_size,)
            if fits and array.dtype != object:
                yield attribute, f"{attribute}.{key}" if key else attribute, array


def _rows(buffer: ReplayBuffer) -> Iterator[tuple[str, NDArray[Any]]]:
    """Arrays of which only new rows need writing."""
    if type(buffer) in _APPENDING and not buffer.optimize_memory_usage:
        yield from ((name, array) for attribute, name, array in _arrays(buffer) if attribute in _ROWS)


def _whole(buffer: ReplayBuffer) -> Iterator[tuple[str, NDArray[Any]]]:
    """Arrays that are written every time, because old rows of them change."""
    appending = dict(_rows(buffer))
    yield from ((name, array) for _, name, array in _arrays(buffer) if name not in appending)


def _fill(targets: Mapping[str, NDArray[Any]], name: str, numbers: NDArray[np.int64], rows: NDArray[Any]) -> None:
    """Write rows with these numbers; numpy alone would spread the rows of one environment over several."""
    if name not in targets or targets[name].shape[1:] != rows.shape[1:]:
        raise ValueError(f"{name} of the saved replay buffer does not fit into this one")
    targets[name][numbers] = rows


def _infos(buffer: ReplayBuffer) -> NDArray[Any]:
    """Infos of each transition, where hindsight replay was asked to keep them."""
    if isinstance(buffer, HerReplayBuffer) and buffer.copy_info_dict:
        return buffer.infos
    return np.empty((0, buffer.n_envs), dtype=object)
