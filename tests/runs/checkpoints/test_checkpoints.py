"""Checkpoints are whole or absent whatever goes wrong; what is damaged is found, what is forged leads nowhere."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mygym.errors import RunError
from mygym.runs.checkpoints import replay_log
from mygym.runs.checkpoints.checkpoints import Checkpoint, Checkpoints, _checksum_of
from mygym.runs.checkpoints.replay_log import FOLDER
from mygym.runs.checkpoints.serialization import to_files
from mygym.runs.directory import remove_partial_files
from mygym.runs.files import checksum
from tests.runs.checkpoints.test_replay_log import BUFFERS, Filler, assert_same, content, loaded

SIZE = 12
MAKE = BUFFERS["hindsight"]


class Run:
    """A run that writes checkpoints of a replay buffer."""

    def __init__(self, path: Path, keep: int = 3, small: int = 0) -> None:
        self.path = path
        self.folder = path / "checkpoints"
        self.checkpoints = Checkpoints(path, keep)
        self.filler, self.buffer, self.steps = Filler(0), MAKE(SIZE, 1), 0
        self.contents: dict[int, Any] = {}

    def write(self, rows: int = 4) -> Path:
        self.filler.add(self.buffer, rows=rows)
        self.steps += rows
        self.contents[self.steps] = content(self.buffer)
        return self.checkpoints.write(self.steps, state_at(self.steps), {"progress.jsonl": self.steps}, self.buffer)

    def assert_right(self, checkpoint: Checkpoint) -> None:
        """It holds what was saved then."""
        np.testing.assert_array_equal(checkpoint.state["weights"], state_at(checkpoint.steps)["weights"])
        assert checkpoint.logs == {"progress.jsonl": checkpoint.steps}
        assert_same(
            content(loaded(MAKE, SIZE, 1, checkpoint, Checkpoints(self.path, 3))), self.contents[checkpoint.steps]
        )


def state_at(steps: int) -> dict[str, Any]:
    return {"weights": np.full(3, steps), "name": "x"}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(replay_log, "SMALL", 0)
    made = Run(tmp_path / "run")
    made.path.mkdir()
    return made


# the newest few -----------------------------------------------------------------------------------------------------


def test_there_is_none_at_first(run: Run) -> None:
    assert run.checkpoints.newest(pytest.fail) is None
    run.checkpoints.discard_after(None)


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_the_newest_few_stay(keep: int, run: Run) -> None:
    run.checkpoints.keep = keep
    for number in range(1, 7):
        run.write()
        known = [run.checkpoints.read(path) for path in run.checkpoints.paths()]
        assert [one.steps for one in known] == [4 * i for i in range(1, number + 1)][-keep:]
        for one in known:
            run.assert_right(one)
        assert set(names(run.folder / FOLDER)) == {chunk["file"] for one in known for chunk in one.chunks}
    newest = run.checkpoints.newest(pytest.fail)
    assert (newest.steps, newest.finished) == (24, False)
    assert set(names(run.folder)) == {FOLDER, *(path.name for path in run.checkpoints.paths())}


def test_a_second_checkpoint_of_as_many_steps_is_the_newer_one(run: Run) -> None:
    """However often, also when the first of them is gone: a finished one must not be dropped for an unfinished."""
    run.checkpoints.keep = 2
    written = [run.checkpoints.write(7, {"number": number}, {}, finished=number == 4) for number in range(5)]
    assert len(set(written)) == 5
    assert [path.exists() for path in written] == [False, False, False, True, True]
    newest = run.checkpoints.newest(pytest.fail)
    assert (newest.path, newest.state, newest.finished) == (written[-1], {"number": 4}, True)
    assert run.checkpoints.write(8, {}, {}).name == "step_0000000008"


def test_order_is_that_of_numbers(run: Run) -> None:
    run.checkpoints.keep = 99
    for steps in (9, 10, 100, 10**10, 10**11, *[5] * 11):
        run.checkpoints.write(steps, steps, {})
    found = [path.name for path in run.checkpoints.paths()]
    assert found[:11] == ["step_0000000005", *(f"step_0000000005_{number}" for number in range(2, 12))]
    assert found[11:] == [f"step_{steps:010d}" for steps in (9, 10, 100, 10**10, 10**11)]


def test_what_came_after_a_checkpoint_is_removed_when_a_run_goes_on_from_it(run: Run) -> None:
    for _ in range(3):
        run.write()
    (run.folder / "step_0000000012" / "state.json").write_text("")
    again = Checkpoints(run.path, 3)
    newest = again.newest(str)
    assert newest.steps == 8
    again.discard_after(newest)
    assert [path.name for path in again.paths()] == ["step_0000000004", "step_0000000008"]
    assert set(names(run.folder / FOLDER)) == {chunk["file"] for chunk in newest.chunks}
    run.assert_right(again.newest(pytest.fail))
    Checkpoints(run.path, 3).discard_after(None)
    assert names(run.folder) == [FOLDER]
    assert names(run.folder / FOLDER) == []


def test_what_is_in_the_way_is_removed_too(run: Run) -> None:
    """Folders where files were, files where folders were."""
    first, second, third = run.write(), run.write(), run.write()
    chunk = run.checkpoints.newest(pytest.fail).chunks[-1]["file"]
    shutil.rmtree(third)
    third.write_text("a file")
    (run.folder / FOLDER / chunk).unlink()
    (run.folder / FOLDER / chunk / "folder").mkdir(parents=True)
    again = Checkpoints(run.path, 1)
    newest = again.newest(str)
    assert newest.path == second
    again.discard_after(newest)
    again.write(20, {}, {})
    assert not any(path.exists() for path in (first, third, run.folder / FOLDER / chunk))


def test_other_things_in_the_folder_are_left_alone(run: Run) -> None:
    run.write()
    for name in ("notes.txt", "step_x", "step_1.zip", "old"):
        (run.folder / name).write_text("mine")
    run.checkpoints.keep = 1
    run.write()
    run.checkpoints.discard_after(None)
    assert names(run.folder) == ["notes.txt", "old", FOLDER, "step_1.zip", "step_x"]


# damage -------------------------------------------------------------------------------------------------------------


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def one_byte_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def one_byte_more(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"}")


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def flipped(path: Path) -> None:
    rng, damaged = random.Random(path.name), bytearray(path.read_bytes())
    damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    path.write_bytes(damaged)


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def swapped(path: Path) -> None:
    """For the file of the same name of another checkpoint."""
    other = next((other for other in path.parent.parent.rglob(path.name) if other != path), None)
    path.write_bytes(other.read_bytes() if other else b"another")


DAMAGES = [truncated, one_byte_short, one_byte_more, emptied, flipped, Path.unlink, folder_instead, swapped]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("file", ["manifest.json", "state.json", "tensors.safetensors", "chunk"])
def test_any_damage_is_found_and_told_of(file: str, damage: Callable[[Path], None], run: Run) -> None:
    run.write()
    run.write()
    newest = run.checkpoints.newest(pytest.fail)
    path = run.folder / FOLDER / newest.chunks[-1]["file"] if file == "chunk" else newest.path / file
    damage(path)
    told: list[str] = []
    found = Checkpoints(run.path, 3).newest(told.append)
    assert found.steps == 4
    run.assert_right(found)
    (message,) = told
    assert str(newest.path) in message
    assert path.name in message or (file, damage) == ("manifest.json", swapped)  # then all others are wrong
    assert len(message.splitlines()) == 1


def test_a_chunk_that_all_need_spoils_all(run: Run) -> None:
    for _ in range(3):
        run.write()
    flipped(run.folder / FOLDER / run.checkpoints.newest(pytest.fail).chunks[0]["file"])
    told: list[str] = []
    assert run.checkpoints.newest(told.append) is None
    assert len(told) == 3


@pytest.mark.parametrize("file", ["manifest.json", "state.json", "tensors.safetensors"])
def test_every_bit_counts(file: str, run: Run) -> None:
    path = run.write() / file
    whole, rng = path.read_bytes(), random.Random(file)
    for bit in rng.sample(range(8 * len(whole)), 200):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        assert run.checkpoints.newest(str) is None, bit
    path.write_bytes(whole)
    run.assert_right(run.checkpoints.newest(pytest.fail))


# faults -------------------------------------------------------------------------------------------------------------

CALLS = ("rename", "replace", "mkdir", "unlink", "rmdir", "fsync")


class Fault:
    """Makes the `number`-th of the system's calls that change something on disk fail, before or after it."""

    def __init__(self, patch: pytest.MonkeyPatch, number: int, error: BaseException, after: bool) -> None:
        self.left, self.error, self.after = number, error, after
        for name in CALLS:
            patch.setattr(os, name, self.failing(getattr(os, name)))

    def failing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.after:
                raise self.error
            result = call(*args, **kwargs)
            if self.left == 0:
                raise self.error
            return result

        return wrapped


