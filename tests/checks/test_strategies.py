"""Suite of strategies: built-in strategies pass, and each mistake fails its check."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from stable_baselines3.common.callbacks import BaseCallback

from mygym.checks import check
from mygym.planning.callbacks import register_callback
from mygym.registry import registry
from mygym.strategies import Strategy, register_strategy
from tests.components import slow_except

SHORT: dict[str, Any] = {
    "n_envs": 1,
    "algo_params": {"n_steps": 16, "batch_size": 16, "n_epochs": 2},
    "task_params": {"horizon": 10},
}
QUICK: dict[str, Any] = {"demos": {"episodes": 2, "warm_start": 3}, "reptile": {"inner": 1}}
"""Parameters of strategies whose defaults take long."""


STEPS = 64
"""Env steps of each run; to lose state at a resume takes `MANY`."""
MANY = 120


SURVIVES = "survives a bad environment"
"""A check of three runs; the normal suite performs it on components without mistakes."""
SKIPPED = pytest.mark.parametrize(
    "skip", [{SURVIVES}, pytest.param(set(), marks=pytest.mark.slow)], ids=["quick", "whole"]
)


def failed(name: str, steps: int = STEPS, skip: Collection[str] = (), **config: Any) -> list[str]:
    outcomes = check("strategy", name, steps=steps, config={**SHORT, **config}, skip=skip)
    return [outcome.check for outcome in outcomes if outcome.failed]


@pytest.mark.parametrize("name", slow_except(registry("strategy").names(), "mixture".__eq__))
def test_every_strategy_passes(name: str) -> None:
    assert failed(name, strategy_params=QUICK.get(name, {})) == []


class ByPosition(Strategy):
    """Accepts its parameter by position.

    Args:
        share: A parameter.
    """

    def __init__(self, share: float = 0.5) -> None:
        self.share = share


class Undocumented(Strategy):
    """Has a parameter without documentation."""

    def __init__(self, *, share: float = 0.5) -> None:
        self.share = share


class Forgetful(Strategy):
    """Keeps a number that is in no checkpoint."""

    def __init__(self) -> None:
        self.steps = 0

    def begin_iteration(self) -> None:
        self.steps += 1
        if self.steps % 2 == 0:
            for parameter in self.model.policy.parameters():
                parameter.data *= 0.9


class Moody(Strategy):
    """Draws from an unseeded generator."""

    def begin_iteration(self) -> None:
        import secrets

        for parameter in self.model.policy.parameters():
            parameter.data += 1e-3 * secrets.randbelow(1000)


@SKIPPED
@pytest.mark.parametrize(
    ("cls", "checks"),
    [
        (ByPosition, ["parameters"]),
        (Undocumented, ["parameters"]),
        (Forgetful, ["resumes"]),
        (Moody, ["deterministic"]),
    ],
)
def test_a_mistake_fails_its_check(cls: type[Strategy], checks: list[str], skip: set[str]) -> None:
    register_strategy("mistaken")(cls)
    assert failed("mistaken", MANY, skip) == checks


@pytest.mark.parametrize("name", slow_except(registry("sampler").names(), ("differentiable",).__contains__))
def test_every_sampler_passes(name: str) -> None:
    outcomes = list(check("sampler", name, steps=STEPS, config=SHORT))
    assert [outcome for outcome in outcomes if outcome.failed] == []


class ForgetfulCallback(BaseCallback):
    """Changes the weights by a number that is in no checkpoint."""

    def _on_step(self) -> bool:
        return True

    def _on_training_start(self) -> None:
        self.rollouts = 0

    def _on_rollout_start(self) -> None:
        self.rollouts += 1
        if self.rollouts % 2 == 0:
            for parameter in self.model.policy.parameters():
                parameter.data *= 1.01


@SKIPPED
def test_a_forgetful_callback_fails_its_check(skip: set[str]) -> None:
    register_callback("forgetful")(ForgetfulCallback)
    outcomes = list(check("callback", "forgetful", steps=MANY, config=SHORT, skip=skip))
    assert [outcome.check for outcome in outcomes if outcome.failed] == ["resumes"]
