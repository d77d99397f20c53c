"""Strategies of a run, one or several joined by `+`, and the task variants that they choose."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.config import Layer, RunConfig, merged, resolve
from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.registry import registry
from mygym.registry.signatures import of_library, source_location
from mygym.tasks.components import STAGE_COLUMNS, stage_column
from mygym.tasks.lookup import find_task
from mygym.tasks.task import Task

JOIN = "+"
SECTION = "strategy_params"


def without_aliases(layers: Sequence[Layer]) -> list[Layer]:
    """Replace aliases of strategies: in `strategy`, and in the keys of `strategy_params` of joined strategies.

    Raises:
        ConfigError: `strategy_params` has a strategy and its alias.
    """
    aliases = registry("strategy").aliases
    names = [layer.values["strategy"] for layer in layers if isinstance(layer.values.get("strategy"), str)]
    is_joined = bool(names) and JOIN in names[-1]  # the last layer decides
    replaced = []
    for layer in layers:
        values = dict(layer.values)
        if isinstance(name := values.get("strategy"), str):
            values["strategy"] = JOIN.join(aliases.get(single, single) for single in name.split(JOIN))
        if is_joined and isinstance(params := values.get(SECTION), Mapping):
            for alias in params.keys() & aliases.keys():
                if aliases[alias] in params:
                    why = f"is another name of {SECTION}.{aliases[alias]}"
                    raise ConfigError(bad_value(f"{SECTION}.{alias}", params[alias], "one of the two keys", why))
            values[SECTION] = {aliases.get(key, key): value for key, value in params.items()}
        replaced.append(replace(layer, values=values))
    return replaced


def sections(strategy: str, params: Mapping[str, Any]) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Return for each strategy name the config key of its parameters, and their values.

    Raises:
        ConfigError: A name is repeated, or parameters belong to none of the joined strategies.
        RegistryError: A name is unknown.
    """
    names = [registry("strategy").get(name, "strategy").name for name in strategy.split(JOIN)]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(bad_value("strategy", strategy, "each name once", f"names {name} twice"))
    if len(names) == 1:
        return {names[0]: (SECTION, params)}
    for name, values in params.items():
        if name not in names or not isinstance(values, Mapping):
            example = f"parameters by strategy, e.g. {{{names[0]}: {{…}}}}"
            why = f"is none of {', '.join(names)}" if name not in names else "is not a mapping"
            raise ConfigError(bad_value(f"{SECTION}.{name}", values, example, why))
    return {name: (f"{SECTION}.{name}", params.get(name, {})) for name in names}


