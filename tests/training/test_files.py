"""Atomic writes, and checks of paths before anything is written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from mygym.errors import ConfigError, RunError
from mygym.training import files


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="logdir"):
        files.check_writable(str(tmp_path / "runs"))
    tmp_path.chmod(0o700)


def test_check_writable_leaves_nothing(tmp_path: Path) -> None:
    files.check_writable(str(tmp_path / "not" / "yet"))
    assert list(tmp_path.iterdir()) == []


class OtherError(Exception):
    pass


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), RuntimeError("torch's disk full"), OtherError()]
)
@pytest.mark.parametrize("before", [None, "the old content"])
def test_failed_write_changes_nothing(tmp_path: Path, error: Exception, before: str | None) -> None:
    path = tmp_path / "model.zip"
    if before is not None:
        path.write_text(before)

    def save(temporary: Path) -> None:
        temporary.write_text("half")
        raise error

    with pytest.raises((RunError, OtherError)) as raised:
        files.write(path, save)
    assert (path.read_text() if path.exists() else None) == before
    assert [other for other in tmp_path.iterdir() if other != path] == []
    if isinstance(error, OSError):
        assert str(path) in str(raised.value)
        assert "No space left" in str(raised.value)


def test_a_file_gets_its_name_when_it_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power failure the file is complete or absent."""
    synced: list[tuple[list[str], int]] = []

    def sync(file: int) -> None:
        synced.append(([path.name for path in tmp_path.iterdir()], os.fstat(file).st_size))

    monkeypatch.setattr(os, "fsync", sync)
    files.write_bytes(tmp_path / "state.json", b"content")
    assert synced == [([".state.part.json"], len(b"content"))]


def test_json_has_no_non_finite_numbers(tmp_path: Path) -> None:
    files.write_json(tmp_path / "x.json", {"a": float("nan"), "b": [float("inf"), 1.5], "c": {"d": -float("inf")}})
    text = (tmp_path / "x.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == {"a": None, "b": [None, 1.5], "c": {"d": None}}


def test_yaml_keeps_the_order_of_keys(tmp_path: Path) -> None:
    files.write_yaml(tmp_path / "x.yaml", {"z": 1, "a": {"y": [1, 2], "b": None}})
    text = (tmp_path / "x.yaml").read_text()
    assert list(yaml.safe_load(text)) == ["z", "a"]