DISK_FULL = OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("error", "after", "small"),
    [
        (DISK_FULL, False, 0),
        (DISK_FULL, False, 10_000),
        (KeyboardInterrupt(), False, 10_000),
        (KeyboardInterrupt(), True, 0),
    ],
    ids=["disk full", "disk full, small chunks", "before, small chunks", "after"],
)
def test_a_fault_at_any_moment_leaves_whole_checkpoints_only(
    error: BaseException, after: bool, small: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_log, "SMALL", small)
    number, passed = 0, False
    while not passed:
        number += 1
        run = Run(tmp_path / str(number), keep=2)
        run.path.mkdir()
        for _ in range(4):  # the first chunk is about to be needed no more
            run.write()
        assert [path.name[-2:] for path in run.checkpoints.paths()] == ["12", "16"]
        with pytest.MonkeyPatch.context() as patch:
            fault = Fault(patch, number, error, after)
            with contextlib.suppress(RunError if isinstance(error, OSError) else KeyboardInterrupt):
                run.write()
            passed = fault.left > 0
        found = {path.name: run.checkpoints.read(path) for path in run.checkpoints.paths()}
        for checkpoint in found.values():
            run.assert_right(checkpoint)
        assert {"step_0000000016"} < {*found, "step_0000000020" if passed else ""}
        remove_partial_files(run.path)
        assert all(path.name.startswith("step_") or path.name == FOLDER for path in run.folder.iterdir())
        again = Checkpoints(run.path, 2)
        newest = again.newest(pytest.fail)
        again.discard_after(newest)
        run.assert_right(newest)
        run.checkpoints, run.steps, run.buffer = again, newest.steps, loaded(MAKE, SIZE, 1, newest, again)
        run.write()
        for path in again.paths():
            run.assert_right(again.read(path))
        assert set(names(run.folder / FOLDER)) == {
            chunk["file"] for path in again.paths() for chunk in again.read(path).chunks
        }
    assert number > 10


