"""A copy of the project, so that what documents say to run writes nothing here."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import mygym

from .documents import STEPS, environment, make_copy
from .warm import Warm


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A fresh copy of the project."""
    return make_copy(tmp_path / "project")


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    with Warm(environment(tmp_path_factory.mktemp("warm"))) as processes:
        yield processes


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `runs` that a short default run has left behind."""
    folder = tmp_path_factory.mktemp("default")
    short = {"eval": {"episodes": 1, "final_episodes": 1}, "video": {"episodes": 1}, "checkpoint": {"every": 200}}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        mygym.train({"steps": STEPS, **short})
    return folder / "runs"


@pytest.fixture
def used_project(project: Path, runs: Path) -> Path:
    """A fresh copy of the project in which the default run has been made."""
    shutil.copytree(runs, project / "runs")
    return project
