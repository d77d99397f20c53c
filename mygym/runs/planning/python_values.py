"""Values of a config given from Python, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mygym.config import RunConfig
from mygym.config.named_components import NAMED, name_of, shown
from mygym.config.plain import MAX_DEPTH, as_plain, is_plain
from mygym.errors import ConfigError, bad_value


def python_values(config: RunConfig | Mapping[str, Any]) -> dict[str, Any]:
    """Return the explicitly set values of a config given from Python, as plain data.

    Raises:
        ConfigError: It is no config, or a class in it has no name.
    """
    if isinstance(config, RunConfig):
        return config.model_dump(mode="json", exclude_unset=True)
    if not isinstance(config, Mapping):
        allowed = "a mapping such as {'task': 'push'}; evaluate, load and make_env take the path of a run, too"
        raise ConfigError(bad_value("config", config, allowed))
    return _with_names(as_plain(config))


def _with_names(values: Mapping[str, Any], path: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return values with the names of registered classes and functions, such as `torch.nn.ReLU`, in their place.

    Raises:
        ConfigError: A class or function is not registered.
    """
    return {key: _with_name(value, (*path, key)) for key, value in values.items()}


def _with_name(value: Any, path: tuple[str, ...]) -> Any:
    if isinstance(value, Mapping):
        return _with_names(value, path) if len(path) <= MAX_DEPTH else value
    if path[-1] not in NAMED or is_plain(value):
        return value
    name = name_of(value)
    if name is None:
        allowed = f"a name of `mygym list {NAMED[path[-1]]}`"
        raise ConfigError(bad_value(".".join(path), shown(value), allowed, "is not registered"))
    return name