def test_what_cannot_be_saved_leaves_nothing(run: Run) -> None:
    run.write()
    with pytest.raises(TypeError, match=r"run\.a is"):
        run.checkpoints.write(99, {"a": object()}, {})
    assert [path.name for path in run.folder.iterdir() if path.name != FOLDER] == ["step_0000000004"]


# strangers ----------------------------------------------------------------------------------------------------------


def forged(path: Path, tree: Any, **changes: Any) -> None:
    """A checkpoint whose checksums are right."""
    path.mkdir(parents=True, exist_ok=True)
    files = to_files(tree)
    manifest = {
        "schema": 1,
        "steps": 5,
        "finished": False,
        "logs": {},
        "versions": {},
        "chunks": [],
        "files": {name: checksum(data) for name, data in files.items()},
        **changes,
    }
    files["manifest.json"] = json.dumps({**manifest, "sha256": _checksum_of(manifest)}).encode()
    for name, data in files.items():
        (path / name).write_bytes(data)


TREE = {"run": {}, "replay": None}
OUTSIDE = ["../../../outside", "../../outside", "../replay", "..", ".", "", "a/b", "/etc/hostname", "\0", "x" * 300, 5]


@pytest.mark.parametrize("name", [*OUTSIDE, None, ["outside"], {}], ids=str)
def test_chunks_that_are_elsewhere_are_refused(name: Any, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [run.path.parent, run.path, run.folder]
    run.write()
    for folder in folders:
        (folder / "outside").write_text("mine")
    read: list[bytes] = []
    usual = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(usual(path)) or read[-1])
    for number in (5, 6):
        chunk = {"file": name, "start": 0, "rows": 1, "sha256": checksum(b"mine")}
        forged(run.folder / f"step_{number}", TREE, chunks=[chunk])
    told: list[str] = []
    found = run.checkpoints.newest(told.append)
    assert found.steps == 4
    assert len(told) == 2
    assert read
    assert b"mine" not in read
    run.checkpoints.discard_after(found)
    run.checkpoints.keep = 1
    run.write()
    for folder in folders:
        assert (folder / "outside").read_text() == "mine"
    run.assert_right(run.checkpoints.newest(pytest.fail))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just("x"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
KEYS = ["schema", "steps", "finished", "logs", "versions", "chunks", "files", "sha256", "state.json"]


@settings(max_examples=60)
@given(changes=st.dictionaries(st.sampled_from(KEYS), JSON, max_size=2), tree=JSON | st.just(TREE))
def test_any_manifest_is_read_or_refused(changes: dict[str, Any], tree: Any, tmp_path: Path) -> None:
    forged(tmp_path / "checkpoints" / "step_5", tree, **changes)
    told: list[str] = []
    found = Checkpoints(tmp_path, 1).newest(told.append)
    assert (found is None) == bool(told)
    if found is not None:
        kinds = [type(value) for value in (found.steps, found.finished, found.logs, found.versions, found.chunks)]
        assert kinds == [int, bool, dict, dict, list]


@pytest.mark.parametrize("text", ["", "[]", "5", "null", '"x"', "{}", "[" * 100_000, '{"sha256": 1e999}', "\xff"])
def test_any_text_is_no_manifest(text: str, tmp_path: Path) -> None:
    forged(tmp_path / "checkpoints" / "step_5", TREE)
    assert Checkpoints(tmp_path, 1).newest(pytest.fail) is not None
    (tmp_path / "checkpoints" / "step_5" / "manifest.json").write_text(text, encoding="latin-1")
    told: list[str] = []
    assert Checkpoints(tmp_path, 1).newest(told.append) is None
    assert "manifest.json" in told[0]
    Checkpoints(tmp_path, 1).discard_after(None)
    assert list((tmp_path / "checkpoints").iterdir()) == []
