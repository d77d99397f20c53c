"""Run directories: unique names, refusals, and the search for a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mygym.errors import ConfigError
from mygym.training import directory, files


def test_runs_of_the_same_seed_get_suffixes(tmp_path: Path) -> None:
    runs = [directory.create(str(tmp_path), "reach", "panda", "sac", "0a1b2c3d", 5) for _ in range(3)]
    assert [run.name for run in runs] == ["seed_5", "seed_5_2", "seed_5_3"]
    assert runs[0] == tmp_path / "reach" / "panda" / "sac" / "0a1b2c3d" / "seed_5"
    assert all(run.is_dir() and not list(run.iterdir()) for run in runs)


def test_suffix_never_equals_another_seed(tmp_path: Path) -> None:
    first = directory.create(str(tmp_path), "reach", "panda", "sac", "0a1b2c3d", 5)
    assert directory.create(str(tmp_path), "reach", "panda", "sac", "0a1b2c3d", 52) != first
    assert len({directory.create(str(tmp_path), "reach", "panda", "sac", "0a1b2c3d", 5) for _ in range(60)}) == 60


@pytest.mark.parametrize("name", ["..", ".", "../..", "a/../..", "...", ""])
def test_no_name_leaves_the_log_directory(name: str, tmp_path: Path) -> None:
    """The robot of a file `...urdf` is called `..`."""
    run = directory.create(str(tmp_path), name, name, name, name, 5)
    assert len(run.resolve().relative_to(tmp_path.resolve()).parts) == 5


@pytest.mark.parametrize("check", [files.check_writable, lambda d: directory.create(d, "t", "r", "a", "h", 0)])
def test_file_in_place_of_a_folder_is_refused(tmp_path: Path, check: Callable[[str], object]) -> None:
    (tmp_path / "file").write_text("content")
    for run in (tmp_path / "file", tmp_path / "file" / "runs"):
        with pytest.raises(ConfigError, match="logdir"):
            check(str(run))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_find_returns_runs_and_suggests_nearby_runs(tmp_path: Path) -> None:
    run = directory.create(str(tmp_path), "reach", "panda", "sac", "0a1b2c3d", 0)
    with pytest.raises(ConfigError, match="is not a run directory"):
        directory.find(run)
    files.write_yaml(run / directory.CONFIG, {})
    assert directory.find(str(run)) == run
    with pytest.raises(ConfigError) as error:
        directory.find(tmp_path)
    assert str(run) in str(error.value)
