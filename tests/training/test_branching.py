"""Branches of runs: copies that continue with other hyperparameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mygym
from mygym.config import load_file
from mygym.errors import RunError
from mygym.training import directory
from mygym.training.checkpoints.checkpoints import Checkpoints
from mygym.training.result import Result
from mygym.training.run_state import branch, changeable

SETTINGS: dict[str, Any] = {
    "algo": "ppo",
    "steps": 32,
    "n_envs": 1,
    "algo_params": {"n_steps": 16, "n_epochs": 1, "learning_rate": 1e-3, "ent_coef": 0.01},
    "eval": {"every": 32, "episodes": 1, "final_episodes": 1},
    "video": {"episodes": 0},
    "tensorboard": False,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return mygym.train({**SETTINGS, "logdir": str(tmp_path_factory.mktemp("runs"))})


def continued(run: Result, target: Path, values: dict[str, float]) -> Result:
    branch(run.path, target, values)
    return mygym.train({"steps": 64}, resume=target)


def algorithm_state(run: Path) -> Any:
    checkpoint = Checkpoints(run, keep=1).newest(print)
    assert checkpoint is not None
    return checkpoint.state["algorithm"]


def test_a_branch_without_changes_equals_the_extended_run(run: Result, tmp_path: Path) -> None:
    whole = mygym.train({**SETTINGS, "steps": 64, "logdir": str(tmp_path)})
    same = continued(run, tmp_path / "same", {"ent_coef": 0.01})
    assert (same.path / directory.POLICY).read_bytes() == (whole.path / directory.POLICY).read_bytes()


def test_a_branch_continues_with_other_hyperparameters(run: Result, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    other = continued(run, tmp_path / "other", {"ent_coef": 0.5, "learning_rate": 1e-4})
    state = algorithm_state(other.path)
    assert (state["attributes"]["ent_coef"], state["attributes"]["learning_rate"]) == (0.5, 1e-4)
    assert state["parameters"]["policy.optimizer"]["param_groups"][0]["lr"] == 1e-4
    assert load_file(other.path / directory.CONFIG)["algo_params"]["ent_coef"] == 0.5
    assert other.steps == 64
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before


def test_a_branch_of_soft_actor_critic_has_its_replay_buffer_and_another_entropy_coefficient(tmp_path: Path) -> None:
    params = {"learning_starts": 16, "ent_coef": 0.1, "tau": 0.01}
    run = mygym.train({**SETTINGS, "algo": "sac", "her": False, "algo_params": params, "logdir": str(tmp_path)})
    other = continued(run, tmp_path / "other", {"ent_coef": 0.4, "tau": 0.2})
    state = algorithm_state(other.path)
    assert state["attributes"]["tau"] == 0.2
    assert float(state["attributes"]["ent_coef_tensor"]) == pytest.approx(0.4)
    checkpoint = Checkpoints(other.path, keep=1).newest(print)
    assert checkpoint is not None
    assert checkpoint.replay["total"] == 64


def test_a_run_without_a_checkpoint_has_no_branch(run: Result, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / directory.CONFIG).write_bytes((run.path / directory.CONFIG).read_bytes())
    with pytest.raises(RunError, match="has no checkpoint"):
        branch(tmp_path / "run", tmp_path / "other", {"ent_coef": 0.0})
    assert not (tmp_path / "other").exists()


def test_what_may_change_is_what_may_be_scheduled(run: Result) -> None:
    assert {"learning_rate", "ent_coef", "clip_range"} <= set(changeable(load_file(run.path / directory.CONFIG)))
    assert "n_steps" not in changeable(load_file(run.path / directory.CONFIG))
