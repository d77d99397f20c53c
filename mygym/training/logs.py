"""Append-only log files: a checkpoint records their lengths, and a resumed run truncates them to these lengths."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stable_baselines3.common.logger import KVWriter, TensorBoardOutputFormat
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.summary.writer.record_writer import RecordWriter
from torch.utils.tensorboard import writer as tensorboard_writer
from torch.utils.tensorboard.summary import hparams

from mygym.config.layers import flatten
from mygym.errors import RunError
from mygym.training.directory import MONITOR, PROGRESS, TENSORBOARD, WRITTEN
from mygym.training.files import to_yaml, writing

EVENTS = "events.out.tfevents"
"""Beginning of the name of an event file."""

_NOT_LOGGED = frozenset({"time/iterations"})
"""SB3 counts rollouts from the start of the process, so a resumed run would begin at 0 again."""


def lengths(run: Path) -> dict[str, int]:
    """Return the length in bytes of each log file of a run."""
    return {name: path.stat().st_size for name, path in _log_files(run) if path.exists()}


def check_files(run: Path) -> None:
    """Raise `RunError` if a folder is in the place of a file that a resumed run writes."""
    for path in (*(run / name for name in WRITTEN), *(path for _, path in _log_files(run))):
        if path.is_dir():
            raise RunError(f"{path} is a folder, in the place of a file; delete it")


def truncate(run: Path, known: Mapping[str, int]) -> Iterator[str]:
    """Truncate each log file to its length in `known`; yield a message for each file that is shorter."""
    for name, path in _log_files(run):
        length = int(known.get(name, 0))
        current = path.stat().st_size if path.exists() else 0
        if current > length:
            with path.open("rb+") as file:
                file.truncate(length)
        elif current < length:
            if path.exists():
                trim_partial_records(path)
            yield f"{path} has lost {length - current} of its {length} bytes; new lines follow the remaining lines"


def trim_partial_records(*paths: Path) -> None:
    """Remove an incomplete last line, or an incomplete last record of a TensorBoard file."""
    for path in paths:
        if path.is_file():
            with path.open("rb+") as file:
                content = file.read()
                file.truncate(_end_of_records(content) if path.name.startswith(EVENTS) else content.rfind(b"\n") + 1)


def _end_of_records(content: bytes) -> int:
    """Return the end of the last complete TFRecord: length (8 bytes), checksum (4), data, checksum (4)."""
    end = 0
    while len(content) >= (following := end + 16 + int.from_bytes(content[end : end + 8], "little")):
        end = following
    return end


def _log_files(run: Path) -> list[tuple[str, Path]]:
    events = (f"{TENSORBOARD}/{EVENTS}.mygym", events_file(run / TENSORBOARD))
    return [(PROGRESS, run / PROGRESS), (MONITOR, run / MONITOR), events]


def events_file(folder: Path) -> Path:
    """Return the event file of a folder, which need not exist."""
    return next(folder.glob(f"{EVENTS}.*mygym"), folder / f"{EVENTS}.mygym")


class _AppendOnlyFile:
    """File to which records are appended completely or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with writing(path):
            self.file = path.open("ab", buffering=0)

    def write(self, record: str | bytes) -> None:
        """Append `record`; raise `RunError` if the file cannot be written."""
        rest = record.encode() if isinstance(record, str) else record
        length = self.length()
        try:
            with writing(self.path):
                while rest:  # a disk that becomes full accepts only a part of the record
                    rest = rest[self.file.write(rest) :]
        except BaseException:
            with contextlib.suppress(OSError):
                self.file.truncate(length)
            raise

    def length(self) -> int:
        """Return the length in bytes."""
        return os.fstat(self.file.fileno()).st_size

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class JsonLines(KVWriter):
    """SB3 log writer with a JSON object in each line."""

    def __init__(self, path: Path) -> None:
        self.file = _AppendOnlyFile(path)

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0) -> None:
        """Append the values of a dump."""
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
    """Writer of `monitor.csv` in the format of SB3's `Monitor`: one line per episode.

    Args:
        path: The file, to which lines are appended.
        keys: Columns besides return `r`, length `l` and time `t`.
        started: Start of the run, s since the epoch.
        on_episode: Called with each episode.
    """

    def __init__(
        self,
        path: Path,
        keys: tuple[str, ...],
        started: float,
        on_episode: Callable[[Mapping[str, Any]], None] = lambda episode: None,
    ) -> None:
        self.file = _AppendOnlyFile(path)
        self.on_episode = on_episode
        self.columns = _columns(path, keys)
        if not self.file.length():
            self.file.write(f"#{json.dumps({'t_start': started})}\n{','.join(self.columns)}\n")

    def write_rows(self, episodes: Sequence[Mapping[str, Any]]) -> None:
        """Append the episodes that end in a step: all, or none if the file cannot be written."""
        lines = io.StringIO()
        rows = ([episode.get(column, "") for column in self.columns] for episode in episodes)
        csv.writer(lines, lineterminator="\n").writerows(rows)
        self.file.write(lines.getvalue())
        for episode in episodes:
            self.on_episode(episode)

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def _columns(path: Path, keys: tuple[str, ...]) -> list[str]:
    """Return the columns of an existing file of episodes, which are fewer in an older run; else of a new file."""
    first = ["r", "l", "t"]
    with path.open(encoding="utf-8", errors="replace") as file:
        header = next((line for line in file if not line.startswith("#")), "").strip().split(",")
    return header if header[:3] == first else [*first, *keys]


