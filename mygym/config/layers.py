"""Merge layers of values into a validated `RunConfig`, and record the origin of each value."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from mygym.config.loading import check_plain
from mygym.config.parameter_checks import ALIASES, HYPERPARAMETERS, keys_named
from mygym.config.schema import NOT_SHAPING, NamedSection, RunConfig, renamed
from mygym.config.toolkit import REPLACED_BY
from mygym.config.validation_errors import dotted, first_mistake, keys_at, unknown_keys
from mygym.errors import ConfigError, bad_value, did_you_mean, nearest
from mygym.nested import changed, merged

TEXTS: Mapping[str, str] = {
    name: f"{name}.{next(iter(field.annotation.model_fields))}"
    for name, field in RunConfig.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, NamedSection)
}
"""Section that may be just text → dotted key of the value that the text stands for, e.g. `pretrained.path`."""


@dataclass(frozen=True)
class Layer:
    """Config values with a common origin, e.g. `file run.yaml`."""

    origin: str
    values: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Replace former names of keys."""
        object.__setattr__(self, "values", renamed(self.values))


@dataclass(frozen=True)
class Resolved:
    """A config and the origin of each of its values, by dotted key."""

    config: RunConfig
    origins: Mapping[str, str]

    def values(self) -> dict[str, Any]:
        """Return nested plain values, as in `config.yaml`."""
        return self.config.model_dump(mode="json")

    def rows(self) -> list[tuple[str, Any, str]]:
        """Return dotted key, value and origin of each value, in the order of the schema."""
        return [(key, value, self.origins[key]) for key, value in flatten(self.values())]

    def origin(self, key: str) -> str:
        """Return the origin of a value, or of a mapping of values."""
        return _origin(key, self.origins)

    def with_algo_params(self, params: Mapping[str, Any]) -> Resolved:
        """Return a copy with other `algo_params`; a new key has the origin of the mapping that contains it."""
        config = self.config.model_copy(update={"algo_params": dict(params)})
        keys = (key for key, _ in flatten(config.model_dump(mode="json")))
        return Resolved(config, {key: _nearest_origin(key, self.origins) for key in keys})


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield `("eval.every", 500)` … for every leaf of nested mappings; an empty mapping is a leaf."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def resolve(layers: Sequence[Layer]) -> Resolved:
    """Merge the layers (later layers win) and validate the result.

    Raises:
        ConfigError: An unknown key, a wrong type or a value out of range; names the layer of the value.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        check_plain(layer.values, layer.origin)
        values = merge_configs(values, layer.values)
        of_layer = _origins_of(layer)
        if "control.name" in of_layer:  # it replaces the parameters of another controller
            origins = {key: origin for key, origin in origins.items() if not key.startswith("control.")}
        origins |= of_layer
    return _with_origins(validated(RunConfig, values, origins), origins)


M = TypeVar("M", bound=BaseModel)


def validated(model: type[M], values: Mapping[str, Any], origins: Mapping[str, str]) -> M:
    """Return the model of values.

    Args:
        model: `RunConfig`, or a model with some of its keys.
        values: The values.
        origins: Origin of each, by dotted key.

    Raises:
        ConfigError: An unknown key, a wrong type or a value out of range, with its origin.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _explain(error, origins) from None


def overlaid(resolved: Resolved, layer: Layer) -> Resolved:
    """Return a config with a further layer on top, whose values are valid by themselves."""
    known = {TEXTS.get(key, key): origin for key, origin in resolved.origins.items()}
    values = merge_configs(_given(resolved.config, layer.values), layer.values)
    return _with_origins(_with_values(resolved.config, values), known | _origins_of(layer))


def beneath(config: RunConfig, layers: Sequence[Layer]) -> RunConfig:
    """Return a config with the values of layers where the config has none that is set.

    Raises:
        ConfigError: A key is unknown, or a value is invalid.
    """
    values: dict[str, Any] = {}
    for layer in layers:
        values = merge_configs(values, layer.values)
    given = _given(config, values)
    try:
        return _with_values(config, merge_configs(values, given))
    except (AttributeError, ValidationError):  # an unknown key, or a mistake in a section
        resolve([*layers, Layer("argument", given)])  # words it
        raise


def _given(config: RunConfig, keys: Iterable[str]) -> dict[str, Any]:
    """Return the values of top-level keys that are set, as plain data."""
    return config.model_dump(mode="json", include=set(keys), exclude_unset=True)


def _with_values(config: RunConfig, values: Mapping[str, Any]) -> RunConfig:
    """Return a config with other values of top-level keys; only the sections among them are validated."""
    updates: dict[str, Any] = {}
    for key, value in values.items():
        section = type(getattr(config, key))
        updates[key] = section.model_validate(value) if issubclass(section, BaseModel) else value
    return config.model_copy(update=updates)


def _origins_of(layer: Layer) -> dict[str, str]:
    return {TEXTS.get(key, key): layer.origin for key, _ in flatten(layer.values)}


def _with_origins(config: RunConfig, origins: dict[str, str]) -> Resolved:
    complete = dict(flatten(config.model_dump(mode="json")))
    if "control" in complete:  # a name without parameters
        origins["control"] = origins.get("control.name", "default")
    return Resolved(config, {key: _nearest_origin(key, origins) for key in complete})


