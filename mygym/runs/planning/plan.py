"""`RunPlan`: complete description of a run, decided before its environments and its model are built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.config import Resolved, RunConfig
from mygym.config.hyperparameters import Schema
from mygym.registry import Algorithm, algorithm
from mygym.runs.planning.python_values import python_values
from mygym.runs.planning.resolve_config import resolve_with_strategies
from mygym.runs.planning.strategies import construct_strategies
from mygym.runs.planning.variants import Variant, make_variants, variant_codes


@dataclass(frozen=True)
class RunPlan:
    """Description of a run, created once and passed on through the run."""

    resolved: Resolved
    """The complete config, and the origin of each value."""
    algorithm: Algorithm
    schema: Schema
    """The algorithm's hyperparameters."""
    strategies: tuple[Any, ...]
    """The run's `Strategy` objects in the order of the config; the run uses the same objects until its end."""
    variants: tuple[Variant, ...]
    """Task variants of the training environments."""
    evaluated_variants: tuple[Variant, ...]
    """Task variants of evaluations and videos."""
    codes: NDArray[np.float32] | None
    """`(variants, d)`: appended to observations in training; None: nothing."""
    evaluation_codes: NDArray[np.float32] | None
    """`(evaluated_variants, d)`: appended to observations in evaluations; None: nothing."""

    @property
    def config(self) -> RunConfig:
        """The complete config."""
        return self.resolved.config

    @property
    def task_label(self) -> str:
        """Labels of the evaluated variants, e.g. `reach+push`."""
        return "+".join(dict.fromkeys(variant.label for variant in self.evaluated_variants))

    def with_resolved(self, resolved: Resolved) -> RunPlan:
        """Return the plan, with the same strategies, for a config that differs in `algo_params` only."""
        params = resolved.values()["algo_params"]

        def updated(variant: Variant) -> Variant:
            if variant.config is self.config:
                return replace(variant, config=resolved.config)
            return replace(variant, config=variant.config.model_copy(update={"algo_params": params}))

        plan = replace(
            self,
            resolved=resolved,
            schema=_schema(self.algorithm, resolved.config),
            variants=tuple(map(updated, self.variants)),
            evaluated_variants=tuple(map(updated, self.evaluated_variants)),
        )
        return _assigned(plan)


Plannable = RunPlan | Resolved | RunConfig
"""A plan, or a complete config."""

Config = Plannable | Mapping[str, Any]
"""A plan, or a config that may be incomplete."""


def make_plan(
    file: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    origin: str = "flag",
    file_origin: str = "file",
) -> RunPlan:
    """Resolve the config of a run, and plan the run.

    Args:
        file: Content of a config file.
        overrides: Flags, or the arguments of a call.
        origin: Name of `overrides` in messages and in `--explain`.
        file_origin: Name of `file` in messages and in `--explain`.

    Raises:
        ConfigError: An invalid key, type, value or combination.
    """
    return _plan(*resolve_with_strategies(file, overrides, origin, file_origin))


def plan_from_python(config: Config) -> RunPlan:
    """Plan the run of a config given from Python, which may be incomplete, e.g. `{"algo": "ppo"}`.

    Raises:
        ConfigError: An invalid key, type, value or combination.
    """
    if isinstance(config, RunPlan | Resolved):
        return plan_of(config)
    return make_plan(overrides=python_values(config), origin="argument")


def plan_of(run: Plannable) -> RunPlan:
    """Return the plan of a complete config; return a plan unchanged.

    Raises:
        ConfigError: A strategy refuses its parameters, or its variants are invalid.
    """
    if isinstance(run, RunPlan):
        return run
    resolved = run if isinstance(run, Resolved) else Resolved(run, {})
    return _plan(resolved, construct_strategies(resolved.config))


def _plan(resolved: Resolved, strategies: list[Any]) -> RunPlan:
    config = resolved.config
    entry = algorithm(config.algo, config.framework)
    variants, evaluated = make_variants(config, strategies)
    plan = RunPlan(
        resolved=resolved,
        algorithm=entry,
        schema=_schema(entry, config),
        strategies=tuple(strategies),
        variants=variants,
        evaluated_variants=evaluated,
        codes=variant_codes(strategies, variants),
        evaluation_codes=variant_codes(strategies, evaluated),
    )
    return _assigned(plan)


def _schema(entry: Algorithm, config: RunConfig) -> Schema:
    return Schema(entry, config.algo_params, bool(config.her))


def _assigned(plan: RunPlan) -> RunPlan:
    """Set the plan and its config on the strategies; return the plan."""
    for strategy in plan.strategies:
        strategy.config, strategy.plan = plan.config, plan
    return plan
