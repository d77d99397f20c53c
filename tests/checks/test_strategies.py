"""Suite of strategies: built-in strategies pass, and each mistake fails its check."""

from __future__ import annotations

from typing import Any

import pytest

from mygym.checks import check
from mygym.registry import registry
from mygym.strategies import Strategy, register_strategy
from tests.components import slow_except

SHORT: dict[str, Any] = {"n_envs": 2, "algo_params": {"n_steps": 16, "batch_size": 32}, "task_params": {"horizon": 20}}
QUICK: dict[str, Any] = {"demos": {"episodes": 2, "warm_start": 3}}
"""Parameters of strategies whose defaults take long."""


def failed(name: str, **config: Any) -> list[str]:
    outcomes = check("strategy", name, steps=150, config={**SHORT, **config})
    return [outcome.check for outcome in outcomes if outcome.failed]


@pytest.mark.parametrize("name", slow_except(registry("strategy").names(), ("curriculum", "mixture").__contains__))
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

    def step(self) -> None:
        self.steps += 1
        if self.steps % 3 == 0:
            for parameter in self.model.policy.parameters():
                parameter.data *= 0.9


class Moody(Strategy):
    """Draws from an unseeded generator."""

    def step(self) -> None:
        import secrets

        for parameter in self.model.policy.parameters():
            parameter.data += 1e-3 * secrets.randbelow(1000)


@pytest.mark.parametrize(
    ("cls", "checks"),
    [
        (ByPosition, ["parameters"]),
        (Undocumented, ["parameters"]),
        (Forgetful, ["resumes"]),
        (Moody, ["deterministic"]),
    ],
)
def test_a_mistake_fails_its_check(cls: type[Strategy], checks: list[str]) -> None:
    register_strategy("mistaken")(cls)
    assert failed("mistaken") == checks
