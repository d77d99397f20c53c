"""The run directory: a place of its own for every run, and files that are whole or not there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from mygym.errors import ConfigError, RunError
from mygym.runs import directory, files


def test_runs_of_one_seed_stand_beside_each_other(tmp_path: Path) -> None:
    places = [directory.create(str(tmp_path), "reach", "panda", "sac", "0a1b2c3d", 5) for _ in range(3)]
    assert [place.name for place in places] == ["seed_5", "seed_5_2", "seed_5_3"]
    assert places[0] == tmp_path / "reach" / "panda" / "sac" / "0a1b2c3d" / "seed_5"
    assert all(place.is_dir() and not list(place.iterdir()) for place in places)


def test_a_suffix_is_never_another_seed(tmp_path: Path) -> None:
    first = directory.create(str(tmp_path), "reach", "panda", "sac", "0a1b2c3d", 5)
    assert directory.create(str(tmp_path), "reach", "panda", "sac", "0a1b2c3d", 52) != first
    assert len({directory.create(str(tmp_path), "reach", "panda", "sac", "0a1b2c3d", 5) for _ in range(60)}) == 60


@pytest.mark.parametrize("check", [files.check_writable, lambda d: directory.create(d, "t", "r", "a", "h", 0)])
def test_a_file_in_the_way_is_refused(tmp_path: Path, check: Callable[[str], object]) -> None:
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "runs"):
        with pytest.raises(ConfigError, match="logdir"):
            check(str(place))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may write everywhere")
def test_a_folder_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="logdir"):
        files.check_writable(str(tmp_path / "runs"))
    tmp_path.chmod(0o700)


def test_checking_a_place_leaves_nothing_there(tmp_path: Path) -> None:
    files.check_writable(str(tmp_path / "not" / "yet"))
    assert list(tmp_path.iterdir()) == []


class StrangeError(Exception):
    pass


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), RuntimeError("torch's disk full"), StrangeError()]
)
@pytest.mark.parametrize("before", [None, "the old content"])
def test_what_cannot_be_written_changes_nothing(tmp_path: Path, error: Exception, before: str | None) -> None:
    path = tmp_path / "model.zip"
    if before is not None:
        path.write_text(before)

    def save(temporary: Path) -> None:
        temporary.write_text("half")
        raise error

    with pytest.raises((RunError, StrangeError)) as raised:
        files.write(path, save)
    assert (path.read_text() if path.exists() else None) == before
    assert [other for other in tmp_path.iterdir() if other != path] == []
    if isinstance(error, OSError):
        assert str(path) in str(raised.value)
        assert "No space left" in str(raised.value)


def test_json_has_no_numbers_that_json_does_not_know(tmp_path: Path) -> None:
    files.write_json(tmp_path / "x.json", {"a": float("nan"), "b": [float("inf"), 1.5], "c": {"d": -float("inf")}})
    text = (tmp_path / "x.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == {"a": None, "b": [None, 1.5], "c": {"d": None}}


def test_yaml_keeps_the_order(tmp_path: Path) -> None:
    files.write_yaml(tmp_path / "x.yaml", {"z": 1, "a": {"y": [1, 2], "b": None}})
    text = (tmp_path / "x.yaml").read_text()
    assert list(yaml.safe_load(text)) == ["z", "a"]


def test_a_run_is_found_and_what_is_none_is_told(tmp_path: Path) -> None:
    run = directory.create(str(tmp_path), "reach", "panda", "sac", "0a1b2c3d", 0)
    with pytest.raises(ConfigError, match="is not a run directory"):
        directory.find(run)
    files.write_yaml(run / directory.CONFIG, {})
    assert directory.find(str(run)) == run
    with pytest.raises(ConfigError) as error:
        directory.find(tmp_path)
    assert str(run) in str(error.value)
