"""A space, and sweeps of it whose runs end at once."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mygym.reporting.records import SweepFiles
from mygym.sweeps import executors, run
from mygym.sweeps import settings as checking
from mygym.sweeps.run import Report, new_sweep, resume_sweep
from tests.sweeps.executor import InstantExecutor

SPACE: dict[str, Any] = {
    "algo": "ppo",
    "algo_params": {
        "learning_rate": {"loguniform": [1e-5, 1e-2]},
        "n_epochs": {"int": [4, 9]},
        "batch_size": {"choice": [32, 64]},
        "policy_kwargs": {"net_arch": {"choice": [[64, 64], [128]]}},
    },
    "steps": 60,
    "eval": {"every": 10},
}


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search waits for nothing, looks at each evaluation, and has no figures, as without Matplotlib."""
    monkeypatch.setattr(executors, "POLL", 0.0)
    monkeypatch.setattr(run, "WATCH", 0.0)
    monkeypatch.setattr(checking, "MAX_COMBINATIONS", 6)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def sweep(fast: None, tmp_path: Path, lines: list[str]) -> Callable[..., Report]:
    """Function that executes a sweep of `SPACE` in `tmp_path / name`."""

    def execute(
        name: str = "sweep", executor: InstantExecutor | None = None, space: Any = SPACE, **settings: Any
    ) -> Report:
        file = {**space, "sweep": {"trials": 12, **settings}}
        return new_sweep(tmp_path / name, file, {}, executor or InstantExecutor(), lines.append)

    return execute


def trials(folder: Path) -> list[dict[str, str]]:
    with (folder / SweepFiles.TABLE).open() as file:
        return list(csv.DictReader(file))


def resume(folder: Path, executor: InstantExecutor | None = None, **flags: Any) -> Report:
    return resume_sweep(folder, None, flags, executor or InstantExecutor(), lambda line: None)
