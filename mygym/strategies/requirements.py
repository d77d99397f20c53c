"""Requirements of strategies on a run, checked when the run is built and before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gymnasium import spaces

from mygym.errors import ConfigError, bad_value
from mygym.planning.plan import Plannable, RunPlan, plan_of
from mygym.planning.strategies import JOIN, errors_name_section
from mygym.strategies.losses import actor_optimizer, trains_actor
from mygym.strategies.strategy import Requirement, Strategy
from mygym.training.model_factory import as_built

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
    "continuous_actions": (
        lambda strategy: isinstance(strategy.training_env.action_space, spaces.Box),
        "an algorithm with continuous actions, and actions.discrete: null",
    ),
    "actor_optimizer": (
        lambda strategy: actor_optimizer(strategy.model) is not None,
        "a gradient-based algorithm of framework pytorch, such as sac or ppo",
    ),
    "trained_actor": (
        lambda strategy: trains_actor(strategy.model),
        "a pretrained.freeze that leaves a layer of the actor",
    ),
    "first_order": (  # the natural gradient of trpo is taken by every parameter, also by a frozen parameter
        lambda strategy: not hasattr(strategy.model, "cg_max_steps"),
        "an algorithm that can leave parameters frozen: any but trpo",
    ),
    "no_memory": (
        lambda strategy: not hasattr(strategy.model.policy, "lstm_actor"),
        "an algorithm with a memoryless policy, such as ppo",
    ),
}
"""Name in `Strategy.requires` → test of a strategy, and allowed values for the message."""


def prepare_run(plan: RunPlan, env: Any, model: Any) -> RunPlan:
    """Prepare the strategies; return the plan with the values that constructors have decided."""
    plan = plan.with_resolved(as_built(plan.resolved, model))
    prepared(plan, env, model)
    return plan


def prepared(run: Plannable, env: Any, model: Any) -> tuple[Strategy, ...]:
    """Return the strategies of a run, ready to train.

    Raises:
        ConfigError: The run lacks a requirement of a strategy, two strategies replace the trainer, or a method
            returns a value that nothing would use, or `checkpointed` names an attribute that does not exist.
    """
    strategies = checked(run, env, model)
    for method in ("prepare_env", "prepare_model", "prepare_data"):
        for strategy in strategies:
            with errors_name_section(strategy.section):
                _check_returned(strategy, method, getattr(strategy, method)())
    for strategy in strategies:
        for name in strategy.checkpointed:
            if not hasattr(strategy, name):
                allowed, why = sorted(vars(strategy)), f"is no attribute of {type(strategy).__name__}"
                raise ConfigError(bad_value(f"{strategy.name}.checkpointed", name, allowed, why))
    return strategies


def checked(run: Plannable, env: Any, model: Any) -> tuple[Strategy, ...]:
    """Return the strategies of a run, which meets their requirements; nothing is prepared."""
    strategies: tuple[Strategy, ...] = plan_of(run).strategies
    _check_trainers(strategies)
    for strategy in strategies:
        strategy.training_env, strategy.model = env, model
        with errors_name_section(strategy.section):
            _check(strategy)
    return strategies


def _check_returned(strategy: Strategy, method: str, returned: object) -> None:
    """Check that a method which changes the run returns nothing: a new model or dataset would not be used."""
    if returned is not None and returned is not strategy.model:
        allowed = "None; change self.model, or set an attribute of the strategy"
        why = f"is returned by {type(strategy).__name__}, and nothing would use it"
        raise ConfigError(bad_value(f"{strategy.name}.{method}", type(returned).__name__, allowed, why))


def _check_trainers(strategies: Sequence[Strategy]) -> None:
    """Check that at most one of the joined strategies defines `create_trainer`."""
    names = [each.name for each in strategies if type(each).create_trainer is not Strategy.create_trainer]
    if len(names) > 1:
        why = f"joins {len(names)} strategies that replace the trainer: {', '.join(names)}"
        raise ConfigError(bad_value("strategy", JOIN.join(each.name for each in strategies), "one of them", why))


def _check(strategy: Strategy) -> None:
    """Check that the run meets the requirements of a strategy."""
    for required in strategy.requires():
        if isinstance(required, Requirement):
            words, is_met, allowed = required
        elif required in REQUIREMENTS:
            words, (is_met, allowed) = required.replace("_", " "), REQUIREMENTS[required]
        else:
            why = f"is an unknown requirement of strategy {strategy.name}"
            raise ConfigError(bad_value("requires", required, REQUIREMENTS, why))
        if not is_met(strategy):
            raise ConfigError(bad_value("strategy", strategy.name, allowed, f"requires {words}"))