def merge_configs(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of `low` overlaid by those of `high`.

    A section that may be just text, such as `pretrained`, is merged as the mapping that the text stands for. But a
    controller that `high` names replaces the controller of `low` with its parameters.
    """
    low, high = renamed(low), renamed(high)
    result = merged(low, high)
    for section, key in TEXTS.items():
        known, value, first = low.get(section), high.get(section), key.rpartition(".")[2]
        if section == "control" and (isinstance(value, str) or (isinstance(value, Mapping) and first in value)):
            result[section] = value  # the parameters of another controller mean something else
        elif isinstance(known, str) and isinstance(value, Mapping):
            result[section] = {first: known, **value}
        elif isinstance(known, Mapping) and isinstance(value, str):
            result[section] = {**known, first: value}
    return result


def refuse_defaults(resolved: Resolved, chosen: Resolved) -> None:
    """Raise `ConfigError` for values that the user did not set (`strict: true`); the message names them.

    `chosen` are the values before others are derived: one that the user set may be derived in another form.
    """
    given = ("file", "flag", "argument", "network of")
    by_user = {key for each in (resolved, chosen) for key, origin in each.origins.items() if origin.startswith(given)}
    missing = [key for key in resolved.origins if key not in by_user]
    if missing:
        raise ConfigError(
            bad_value("strict", True, f"every value written out; missing: {', '.join(missing)}", "allows no default")
        )


@cache
def _defaults() -> dict[str, Any]:
    return RunConfig().model_dump(mode="json")


def config_hash(values: Mapping[str, Any]) -> str:
    """Return eight hex digits that identify the values that shape the result (not seed, logdir or evaluation).

    Values equal to the schema's defaults do not count: a new key leaves the hashes of other configs as they are.
    """
    shaping = {key: value for key, value in changed(values, _defaults()).items() if key not in NOT_SHAPING}
    return hashlib.sha256(json.dumps(shaping, sort_keys=True, default=str).encode()).hexdigest()[:8]


def _origin(key: str, origins: Mapping[str, str]) -> str:
    """Return the origin of a key, whether it is a leaf or a mapping."""
    below = [origin for other, origin in origins.items() if other.startswith(f"{key}.")]
    return below[-1] if below and key not in origins else _nearest_origin(key, origins)


def _nearest_origin(key: str, origins: Mapping[str, str]) -> str:
    """Return the origin of a key, or else of the nearest mapping that contains it."""
    while key and key not in origins:
        key = key.rpartition(".")[0]
    return origins.get(key, "default")


def _explain(error: ValidationError, origins: Mapping[str, str]) -> ConfigError:
    """Return the error for all unknown keys, or for the first mistake: key, value, origin, allowed, nearest."""
    unknown = unknown_keys(error)
    if len(unknown) > 1:
        names = [f"{dotted(path)}{_hint(path)}" for path in unknown]
        count = f"{len(unknown)} keys are not config keys ({_origin(dotted(unknown[0]), origins)})"
        several = ConfigError(f"{count}: {', '.join(names)}; allowed: the keys that `mygym schema` prints")
        several.parts = [_unknown(path, origins) for path in unknown]
        return several
    path, given, allowed, kind = first_mistake(error)
    if kind == "unknown":
        return ConfigError(_unknown(path, origins))
    key, why = dotted(path), f"is not allowed ({_origin(dotted(path), origins)})"
    return ConfigError(bad_value(key, given, allowed, why) + did_you_mean(given, re.findall(r"'(\w+)'", allowed)))


def _unknown(path: Sequence[str | int], origins: Mapping[str, str]) -> str:
    """Return the message for an unknown key."""
    key, names = dotted(path), sorted(keys_at(RunConfig, path[:-1]))
    message = bad_value(key, path[-1], ", ".join(names), f"is not a config key ({_origin(key, origins)})")
    elsewhere = _elsewhere(path)
    return message + (f"; use {elsewhere}" if elsewhere else did_you_mean(path[-1], names))


def _hint(path: Sequence[str | int]) -> str:
    """Return ` (use KEY)` or ` (did you mean 'KEY'?)` for an unknown key; empty if no key is similar."""
    if key := _elsewhere(path):
        return f" (use {key})"
    near = nearest(path[-1], keys_at(RunConfig, path[:-1]))
    return f" (did you mean {dotted((*path[:-1], near[0]))!r}?)" if near else ""


def _elsewhere(path: Sequence[str | int]) -> str:
    """Return the config key that replaces a key of another system, or a key in the wrong section; or empty."""
    key = str(path[-1])
    if len(path) == 1 and (replaced := REPLACED_BY.get(key) or FOREIGN.get(key)):
        return replaced
    if (meant := ALIASES.get(key.lower(), key)) in HYPERPARAMETERS:
        return f"algo_params.{meant}"
    keys = keys_named(key)
    return keys[0] if len(keys) == 1 or key in RunConfig.model_fields else ""


FOREIGN = {
    "model_name": "algo for a new policy, pretrained for the policy of a run",
    "dataset": "strategy demos, with strategy_params.dataset for the path that mygym demos printed",
    "output_dir": "logdir",
    "env": "task",
    "env_id": "task",
    "total_timesteps": "steps",
    "n_timesteps": "steps",
    "num_train_epochs": "steps, in env steps",
    "per_device_train_batch_size": "algo_params.batch_size",
    "weight_decay": "algo_params.policy_kwargs.optimizer_kwargs.weight_decay",
    "optim": "algo_params.policy_kwargs.optimizer_class",
    "eval_steps": "eval.every, in env steps",
    "save_steps": "checkpoint.every, in env steps",
    "lora_r": "strategy_params.rank, with strategy lora",
    "lora_alpha": "strategy_params.scale, with strategy lora",
}
"""Keys of other libraries and of trainers of language models → the key in their place."""
