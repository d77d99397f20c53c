"""Log files: complete lines and records, truncation at checkpoints."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.logger import HParam
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from torch.utils.tensorboard import writer

from mygym.training import logs
from mygym.training.directory import MONITOR, PROGRESS, TENSORBOARD
from mygym.training.logs import EpisodesCsv, JsonLines, TensorBoard, events_file

EVENTS = "tensorboard/events.out.tfevents.mygym"
"""Key of the event file's length in a checkpoint; in older runs also the path of the file."""


def test_json_lines_hold_numbers_only(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "progress.jsonl")
    values = {"loss": np.float32(0.5), "n": 3, "bad": float("nan"), "text": "x", "flag": True}
    lines.write(values, dict.fromkeys(values), 10)
    lines.write({"loss": 1.0}, {"loss": None}, 20)
    lines.close()
    read = [json.loads(line, parse_constant=None) for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert read == [{"steps": 10, "loss": 0.5, "n": 3, "bad": None, "flag": 1}, {"steps": 20, "loss": 1.0}]


def test_incomplete_last_line_is_removed(tmp_path: Path) -> None:
    whole, cut, empty = (tmp_path / name for name in ("whole", "cut", "empty"))
    whole.write_bytes(b"1\n2\n")
    cut.write_bytes(b"1\n2\n3")
    empty.write_bytes(b"")
    logs.trim_partial_records(whole, cut, empty, tmp_path / "missing")
    assert [path.read_bytes() for path in (whole, cut, empty)] == [b"1\n2\n", b"1\n2\n", b""]


def test_lengths_of_existing_files(tmp_path: Path) -> None:
    assert logs.lengths(tmp_path) == {}
    (tmp_path / PROGRESS).write_bytes(b"12345\n")
    (tmp_path / TENSORBOARD).mkdir()
    events_file(tmp_path / TENSORBOARD).write_bytes(b"")
    (tmp_path / "notes.txt").write_bytes(b"foreign")
    assert logs.lengths(tmp_path) == {PROGRESS: 6, EVENTS: 0}


def test_logs_are_truncated_to_their_known_length(tmp_path: Path) -> None:
    (tmp_path / PROGRESS).write_bytes(b"1\n2\n")
    known = logs.lengths(tmp_path)
    with (tmp_path / PROGRESS).open("ab") as file:
        file.write(b"3\n4")
    (tmp_path / MONITOR).write_bytes(b"written after the checkpoint\n")
    assert list(logs.truncate(tmp_path, known)) == []
    assert ((tmp_path / PROGRESS).read_bytes(), (tmp_path / MONITOR).read_bytes()) == (b"1\n2\n", b"")
    assert list(logs.truncate(tmp_path, known)) == []


@pytest.mark.parametrize(("left", "whole"), [(b"1\n2", b"1\n"), (b"1\n", b"1\n"), (b"", b""), (None, None)])
def test_lost_bytes_are_reported(left: bytes | None, whole: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / PROGRESS
    if left is not None:
        path.write_bytes(left)
    (message,) = logs.truncate(tmp_path, {PROGRESS: 10})
    assert f"{path} has lost {10 - len(left or b'')} of its 10 bytes" in message
    assert (path.read_bytes() if path.exists() else None) == whole


def test_a_resumed_run_keeps_the_columns_of_an_older_version(tmp_path: Path) -> None:
    path = tmp_path / MONITOR
    for keys in (("is_success",), ("is_success", "touched")):
        episodes = EpisodesCsv(path, keys, started=5.0)
        episodes.write_rows([{"r": -1.5, "l": 3, "t": 0.1, **dict.fromkeys(keys, True)}])
        episodes.close()
    assert path.read_text().splitlines()[1:] == ["r,l,t,is_success", "-1.5,3,0.1,True", "-1.5,3,0.1,True"]


def test_resumed_csv_has_a_single_header(tmp_path: Path) -> None:
    path = tmp_path / MONITOR
    for process in range(3):
        episodes = EpisodesCsv(path, ("is_success",), started=5.0)
        episodes.write_rows([{"r": -1.5, "l": process, "t": 0.1, "is_success": True}])
        episodes.close()
        if process == 1:  # its line is removed again
            with path.open("rb+") as file:
                file.truncate(path.stat().st_size - 1)
            logs.trim_partial_records(path)
    assert path.read_text() == '#{"t_start": 5.0}\nr,l,t,is_success\n-1.5,0,0.1,True\n-1.5,2,0.1,True\n'


def scalars(path: Path) -> list[tuple[int, float]]:
    return [
        (event.step, round(value.tensor.float_val[0], 3))
        for event in EventFileLoader(str(path)).Load()
        for value in event.summary.value
    ]


def write_scalars(folder: Path, *steps: int) -> int:
    """Append scalars to TensorBoard's file and return its length."""
    board = TensorBoard(folder)
    for step in steps:
        board.write({"train/loss": step / 10}, {"train/loss": None}, step)
    board.close()
    return events_file(folder).stat().st_size


def test_truncated_and_continued_event_file_has_each_step_once(tmp_path: Path) -> None:
    length = write_scalars(tmp_path / TENSORBOARD, 1, 2)
    write_scalars(tmp_path / TENSORBOARD, 3, 4)
    assert list(logs.truncate(tmp_path, {EVENTS: length})) == []
    write_scalars(tmp_path / TENSORBOARD, 5)
    assert list((tmp_path / TENSORBOARD).iterdir()) == [events_file(tmp_path / TENSORBOARD)]
    assert scalars(events_file(tmp_path / TENSORBOARD)) == [(1, 0.1), (2, 0.2), (5, 0.5)]


def test_event_file_is_readable_after_a_lost_record(tmp_path: Path) -> None:
    folder = tmp_path / TENSORBOARD
    length = write_scalars(folder, 1, 2)
    whole = events_file(folder).read_bytes()
    for lost in (1, 3, 4, 5, length // 2, length - 13, length - 1, length):
        (path := events_file(folder)).write_bytes(whole[: length - lost])
        (message,) = logs.truncate(tmp_path, {EVENTS: length})
        assert f"{path} has lost {lost} " in message
        write_scalars(folder, 9)
        assert scalars(events_file(folder))[-1] == (9, 0.9), lost


def test_event_file_of_an_older_run_is_continued(tmp_path: Path) -> None:
    write_scalars(tmp_path / TENSORBOARD, 1)
    events_file(tmp_path / TENSORBOARD).rename(tmp_path / EVENTS)
    write_scalars(tmp_path / TENSORBOARD, 2)
    (file,) = (tmp_path / TENSORBOARD).iterdir()
    assert scalars(file) == [(1, 0.1), (2, 0.2)]


@pytest.mark.parametrize("old", [False, True], ids=["new run", "resumed run"])
def test_a_subclass_in_place_of_tensorboards_writer_follows_the_folder(
    old: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`wandb.init(sync_tensorboard=True)` does this, and reads new files of this host alone."""
    folders: list[str] = []
    if old:
        write_scalars(tmp_path, 1)
        events_file(tmp_path).rename(tmp_path / "events.out.tfevents.0000000001.elsewhere.mygym")

    class Follower(writer.EventFileWriter):  # type: ignore[misc]
        def __init__(self, logdir: str, *args: Any, **kwargs: Any) -> None:
            folders.append(logdir)
            super().__init__(logdir, *args, **kwargs)

    monkeypatch.setattr(writer, "EventFileWriter", Follower)
    before, threads = int(time.time()), threading.enumerate()
    board = TensorBoard(tmp_path)
    assert (folders, threading.enumerate()) == ([str(tmp_path)], threads)
    board.close()
    (file,) = tmp_path.iterdir()
    begun, *host = file.name.removeprefix("events.out.tfevents.").split(".")
    assert before <= int(begun) <= time.time()
    assert ".".join(host) == f"{socket.gethostname()}.mygym"


def test_tensorboard_has_text_and_hyperparameters(tmp_path: Path) -> None:
    board = TensorBoard(tmp_path / TENSORBOARD)
    values = {"note": "some text", "hparams": HParam({"learning_rate": 0.1}, {"eval/success_rate": 0.0})}
    board.write(values, dict.fromkeys(values), 5)
    board.close()
    events = EventFileLoader(str(events_file(tmp_path / TENSORBOARD))).Load()
    tags = {value.tag for event in events for value in event.summary.value}
    assert tags == {
        "note/text_summary",
        "_hparams_/experiment",
        "_hparams_/session_start_info",
        "_hparams_/session_end_info",
    }


def test_tensorboard_shows_the_config_once(tmp_path: Path) -> None:
    values = {"algo": "ppo", "n_envs": 2, "algo_params": {"gamma": 0.9, "net_arch": [8, 8], "target_kl": None}}
    for _ in range(2):
        board = TensorBoard(tmp_path / TENSORBOARD)
        board.write_config(values)
        board.close()
    events = EventAccumulator(str(tmp_path / TENSORBOARD)).Reload()
    (text,) = events.Tensors("config/text_summary")
    assert "net_arch: [8, 8]" in text.tensor_proto.string_val[0].decode()
    plugin = events.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    started = HParamsPluginData.FromString(plugin).session_start_info.hparams
    assert {name: value.WhichOneof("kind") for name, value in started.items()} == {
        "algo": "string_value",
        "n_envs": "number_value",
        "algo_params.gamma": "number_value",
        "algo_params.net_arch": "string_value",
    }
    (described,) = HParamsPluginData.FromString(
        events.summary_metadata["_hparams_/experiment"].plugin_data.content
    ).experiment.metric_infos
    assert described.name.tag == "eval/success_rate"
