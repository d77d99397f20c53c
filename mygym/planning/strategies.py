"""Construct the strategies of a run: a single strategy, or several joined by `+`, with parameters for each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mygym.config import Layer, RunConfig
from mygym.errors import ConfigError, bad_value
from mygym.registry import registry

JOIN = "+"
SECTION = "strategy_params"


def without_aliases(layers: Sequence[Layer]) -> list[Layer]:
    """Replace aliases of strategies: in `strategy`, and in the keys of `strategy_params` of joined strategies.

    Args:
        layers: Layers of a config; the last layer with a `strategy` decides whether strategies are joined.

    Raises:
        ConfigError: `strategy_params` has a strategy and its alias.
    """
    aliases = registry("strategy").aliases
    names = [layer.values["strategy"] for layer in layers if isinstance(layer.values.get("strategy"), str)]
    is_joined = bool(names) and JOIN in names[-1]
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

    Args:
        strategy: A name, or several joined by `+`.
        params: The config's `strategy_params`.

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
    """Replace `strategy_params` in a strategy's messages by the section that the config uses.

    Raises:
        ConfigError: Raised by the strategy.
    """
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
    """Strategies that are constructed once and updated while the values of the config are decided.

    Args:
        config: A config with the user's values.
        params: Its complete `strategy_params`, the defaults of the strategies' classes included.
    """

    def __init__(self, config: RunConfig, params: Mapping[str, Any]) -> None:
        self.strategies = construct_strategies(config)
        self._constructed_with = (config.strategy, dict(params))

    def of(self, config: RunConfig) -> list[Any]:
        """Return the strategies with `config` set; they are constructed again only if their parameters differ.

        Raises:
            ConfigError: A strategy refuses its parameters.
        """
        parameters = (config.strategy, config.strategy_params)
        if parameters != self._constructed_with:
            self.strategies, self._constructed_with = construct_strategies(config), parameters
        for strategy in self.strategies:
            strategy.config = config
        return self.strategies
