"""`RunPlan`: complete description of a run, decided before its environments and its model are built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.config import Layer, Resolved, RunConfig, resolve
from mygym.config.hyperparameters import Schema
from mygym.config.schema import renamed
from mygym.errors import MygymError
from mygym.planning.resolve import check_names, python_values, resolve_with_strategies
from mygym.planning.strategies import VARIANT_KEYS, Variant, construct_strategies, make_variants, variant_codes
from mygym.registry import Algorithm, algorithm


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
        """Return the plan, with its strategies and variants, for a config with the same `VARIANT_KEYS`."""

        def updated(variant: Variant) -> Variant:
            kept = {key: getattr(variant.config, key) for key in VARIANT_KEYS}
            return replace(variant, config=resolved.config.model_copy(update=kept))

        variants, evaluated = (tuple(map(updated, each)) for each in (self.variants, self.evaluated_variants))
        return _plan(resolved, self.strategies, variants, evaluated)


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
    resolved, strategies = resolve_with_strategies(file, overrides, origin, file_origin)
    return _plan(resolved, strategies, *make_variants(resolved.config, strategies))


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
    strategies = construct_strategies(resolved.config)
    return _plan(resolved, strategies, *make_variants(resolved.config, strategies))


def _plan(
    resolved: Resolved, strategies: Sequence[Any], variants: tuple[Variant, ...], evaluated: tuple[Variant, ...]
) -> RunPlan:
    """Return the plan of a complete config, which is set on its strategies."""
    config = resolved.config
    entry = algorithm(config.algo, config.framework)
    plan = RunPlan(
        resolved=resolved,
        algorithm=entry,
        schema=Schema(entry, config.algo_params, bool(config.her)),
        strategies=tuple(strategies),
        variants=variants,
        evaluated_variants=evaluated,
        codes=variant_codes(strategies, variants),
        evaluation_codes=variant_codes(strategies, evaluated),
    )
    for strategy in strategies:
        strategy.config, strategy.plan = config, plan
    return plan


Path = tuple[str | int, ...]
"""Keys, and indices in lists."""

MOST = 25
"""Largest number of mistakes that are listed."""

CHOSEN_BY = {"algo_params": "algo", "training_params": "algo", "strategy_params": "strategy", "task_params": "task"}
"""Section → the key that decides which parameters it may have."""


def plan_or_mistakes(config: Mapping[str, Any], refused: Mapping[Path, str]) -> tuple[RunPlan | None, list[str]]:
    """Return the plan of a config and no mistakes, or None and the mistakes: of keys and types, names, combinations.

    A mistake that may follow from another is left out: beside a wrong key or name, combinations are not judged, and
    parameters only if the config chooses what they belong to.

    Args:
        config: Values of the user.
        refused: Keys to a value → message; these values are mistakes already, and are only checked by the schema.
    """
    listed: dict[str, str] = {}
    plans: list[RunPlan] = []
    rest = renamed(_collect(renamed, config, listed))
    rest = _collect(lambda values: resolve([Layer("argument", values)]), rest, listed)
    for path, message in refused.items():
        shorter = _without(rest, path)
        if shorter != rest:  # else its key is unknown
            listed[".".join(map(str, path))], rest = message, shorter
    rest = _collect(lambda values: check_names(resolve([Layer("argument", values)]).config), rest, listed)
    _collect(lambda values: plans.append(make_plan(overrides=values, origin="argument")), rest, listed, _may_be_judged)
    messages = list(listed.values()) or list(refused.values())
    return (None, messages[:MOST]) if messages else (plans[0], [])


def _collect(
    check: Callable[[dict[str, Any]], object],
    config: Mapping[str, Any],
    listed: dict[str, str],
    judged: Callable[[str, Mapping[str, Any], Mapping[str, str]], bool] = lambda *_: True,
) -> dict[str, Any]:
    """Add the mistakes that a check raises, one after the other; return the config without the values they name."""
    rest = dict(config)
    for _ in range(MOST):
        try:
            check(rest)
            break
        except MygymError as error:
            messages = getattr(error, "parts", ()) or [str(error)]
        shorter = rest
        for message in messages:
            key = message.partition(": ")[0]
            if judged(key, rest, listed):
                listed.setdefault(key, message)
            shorter = _without(shorter, tuple(key.split(".")))
        if shorter == rest:
            break
        rest = shorter
    return rest


def _may_be_judged(key: str, rest: Mapping[str, Any], listed: Mapping[str, str]) -> bool:
    """Return whether a mistake does not follow from those that were listed."""
    in_doubt = any(other.partition(".")[0] not in CHOSEN_BY for other in listed)
    return not in_doubt or CHOSEN_BY.get(key.partition(".")[0]) in rest


def _without(config: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return a config without the value at nested keys, or without the list or text in which it is."""
    value = config.get(str(path[0]))
    if len(path) > 1 and isinstance(value, Mapping):
        return {**config, str(path[0]): _without(value, path[1:])}
    return {name: item for name, item in config.items() if name != path[0]}
