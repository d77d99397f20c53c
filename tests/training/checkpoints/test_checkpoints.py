"""Checkpoints are complete or absent after any fault; damage is detected, forged files are refused."""

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
from mygym.training.checkpoints import checkpoints as storage
from mygym.training.checkpoints.checkpoints import FOLDER, Checkpoint, Checkpoints
from mygym.training.checkpoints.serialization import to_files
from mygym.training.directory import remove_partial_files
from mygym.training.files import checksum, json_checksum
from tests.training.checkpoints.test_replay_log import BUFFERS, Filler, assert_same, content, loaded

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

    def assert_content(self, checkpoint: Checkpoint) -> None:
        """Check that the checkpoint holds the content at its steps."""
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
    monkeypatch.setattr(storage, "SMALL", 0)
    run = Run(tmp_path / "run")
    run.path.mkdir()
    return run


# Kept checkpoints ---------------------------------------------------------------------------------------------------


def test_new_run_has_no_checkpoint(run: Run) -> None:
    assert run.checkpoints.newest(pytest.fail) is None
    run.checkpoints.discard_after(None)


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_newest_checkpoints_are_kept(keep: int, run: Run) -> None:
    run.checkpoints.keep = keep
    for number in range(1, 7):
        run.write()
        known = [run.checkpoints.read(path) for path in run.checkpoints.paths()]
        assert [checkpoint.steps for checkpoint in known] == [4 * i for i in range(1, number + 1)][-keep:]
        for checkpoint in known:
            run.assert_content(checkpoint)
        assert set(names(run.folder / FOLDER)) == {chunk["file"] for checkpoint in known for chunk in checkpoint.chunks}
    newest = run.checkpoints.newest(pytest.fail)
    assert (newest.steps, newest.finished) == (24, False)
    assert set(names(run.folder)) == {FOLDER, *(path.name for path in run.checkpoints.paths())}


def test_second_checkpoint_at_the_same_step_is_newer(run: Run) -> None:
    """Also if the first is already removed: an unfinished checkpoint must not replace a finished one."""
    run.checkpoints.keep = 2
    written = [run.checkpoints.write(7, {"number": number}, {}, finished=number == 4) for number in range(5)]
    assert len(set(written)) == 5
    assert [path.exists() for path in written] == [False, False, False, True, True]
    newest = run.checkpoints.newest(pytest.fail)
    assert (newest.path, newest.state, newest.finished) == (written[-1], {"number": 4}, True)
    assert run.checkpoints.write(8, {}, {}).name == "step_0000000008"


def test_checkpoints_are_in_numeric_order(run: Run) -> None:
    run.checkpoints.keep = 99
    for steps in (9, 10, 100, 10**10, 10**11, *[5] * 11):
        run.checkpoints.write(steps, steps, {})
    names = [path.name for path in run.checkpoints.paths()]
    assert names[:11] == ["step_0000000005", *(f"step_0000000005_{number}" for number in range(2, 12))]
    assert names[11:] == [f"step_{steps:010d}" for steps in (9, 10, 100, 10**10, 10**11)]


def test_resuming_discards_newer_checkpoints(run: Run) -> None:
    for _ in range(3):
        run.write()
    (run.folder / "step_0000000012" / "state.json").write_text("")
    again = Checkpoints(run.path, 3)
    newest = again.newest(str)
    assert newest.steps == 8
    again.discard_after(newest)
    assert [path.name for path in again.paths()] == ["step_0000000004", "step_0000000008"]
    assert set(names(run.folder / FOLDER)) == {chunk["file"] for chunk in newest.chunks}
    run.assert_content(again.newest(pytest.fail))
    Checkpoints(run.path, 3).discard_after(None)
    assert names(run.folder) == [FOLDER]
    assert names(run.folder / FOLDER) == []


def test_files_and_folders_of_the_same_name_are_removed(run: Run) -> None:
    """A folder in place of a file, and a file in place of a folder."""
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


