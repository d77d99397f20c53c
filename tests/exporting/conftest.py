"""A trained run, and its exported policy."""

from __future__ import annotations

from pathlib import Path

import pytest

import mygym
from mygym.exporting.export import Export


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of a run that has learned to solve some episodes of `reach`."""
    short = {"every": 600, "episodes": 1, "final_episodes": 2}
    networks = {"policy_kwargs": {"net_arch": [32, 32]}}
    config = {"algo": "bc", "n_envs": 4, "steps": 600, "eval": short, "video": {"episodes": 0}, "algo_params": networks}
    return mygym.train({**config, "logdir": str(tmp_path_factory.mktemp("trained"))}).path


@pytest.fixture(scope="session")
def exported(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Export:
    """The export of its policy."""
    return mygym.export(trained, tmp_path_factory.mktemp("exported") / "reach.onnx")
