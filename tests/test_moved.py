"""Files and runs from before version 0.2.0, whose modules had other names."""

from __future__ import annotations

import shutil
from importlib import import_module
from pathlib import Path

import pytest
from stable_baselines3 import PPO

import mygym
from tests.conftest import ROOT

RUNS = ROOT / "tests" / "runs_of_0_1"
"""Interrupted runs that version 0.1.0 wrote."""


def test_former_names_of_modules_import_the_same_objects() -> None:
    for module, name, now in [
        ("mygym.runs.runner", "Runner", "mygym.training.runner"),
        ("mygym.runs.loop", "Loop", "mygym.training.runner"),
        ("mygym.runs.curves", "Curves", "mygym.training.curves"),
        ("mygym.runs.callbacks", "register_callback", "mygym.planning.callbacks"),
        ("mygym.runs.planning.resolve_config", "from_python", "mygym.planning.resolve"),
        ("mygym.models.controllers", "EndEffectorDelta", "mygym.robotics.controllers.end_effector"),
        ("mygym.models.robot_spec", "RobotSpec", "mygym.robotics.robots"),
        ("mygym.tasks.goal_terms", "GoalTerm", "mygym.tasks.predicate"),
        ("mygym.tasks.episode_context", "EpisodeContext", "mygym.tasks.episode"),
        ("mygym.sim.world", "World", "mygym.engines.bullet.world"),
        ("mygym.fused.world", "BatchWorld", "mygym.engines.fused.world"),
        ("mygym.perception.encoder", "load_encoder", "mygym.vision.encoder"),
    ]:
        former = getattr(import_module(module), name)
        assert former is getattr(import_module(now), name)
        assert former.__module__ == now


def test_a_former_module_that_is_gone_is_an_import_error() -> None:
    with pytest.raises(ModuleNotFoundError, match="nonsense"):
        import_module("mygym.runs.nonsense")


@pytest.mark.parametrize("algo", ["ppo", "sac", "mixture"])
def test_runs_of_before_continue(algo: str, tmp_path: Path) -> None:
    run = tmp_path / algo
    shutil.copytree(RUNS / algo, run)
    before = mygym.results(tmp_path)[0]
    assert before.status == "interrupted"
    result = mygym.train(resume=run)
    assert (result.status, result.path) == ("done", run)
    assert result.steps >= 256
    assert mygym.evaluate(run, episodes=2).episodes[1].length > 0


def test_stable_baselines_loads_models_of_before() -> None:
    """They name classes by their former modules."""
    assert PPO.load(RUNS / "ppo" / "model.zip").policy.state_dict()
