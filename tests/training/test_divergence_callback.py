"""Numbers that are not finite end a run as `diverged`, also where a library raises its error first."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from stable_baselines3.common.base_class import BaseAlgorithm

import mygym
from mygym.errors import DivergedError, RunError
from mygym.registry import algorithm, register_algorithm
from mygym.tasks.episode import EpisodeContext
from mygym.tasks.lookup import find_task
from mygym.tasks.rewards import register_reward
from mygym.tasks.stage import register_stage
from mygym.training.result import Result
from mygym.types import Array
from tests.training.runners import config


def spoiled(base: str) -> str:
    """Register a subclass whose updates set the standard deviation of its actions to 0, and return its name."""

    class Spoiled(algorithm(base).combo()[0]):  # type: ignore[misc]
        def train(self) -> None:
            with torch.no_grad():
                self.policy.log_std.fill_(-1e5)  # all weights are finite

    batch = {} if base == "a2c" else {"batch_size": 60}
    register_algorithm("spoiled", defaults={"n_steps": 60, **batch})(Spoiled)
    return "spoiled"


@pytest.mark.parametrize("base", ["ppo", "a2c", pytest.param("trpo", marks=pytest.mark.slow)])
def test_a_degenerate_distribution_of_actions_is_divergence(base: str, tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match="scale of the distribution of the actions is 0 or not finite"):
        mygym.train(config(spoiled(base), tmp_path))
    result = Result.read(next(tmp_path.rglob("result.json")).parent)
    assert result is not None
    assert result.status == "diverged"
    assert len(result.error or "") < 300
    assert mygym.evaluate(result.path, episodes=1).episodes


@pytest.mark.parametrize("key", ["loss", "explained_variance"])
def test_only_a_loss_that_is_nan_is_divergence(key: str, tmp_path: Path) -> None:
    class Logging(algorithm("ppo").combo()[0]):  # type: ignore[misc]
        def train(self: BaseAlgorithm) -> None:
            super().train()  # type: ignore[misc]
            self.logger.record(f"train/{key}", np.nan)  # SB3's explained variance, if that of the returns is 0

    register_algorithm("logging", defaults={"n_steps": 60, "batch_size": 60})(Logging)
    if key == "explained_variance":
        assert mygym.train(config("logging", tmp_path)).status == "done"
        return
    with pytest.raises(DivergedError, match="train/loss is nan"):
        mygym.train(config("logging", tmp_path))


def nan_reward(context: EpisodeContext) -> Array:
    return context.state.time * np.nan


@pytest.mark.parametrize("kind", ["reward", "stage"])
def test_a_component_of_the_user_that_makes_a_reward_nan_is_named_with_its_line(kind: str, tmp_path: Path) -> None:
    if kind == "reward":
        register_reward("mine")(nan_reward)
        chosen = {"reward": "mine"}
    else:
        near = find_task("reach").sequence.stages[0]
        register_stage("mine", replace(near, name="mine", letter="", potential=nan_reward))
        chosen = {"task": ["mine"], "reward": "shaped"}
    with pytest.raises(DivergedError, match=rf"is nan; {kind} mine \({re.escape(__file__)}:\d+\)"):
        mygym.train(config("ppo", tmp_path, **chosen))


def test_a_wrong_parameter_of_the_users_distribution_is_a_failure_with_a_short_message(tmp_path: Path) -> None:
    class Mistaken(algorithm("ppo").combo()[0]):  # type: ignore[misc]
        def train(self: BaseAlgorithm) -> None:
            torch.distributions.Normal(torch.zeros(500, 20), -torch.ones(500, 20))

    register_algorithm("mistaken", defaults={"n_steps": 60, "batch_size": 60})(Mistaken)
    with pytest.raises(RunError, match="Expected parameter scale") as error:
        mygym.train(config("mistaken", tmp_path))
    assert not isinstance(error.value, DivergedError)
    assert len(str(error.value)) < 300 + len(__file__) + 20