def test_foreign_files_are_kept(run: Run) -> None:
    run.write()
    for name in ("notes.txt", "step_x", "step_1.zip", "old"):
        (run.folder / name).write_text("foreign")
    run.checkpoints.keep = 1
    run.write()
    run.checkpoints.discard_after(None)
    assert names(run.folder) == ["notes.txt", "old", FOLDER, "step_1.zip", "step_x"]


# Damage -------------------------------------------------------------------------------------------------------------


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
    """Replace the file by that of another checkpoint."""
    other = next((other for other in path.parent.parent.rglob(path.name) if other != path), None)
    path.write_bytes(other.read_bytes() if other else b"another")


DAMAGES = [truncated, one_byte_short, one_byte_more, emptied, flipped, Path.unlink, folder_instead, swapped]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("file", ["manifest.json", "state.json", "tensors.safetensors", "chunk"])
def test_damage_is_detected_and_reported(file: str, damage: Callable[[Path], None], run: Run) -> None:
    run.write()
    run.write()
    newest = run.checkpoints.newest(pytest.fail)
    path = run.folder / FOLDER / newest.chunks[-1]["file"] if file == "chunk" else newest.path / file
    damage(path)
    messages: list[str] = []
    checkpoint = Checkpoints(run.path, 3).newest(messages.append)
    assert checkpoint.steps == 4
    run.assert_content(checkpoint)
    (message,) = messages
    assert str(newest.path) in message
    assert path.name in message or (file, damage) == (
        "manifest.json",
        swapped,
    )  # the swapped manifest names other files
    assert len(message.splitlines()) == 1


def test_damaged_shared_chunk_damages_all_checkpoints(run: Run) -> None:
    for _ in range(3):
        run.write()
    flipped(run.folder / FOLDER / run.checkpoints.newest(pytest.fail).chunks[0]["file"])
    messages: list[str] = []
    assert run.checkpoints.newest(messages.append) is None
    assert len(messages) == 3


@pytest.mark.parametrize("file", ["manifest.json", "state.json", "tensors.safetensors"])
def test_flipped_bits_are_detected(file: str, run: Run) -> None:
    path = run.write() / file
    whole, rng = path.read_bytes(), random.Random(file)
    for bit in rng.sample(range(8 * len(whole)), 200):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        assert run.checkpoints.newest(str) is None, bit
    path.write_bytes(whole)
    run.assert_content(run.checkpoints.newest(pytest.fail))


# Faults -------------------------------------------------------------------------------------------------------------

CALLS = ("rename", "replace", "mkdir", "unlink", "rmdir", "fsync")


class Fault:
    """Makes the `number`-th system call that changes the disk fail, before or after its execution."""

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
def test_fault_at_any_moment_leaves_only_complete_checkpoints(
    error: BaseException, after: bool, small: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "SMALL", small)
    number, passed = 0, False
    while not passed:
        number += 1
        run = Run(tmp_path / str(number), keep=2)
        run.path.mkdir()
        for _ in range(4):  # the next write makes the first chunk obsolete
            run.write()
        assert [path.name[-2:] for path in run.checkpoints.paths()] == ["12", "16"]
        with pytest.MonkeyPatch.context() as patch:
            fault = Fault(patch, number, error, after)
            with contextlib.suppress(RunError if isinstance(error, OSError) else KeyboardInterrupt):
                run.write()
            passed = fault.left > 0
        checkpoints = {path.name: run.checkpoints.read(path) for path in run.checkpoints.paths()}
        for checkpoint in checkpoints.values():
            run.assert_content(checkpoint)
        assert {"step_0000000016"} < {*checkpoints, "step_0000000020" if passed else ""}
        remove_partial_files(run.path)
        assert all(path.name.startswith("step_") or path.name == FOLDER for path in run.folder.iterdir())
        again = Checkpoints(run.path, 2)
        newest = again.newest(pytest.fail)
        again.discard_after(newest)
        run.assert_content(newest)
        run.checkpoints, run.steps, run.buffer = again, newest.steps, loaded(MAKE, SIZE, 1, newest, again)
        run.write()
        for path in again.paths():
            run.assert_content(again.read(path))
        assert set(names(run.folder / FOLDER)) == {
            chunk["file"] for path in again.paths() for chunk in again.read(path).chunks
        }
    assert number > 10