class TensorBoard(TensorBoardOutputFormat):
    """SB3's TensorBoard output (scalars, text, hyperparameters, images) into one file without a writer thread.

    An event is in the file when `write` returns, and `truncate` cuts the file exactly at the checkpoint.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        events = events_file(folder)
        self._is_new = not (events.exists() and events.stat().st_size)
        self.writer = _SummaryWriter(folder)
        self._is_closed = False

    def write_config(self, values: Mapping[str, Any]) -> None:
        """Write the config with which a run begins, as text and as hyperparameters; once, also in a resumed run."""
        if not self._is_new:
            return
        self.writer.add_text("config", f"```yaml\n{to_yaml(values)}```")
        hyperparameters = {
            key: value if isinstance(value, bool | int | float) else str(value)
            for key, value in flatten(values)
            if value not in (None, {})
        }
        for summary in hparams(hyperparameters, {"eval/success_rate": 0.0}):  # type: ignore[no-untyped-call]
            self.writer._get_file_writer().add_summary(summary)  # type: ignore[no-untyped-call]


class _SummaryWriter(tensorboard_writer.SummaryWriter):
    def _get_file_writer(self) -> Any:
        if self.file_writer is None:
            vars(self).update(
                file_writer=(writer := _FileWriter(Path(self.log_dir))), all_writers={self.log_dir: writer}
            )
        return self.file_writer


class _FileWriter(tensorboard_writer.FileWriter):
    def __init__(self, folder: Path) -> None:
        # `wandb.init(sync_tensorboard=True)` replaces TensorBoard's class with a subclass that follows the folder
        *replacements, _original, _object = tensorboard_writer.EventFileWriter.mro()  # type: ignore[attr-defined]
        self.event_writer = type("EventWriter", (*replacements, _EventWriter), {})(str(folder))


_TensorBoardWriter: Any = tensorboard_writer.EventFileWriter.mro()[-2]  # type: ignore[attr-defined]
"""TensorBoard's class, also if Weights & Biases has replaced it before this import."""


class _EventWriter(_TensorBoardWriter):  # type: ignore[misc]
    """TensorBoard's `EventFileWriter`, but it writes in the calling thread and continues the file of the folder.

    The file gets a new name in TensorBoard's form: Weights & Biases reads from it that the file is of this process.
    """

    def __init__(self, folder: str) -> None:
        path = Path(folder) / f"{EVENTS}.{int(time.time())}.{socket.gethostname()}.mygym"
        with writing(path), contextlib.suppress(FileNotFoundError):
            events_file(path.parent).replace(path)
        self.file = _AppendOnlyFile(path)
        self.records = RecordWriter(self.file)
        if not self.file.length():
            self.add_event(Event(wall_time=time.time(), file_version="brain.Event:2"))

    def add_event(self, event: Event) -> None:
        self.records.write(event.SerializeToString())

    def flush(self) -> None:
        """Do nothing: `add_event` is not buffered."""

    def close(self) -> None:
        self.file.close()
