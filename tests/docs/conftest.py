"""A copy of the project for the commands of documents."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import mygym
from tests.docs.documents import STEPS, make_copy


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A fresh copy of the project."""
    return make_copy(tmp_path / "project")


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `runs` of a short default run."""
    folder = tmp_path_factory.mktemp("default")
    video = {"episodes": 1, "width": 96, "height": 72}
    short = {"eval": {"episodes": 1, "final_episodes": 1}, "video": video, "checkpoint": {"every": STEPS}}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        mygym.train({"steps": STEPS, **short})
    return folder / "runs"


@pytest.fixture(scope="session")
def exported(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported policy of the default run."""
    path = tmp_path_factory.mktemp("exported") / "reach.onnx"
    mygym.export(next(runs.rglob("seed_0")), path)
    return path


@pytest.fixture
def used_project(project: Path, runs: Path) -> Path:
    """A fresh copy of the project with the default run."""
    shutil.copytree(runs, project / "runs")
    return project