def test_unsavable_state_leaves_nothing(run: Run) -> None:
    run.write()
    with pytest.raises(TypeError, match=r"run\.a is"):
        run.checkpoints.write(99, {"a": object()}, {})
    assert [path.name for path in run.folder.iterdir() if path.name != FOLDER] == ["step_0000000004"]


# Third-party checkpoints --------------------------------------------------------------------------------------------


def forged(path: Path, tree: Any, **changes: Any) -> None:
    """Write a checkpoint with valid checksums."""
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
    files["manifest.json"] = json.dumps({**manifest, "sha256": json_checksum(manifest)}).encode()
    for name, data in files.items():
        (path / name).write_bytes(data)


TREE = {"run": {}, "replay": None}
OUTSIDE = ["../../../outside", "../../outside", "../replay", "..", ".", "", "a/b", "/etc/hostname", "\0", "x" * 300, 5]


@pytest.mark.parametrize("name", [*OUTSIDE, None, ["outside"], {}], ids=str)
def test_chunks_outside_the_folder_are_refused(name: Any, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [run.path.parent, run.path, run.folder]
    run.write()
    for folder in folders:
        (folder / "outside").write_text("foreign")
    read: list[bytes] = []
    original = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(original(path)) or read[-1])
    for number in (5, 6):
        chunk = {"file": name, "start": 0, "rows": 1, "sha256": checksum(b"foreign")}
        forged(run.folder / f"step_{number}", TREE, chunks=[chunk])
    messages: list[str] = []
    checkpoint = run.checkpoints.newest(messages.append)
    assert checkpoint.steps == 4
    assert len(messages) == 2
    assert read
    assert b"foreign" not in read
    run.checkpoints.discard_after(checkpoint)
    run.checkpoints.keep = 1
    run.write()
    for folder in folders:
        assert (folder / "outside").read_text() == "foreign"
    run.assert_content(run.checkpoints.newest(pytest.fail))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just("x"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
KEYS = ["schema", "steps", "finished", "logs", "versions", "chunks", "files", "sha256", "state.json"]


@settings(max_examples=25)
@given(changes=st.dictionaries(st.sampled_from(KEYS), JSON, max_size=2), tree=JSON | st.just(TREE))
def test_any_manifest_is_read_or_refused(changes: dict[str, Any], tree: Any, tmp_path: Path) -> None:
    forged(tmp_path / "checkpoints" / "step_5", tree, **changes)
    messages: list[str] = []
    checkpoint = Checkpoints(tmp_path, 1).newest(messages.append)
    assert (checkpoint is None) == bool(messages)
    if checkpoint is not None:
        values = [checkpoint.steps, checkpoint.finished, checkpoint.logs, checkpoint.versions, checkpoint.chunks]
        assert [type(value) for value in values] == [int, bool, dict, dict, list]


@pytest.mark.parametrize("text", ["", "[]", "5", "null", '"x"', "{}", "[" * 100_000, '{"sha256": 1e999}', "\xff"])
def test_invalid_manifests_are_refused(text: str, tmp_path: Path) -> None:
    forged(tmp_path / "checkpoints" / "step_5", TREE)
    assert Checkpoints(tmp_path, 1).newest(pytest.fail) is not None
    (tmp_path / "checkpoints" / "step_5" / "manifest.json").write_text(text, encoding="latin-1")
    messages: list[str] = []
    assert Checkpoints(tmp_path, 1).newest(messages.append) is None
    assert "manifest.json" in messages[0]
    Checkpoints(tmp_path, 1).discard_after(None)
    assert list((tmp_path / "checkpoints").iterdir()) == []
