"""What a strategy can require of a run, checked when all is built and before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gymnasium import spaces

from mygym.errors import ConfigError, bad_value
from mygym.runs.strategies import said_in, strategies_of
from mygym.strategies.losses import actor_optimizer
from mygym.strategies.strategy import Strategy

REQUIREMENTS: Mapping[str, tuple[Callable[[Strategy], bool], str]] = {
    "several_variants": (
        lambda strategy: len(strategy.variants(strategy.config)) > 1,
        "several tasks, or levels of one",
    ),
    "goal_observations": (
        lambda strategy: isinstance(strategy.training_env.observation_space, spaces.Dict),
        "an algorithm that takes dictionary observations",
    ),
    "replay_buffer": (
        lambda strategy: getattr(strategy.model, "replay_buffer", None) is not None,
        "an off-policy algorithm, such as sac",
    ),
    "actor_optimizer": (
        lambda strategy: actor_optimizer(strategy.model) is not None,
        "an algorithm of framework pytorch that follows gradients, such as sac or ppo",
    ),
}
"""Name in what `Strategy.requires` gives → whether a strategy has it, and what to say of it."""


def prepared(config: Any, env: Any, model: Any) -> list[Strategy]:
    """The run's strategies, ready to train.

    Raises:
        ConfigError: The run lacks what one requires.
    """
    strategies: list[Strategy] = strategies_of(config)
    for one in strategies:
        one.training_env, one.model = env, model
        _check(one)
    for prepare in ("prepare_env", "prepare_model", "prepare_data"):
        for one in strategies:
            with said_in(one.section):
                getattr(one, prepare)()
    return strategies


def _check(strategy: Strategy) -> None:
    """Refuse a run that lacks what a strategy requires.

    Raises:
        ConfigError: It does.
    """
    for name in strategy.requires():
        if name not in REQUIREMENTS:
            why = f"is required by strategy {strategy.name}, and nothing known"
            raise ConfigError(bad_value("requires", name, REQUIREMENTS, why))
        met, needed = REQUIREMENTS[name]
        if not met(strategy):
            raise ConfigError(bad_value("strategy", strategy.name, needed, f"requires {name.replace('_', ' ')}"))
