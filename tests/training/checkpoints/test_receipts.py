"""A file has a valid receipt while it is unchanged since this project has written it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mygym.training.checkpoints.serialization import RECEIPTS, has_valid_receipt, record


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run" / "model.zip"
    path.parent.mkdir()
    path.write_bytes(b"a model")
    record(path)
    return path


def receipts(file: Path) -> Path:
    return file.parent / RECEIPTS


def test_recorded_file_has_a_valid_receipt(file: Path) -> None:
    assert has_valid_receipt(file)
    best = file.with_name("best_model.zip")
    best.write_bytes(b"another")
    assert not has_valid_receipt(best)
    record(best)
    assert has_valid_receipt(best)
    assert has_valid_receipt(file)


def test_receipt_survives_reading_and_moving_the_run(file: Path, tmp_path: Path) -> None:
    file.read_bytes()
    assert has_valid_receipt(file)
    file.parent.rename(tmp_path / "elsewhere")
    assert has_valid_receipt(tmp_path / "elsewhere" / "model.zip")


def test_rewritten_file_needs_a_new_receipt(file: Path) -> None:
    other = file.with_name("new")
    other.write_bytes(b"a newer model")
    other.replace(file)
    assert not has_valid_receipt(file)
    record(file)
    assert has_valid_receipt(file)


def rewritten(file: Path) -> Path:
    file.write_bytes(b"b model")
    return file


def rewritten_in_place_with_its_times(file: Path) -> Path:
    status = file.stat()
    with file.open("rb+") as opened:
        opened.write(b"b")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    return file


def touched(file: Path) -> Path:
    os.utime(file)
    return file


def replaced(file: Path) -> Path:
    other = file.with_name("other")
    other.write_bytes(file.read_bytes())
    other.replace(file)
    return file


def replaced_by_its_copy(file: Path) -> Path:
    copy = file.with_name("copy")
    shutil.copy2(file, copy)
    copy.replace(file)
    return file


def copied_run(file: Path) -> Path:
    return Path(shutil.copytree(file.parent, file.parent.with_name("copy"))) / file.name


def moved_away(file: Path) -> Path:
    folder = file.parent.with_name("other")
    folder.mkdir()
    shutil.copy2(receipts(file), folder)
    return file.rename(folder / file.name)


def moved_and_back(file: Path) -> Path:
    return file.rename(file.with_name("away")).rename(file)


def renamed(file: Path) -> Path:
    return file.rename(file.with_name("best_model.zip"))


def linked(file: Path) -> Path:
    target = file.rename(file.with_name("target"))
    file.symlink_to(target)
    return file


def linked_to_our_file(file: Path) -> Path:
    link = file.with_name("link.zip")
    link.symlink_to(file)
    content = json.loads(receipts(file).read_text())
    receipts(file).write_text(json.dumps({**content, "link.zip": content["model.zip"]}))
    assert has_valid_receipt(file)
    return link


def a_second_name(file: Path) -> Path:
    os.link(file, file.with_name("second.zip"))
    return file.with_name("second.zip")


def receipt_missing(file: Path) -> Path:
    receipts(file).unlink()
    return file


def receipt_of_another_file(file: Path) -> Path:
    other = file.with_name("other.zip")
    other.write_bytes(b"a model")
    content = json.loads(receipts(file).read_text())
    receipts(file).write_text(json.dumps({**content, "other.zip": content["model.zip"]}))
    return other


CHANGES = [
    *(rewritten, rewritten_in_place_with_its_times, touched, replaced, replaced_by_its_copy, copied_run, moved_away),
    *(moved_and_back, renamed, linked, linked_to_our_file, a_second_name, receipt_missing, receipt_of_another_file),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_changed_file_has_no_valid_receipt(change: Callable[[Path], Path], file: Path) -> None:
    changed = change(file)
    assert changed.is_file()
    assert not has_valid_receipt(changed)


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "null", '{"model.zip": null}', '{"model.zip": true}', '{"model.zip": ["*"]}', '{"model.zip": "*"}'),
        *("[" * 100_000, '{"model.zip": ""}', '"model.zip"', "\xff", '{"model.zip": "0 0 0 7"}'),
    ],
)
def test_forged_receipts_are_ignored(content: str, file: Path) -> None:
    receipts(file).write_text(content, encoding="latin-1")
    assert not has_valid_receipt(file)
    record(file)
    assert has_valid_receipt(file)


def test_unreadable_receipts_are_ignored(file: Path) -> None:
    receipts(file).unlink()
    receipts(file).mkdir()
    assert not has_valid_receipt(file)
    receipts(file).rmdir()
    os.mkfifo(receipts(file))  # reading it would block
    assert not has_valid_receipt(file)