def join_params(params_by_strategy: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `strategy_params` section for the parameters of each strategy; the inverse of `sections`."""
    filled = {name: dict(params) for name, params in params_by_strategy.items() if params}
    return filled if len(params_by_strategy) > 1 else next(iter(filled.values()), {})


@contextlib.contextmanager
def errors_name_section(section: str) -> Iterator[None]:
    """Replace `strategy_params` in a strategy's messages by the section that the config uses."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(str(error).replace(f"{SECTION}.", f"{section}.", 1)) from error


def construct_strategies(config: RunConfig) -> list[Any]:
    """Return the strategies of `config`, in the order in which they are joined.

    Raises:
        ConfigError: A strategy refuses its parameters.
    """
    strategies = []
    for name, (section, params) in sections(config.strategy, config.strategy_params).items():
        try:
            with errors_name_section(section):
                strategy = registry("strategy").get(name).load()(**params)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{section}: {name} refuses its parameters: {error}") from error
        strategy.name, strategy.config, strategy.section = name, config, section
        strategies.append(strategy)
    return strategies


class ConstructedStrategies:
    """Strategies that are constructed once and updated while the values of the config are decided."""

    def __init__(self, config: RunConfig, params: Mapping[str, Any]) -> None:
        self.strategies = construct_strategies(config)
        self._constructed_with = (config.strategy, dict(params))

    def of(self, config: RunConfig) -> list[Any]:
        """Return the strategies with `config` set; they are constructed again only if their parameters differ."""
        parameters = (config.strategy, config.strategy_params)
        if parameters != self._constructed_with:
            self.strategies, self._constructed_with = construct_strategies(config), parameters
        for strategy in self.strategies:
            strategy.config = config
        return self.strategies


VARIANT_KEYS = ("task", "task_params", "robot", "workspace", "reward", "randomize")
"""Config keys that a variant may change: keys that do not change the spaces, or need not change them."""


@dataclass(frozen=True)
class Variant:
    """A task variant: a config for environments of a run."""

    config: RunConfig
    label: str
    """Display name, unique within the run."""


def make_variants(config: RunConfig, strategies: Sequence[Any]) -> tuple[tuple[Variant, ...], tuple[Variant, ...]]:
    """Return the variants of training, and the variants of evaluations and videos.

    Raises:
        ConfigError: Two strategies choose variants, or a variant has a key or value that environments do not accept.
    """
    strategy = _choosing_strategy(config, strategies)
    trained, evaluated = strategy.variants(config), strategy.evaluation_variants(config)
    variants = _with_labels(config, strategy, "variants", trained)
    if evaluated == trained:
        return variants, variants
    return variants, _with_labels(config, strategy, "evaluation_variants", evaluated)


def variant_codes(strategies: Sequence[Any], variants: Sequence[Variant]) -> NDArray[np.float32] | None:
    """Return the codes to append to the observations of the variants, `(variants, d)`; None: no codes.

    The strategy's `identify` decides. `one_hot`: a one-hot vector. `stages`: the columns of the component `stage_name`,
    with the stage's position in the task: from 1 for the first to 0 for stages that are absent. Tasks with the same
    stages therefore have similar codes, and an untrained task is near trained tasks.
    """
    codes = {strategy.identify for strategy in strategies} - {"none"}
    if not codes:
        return None
    if codes == {"one_hot"}:
        return np.eye(len(variants), dtype=np.float32)
    return np.array([_stage_code(find_task(variant.config.task)) for variant in variants], dtype=np.float32)


def _stage_code(task: Task) -> list[float]:
    columns = [stage_column(name) for name in task.stage_names]
    return [
        1.0 - columns.index(column) / len(columns) if column in columns else 0.0
        for column in range(len(STAGE_COLUMNS) + 1)
    ]


def _choosing_strategy(config: RunConfig, strategies: Sequence[Any]) -> Any:
    """Return the strategy that chooses the variants; at most one of joined strategies may have several variants."""
    choosing = [strategy for strategy in strategies if len(strategy.variants(config)) > 1]
    if len(choosing) > 1:
        names = " and ".join(strategy.name for strategy in choosing)
        why = f"joins {names}, which both choose the task variants"
        raise ConfigError(bad_value("strategy", config.strategy, "one of the two", why))
    return choosing[0] if choosing else strategies[0]


def _with_labels(
    config: RunConfig, strategy: Any, name: str, overrides: Sequence[Mapping[str, Any]]
) -> tuple[Variant, ...]:
    """Return the variants of `overrides`, the result of the strategy's method `name`."""
    if not overrides:
        why = "are no variants"
        raise ConfigError(bad_value(f"strategy {config.strategy}", [], "partial configs, e.g. ({},)", why))
    configs = []
    for index, override in enumerate(overrides):
        try:
            configs.append(_variant_config(config, override))
        except (ConfigError, RegistryError) as error:
            method = getattr(strategy, name)
            place = "" if of_library(method) else f" ({source_location(method)})"
            raise ConfigError(f"strategy {config.strategy}: {name}.{index}{place}: {error}") from error
    several_robots = len({variant.robot for variant in configs}) > 1
    labels: list[str] = []
    for variant in configs:
        label = find_task(variant.task).name + (f" on {variant.robot}" if several_robots else "")
        same = sum(other.partition(" #")[0] == label for other in labels)
        labels.append(f"{label} #{same + 1}" if same else label)
    return tuple(Variant(variant, label) for variant, label in zip(configs, labels, strict=True))


def _variant_config(config: RunConfig, override: Mapping[str, Any]) -> RunConfig:
    """Return `config` overlaid by `override`; a different task replaces the workspace and the task parameters."""
    if not override:
        return config
    for key in override:
        if key not in VARIANT_KEYS:
            raise ConfigError(bad_value("key", key, VARIANT_KEYS, "is not a key that variants may change"))
    values = config.model_dump(mode="json")
    task = override.get("task", config.task)
    if task != config.task:
        values["task_params"] = {}
        default_workspace = config.workspace in (None, find_task(config.task).workspace)
        if isinstance(task, str) and default_workspace:  # a composition names no workspace
            values["workspace"] = find_task(task).workspace
    return resolve([Layer(f"strategy {config.strategy}", merged(values, override))]).config
