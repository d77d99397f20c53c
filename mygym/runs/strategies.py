"""The strategies of a run: one, or several that are joined by `+`, each with parameters of its own."""

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
        layers: Layers of a config, of which the last with a `strategy` decides whether strategies are joined.

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
            values["strategy"] = JOIN.join(aliases.get(part, part) for part in name.split(JOIN))
        if is_joined and isinstance(params := values.get(SECTION), Mapping):
            for alias in params.keys() & aliases.keys():
                if aliases[alias] in params:
                    why = f"is another name of {SECTION}.{aliases[alias]}"
                    raise ConfigError(bad_value(f"{SECTION}.{alias}", params[alias], "one of the two keys", why))
            values[SECTION] = {aliases.get(key, key): part for key, part in params.items()}
        replaced.append(replace(layer, values=values))
    return replaced


def sections(strategy: str, params: Mapping[str, Any]) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Name of each strategy → the key of its parameters in a config, and what is said of them.

    Args:
        strategy: A name, or several joined by `+`.
        params: What a config says as `strategy_params`.

    Raises:
        ConfigError: A name is there twice; or of joined ones, parameters that are of none of them.
        RegistryError: A name is not known.
    """
    names = [registry("strategy").get(name, "strategy").name for name in strategy.split(JOIN)]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(bad_value("strategy", strategy, "each name once", f"names {name} twice"))
    if len(names) == 1:
        return {names[0]: (SECTION, params)}
    for name, given in params.items():
        if name not in names or not isinstance(given, Mapping):
            example = f"parameters by strategy, e.g. {{{names[0]}: {{…}}}}"
            why = f"is none of {', '.join(names)}" if name not in names else "is no mapping"
            raise ConfigError(bad_value(f"{SECTION}.{name}", given, example, why))
    return {name: (f"{SECTION}.{name}", params.get(name, {})) for name in names}


def joined(parts: Mapping[str, Any]) -> dict[str, Any]:
    """What goes into the config of what each strategy says of its own parameters."""
    said = {name: dict(part) for name, part in parts.items() if part}
    return said if len(parts) > 1 else next(iter(said.values()), {})


@contextlib.contextmanager
def said_in(section: str) -> Iterator[None]:
    """Messages of a strategy, which does not know that it is joined, name its parameters as the config does.

    Raises:
        ConfigError: As of the strategy.
    """
    try:
        yield
    except ConfigError as error:
        raise ConfigError(str(error).replace(f"{SECTION}.", f"{section}.", 1)) from error


def strategies_of(config: RunConfig) -> list[Any]:
    """The run's strategies, constructed, in the order in which they are joined.

    Raises:
        ConfigError: One refuses its parameters.
    """
    found = []
    for name, (section, given) in sections(config.strategy, config.strategy_params).items():
        try:
            with said_in(section):
                strategy = registry("strategy").get(name).load()(**given)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{section}: {name} refuses its parameters: {error}") from error
        strategy.name, strategy.config, strategy.section = name, config, section
        found.append(strategy)
    return found
