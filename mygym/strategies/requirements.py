"""What a strategy can require of a run, checked when all is built and before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gymnasium import spaces

from mygym.errors import ConfigError, bad_value
from mygym.runs.factory import as_built
from mygym.runs.plan import Plannable, RunPlan, plan_of
from mygym.runs.strategies import errors_name_section
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
    "no_memory": (
        lambda strategy: not hasattr(strategy.model.policy, "lstm_actor"),
        "an algorithm whose policy acts on what it sees now, such as ppo",
    ),
}
"""Name in what `Strategy.requires` gives → whether a strategy has it, and what to say of it."""


def prepare_run(plan: RunPlan, env: Any, model: Any) -> RunPlan:
    """Prepare the strategies; return the plan with the values that constructors have decided.

    Raises:
        ConfigError: The run lacks what a strategy requires.
    """
    plan = plan.with_resolved(as_built(plan.resolved, model))
    prepared(plan, env, model)
    return plan


def prepared(run: Plannable, env: Any, model: Any) -> tuple[Strategy, ...]:
    """The run's strategies, ready to train.

    Raises:
        ConfigError: The run lacks what one requires.
    """
    strategies: tuple[Strategy, ...] = plan_of(run).strategies
    for one in strategies:
        one.training_env, one.model = env, model
        _check(one)
    for prepare in ("prepare_env", "prepare_model", "prepare_data"):
        for one in strategies:
            with errors_name_section(one.section):
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
