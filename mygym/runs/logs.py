"""Log files that only grow: a checkpoint knows how long they were, and a resumed run goes on from there."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from stable_baselines3.common.logger import KVWriter, TensorBoardOutputFormat
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.summary.writer.record_writer import RecordWriter
from torch.utils.tensorboard.writer import FileWriter, SummaryWriter

from mygym.runs.directory import MONITOR, PROGRESS, TENSORBOARD, writing

EVENTS = "events.out.tfevents.mygym"

_NOT_LOGGED = frozenset({"time/iterations"})
"""SB3 counts rollouts from the start of a process; env steps tell the same."""


def lengths(run: Path) -> dict[str, int]:
    """Bytes in each log file of a run."""
    return {name: path.stat().st_size for name, path in _files(run) if path.exists()}


def cut(run: Path, known: Mapping[str, int]) -> Iterator[str]:
    """Cut each log file to the length that it had, at the end of a line; yields a message for each that is shorter."""
    for name, path in _files(run):
        length = int(known.get(name, 0))
        found = path.stat().st_size if path.exists() else 0
        if found > length:
            with path.open("rb+") as file:
                file.truncate(length)
        elif found < length:
            if path.exists():
                trim_to_whole_lines(path)
            yield f"{path} has lost {length - found} of its {length} bytes; new lines follow those that are left"


def trim_to_whole_lines(*paths: Path) -> None:
    """Cut off a last line, or record of TensorBoard's, that was not written to its end."""
    for path in paths:
        if path.is_file():
            with path.open("rb+") as file:
                content = file.read()
                file.truncate(_end_of_records(content) if path.name == EVENTS else content.rfind(b"\n") + 1)


def _end_of_records(content: bytes) -> int:
    """Where the last whole TFRecord ends: length (8 bytes), checksum (4), data, checksum (4)."""
    end = 0
    while len(content) >= (following := end + 16 + int.from_bytes(content[end : end + 8], "little")):
        end = following
    return end


def _files(run: Path) -> list[tuple[str, Path]]:
    return [(name, run / name) for name in (PROGRESS, MONITOR, f"{TENSORBOARD}/{EVENTS}")]


class _Growing:
    """A file at whose end pieces are put: each is whole in it, or, where that cannot be, not there at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with writing(path):
            self.file = path.open("ab", buffering=0)

    def write(self, piece: str | bytes) -> None:
        """Append `piece`.

        Raises:
            RunError: It cannot be written.
        """
        rest = piece.encode() if isinstance(piece, str) else piece
        length = self.length()
        try:
            with writing(self.path):
                while rest:  # a disk that becomes full takes a part of it
                    rest = rest[self.file.write(rest) :]
        except BaseException:
            with contextlib.suppress(OSError):
                self.file.truncate(length)
            raise

    def length(self) -> int:
        """Bytes in it."""
        return os.fstat(self.file.fileno()).st_size

    def flush(self) -> None:
        """There is nothing to do: what `write` was given is in the file."""

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class JsonLines(KVWriter):
    """SB3 log writer: one JSON object a line, whole lines only."""

    def __init__(self, path: Path) -> None:
        self.file = _Growing(path)

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0) -> None:
        """Append the values of one dump."""
        numbers = {
            key: _plain(value)
            for key, value in sorted(key_values.items())
            if not isinstance(value, str) and key not in _NOT_LOGGED
        }
        self.file.write(json.dumps({"steps": step, **numbers}) + "\n")

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def _plain(value: Any) -> float | int | None:
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, bool | int):
        return int(number)
    return float(number) if isinstance(number, float) and math.isfinite(number) else None


class EpisodesCsv:
    """Writes `monitor.csv` in the form of SB3's `Monitor`: a line for each episode.

    Args:
        path: The file; lines are appended to what it has.
        keys: What is written besides return `r`, length `l` and time `t`.
        started: Time of the run's start, s since the epoch.
        note: Called with each episode as well.
    """

    def __init__(
        self,
        path: Path,
        keys: tuple[str, ...],
        started: float,
        note: Callable[[Mapping[str, Any]], None] = lambda episode: None,
    ) -> None:
        self.file = _Growing(path)
        self.note = note
        self.writer = csv.DictWriter(self.file, fieldnames=("r", "l", "t", *keys), lineterminator="\n")
        if not self.file.length():
            self.file.write(f"#{json.dumps({'t_start': started})}\n")
            self.writer.writeheader()

    def write_row(self, episode: Mapping[str, Any]) -> None:
        """Append an episode."""
        self.writer.writerow(episode)
        self.note(episode)

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class TensorBoard(TensorBoardOutputFormat):
    """SB3's TensorBoard output into one file that grows.

    The usual writer begins a new file at each start, named after the clock, and hands its records to a thread through a
    queue, which a full disk stops for good; here they are in the file when `write` returns.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.writer = _Writer(folder)
        self._is_closed = False


class _Writer(SummaryWriter):
    def _get_file_writer(self) -> Any:
        if self.file_writer is None:
            vars(self).update(
                file_writer=(writer := _FileWriter(Path(self.log_dir))), all_writers={self.log_dir: writer}
            )
        return self.file_writer


class _FileWriter(FileWriter):
    def __init__(self, folder: Path) -> None:
        self.event_writer = _Events(folder)


class _Events:
    """In place of TensorBoard's `EventFileWriter`, without its thread."""

    def __init__(self, folder: Path) -> None:
        self.file = _Growing(folder / EVENTS)
        self.records = RecordWriter(self.file)
        if not self.file.length():
            self.add_event(Event(wall_time=time.time(), file_version="brain.Event:2"))

    def add_event(self, event: Event) -> None:
        self.records.write(event.SerializeToString())

    def flush(self) -> None:
        self.file.flush()

    def close(self) -> None:
        self.file.close()
