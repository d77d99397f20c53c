"""Layers of settings → one validated `RunConfig`, and where each value came from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError

from mygym.config.loading import merged
from mygym.config.plain import check_plain
from mygym.config.schema import LATER, NOT_SHAPING, RunConfig
from mygym.config.validation_errors import dotted, first_mistake
from mygym.errors import ConfigError, bad_value


@dataclass(frozen=True)
class Layer:
    """Settings with one origin, e.g. `file run.yaml`."""

    origin: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Resolved:
    """A config and the origin of each of its values, by dotted key."""

    config: RunConfig
    origins: Mapping[str, str]

    def values(self) -> dict[str, Any]:
        """Nested plain values, as `config.yaml` has them."""
        return self.config.model_dump(mode="json")

    def with_algo_params(self, params: Mapping[str, Any]) -> Resolved:
        """The same with other `algo_params`; what is new within a value is of the value's origin."""
        config = self.config.model_copy(update={"algo_params": dict(params)})
        keys = (key for key, _ in flatten(config.model_dump(mode="json")))
        return Resolved(config, {key: self.origins.get(key) or _parent_origin(key, self.origins) for key in keys})


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """`("eval.every", 500)` … for every leaf of nested dictionaries; empty ones count as leaves."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def resolve(layers: Sequence[Layer]) -> Resolved:
    """Validate the layers' union; later layers win.

    Raises:
        ConfigError: An unknown key, a wrong type or a value out of range, with the layer that brought it.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        check_plain(layer.values, layer.origin)
        values = merged(values, layer.values)
        origins |= {key: layer.origin for key, _ in flatten(layer.values)}
    try:
        config = RunConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_explain(error, values, origins)) from None
    complete = dict(flatten(config.model_dump(mode="json")))
    return Resolved(config, {key: origins.get(key, _parent_origin(key, origins)) for key in complete})


def refuse_defaults(resolved: Resolved) -> None:
    """`strict: true`: every value must have been written by the user.

    Raises:
        ConfigError: Names the values that were not.
    """
    left = [key for key, origin in resolved.origins.items() if not origin.startswith(("file", "flag", "argument"))]
    if left:
        raise ConfigError(
            bad_value("strict", True, f"every value written out; missing: {', '.join(left)}", "allows no default")
        )


def config_hash(values: Mapping[str, Any]) -> str:
    """Eight hex digits over what shapes the result: never seed, logdir or evaluation."""
    shaping = {key: value for key, value in values.items() if key not in NOT_SHAPING}
    for key in (
        "training_params",
        "strategy_params",
        "randomize",
    ):  # most runs have none, and keep the names of their settings
        if not shaping.get(key):
            shaping.pop(key, None)
    text = json.dumps(shaping, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _origin(key: str, origins: Mapping[str, str]) -> str:
    """Who brought a key, be it a mapping or within one."""
    below = [origin for other, origin in origins.items() if other.startswith(f"{key}.")]
    return origins.get(key) or (below[-1] if below else _parent_origin(key, origins))


def _parent_origin(key: str, origins: Mapping[str, str]) -> str:
    while "." in key:
        key = key.rpartition(".")[0]
        if key in origins:
            return origins[key]
    return "default"


def _explain(error: ValidationError, values: Mapping[str, Any], origins: Mapping[str, str]) -> str:
    """The first mistake as one message: key, value, allowed, nearest, origin."""
    path, given, allowed, unknown = first_mistake(error)
    key = dotted(path)
    origin = _origin(key, origins)
    if unknown:
        names = sorted(_section(path[:-1]).model_fields)
        return bad_value(key, given, names, f"is not a config key ({origin})")
    later = LATER.get(key, {}).get(str(given))
    if later:
        return bad_value(key, given, allowed, f"is not available in this version: {later} comes later")
    if key in CHOICES:
        return bad_value(key, given, CHOICES[key], f"is not allowed ({origin})")
    return bad_value(key, given, allowed, f"is not allowed ({origin})")


CHOICES = {
    key: [str(choice) for choice in get_args(field.annotation)]
    for key, field in RunConfig.model_fields.items()
    if get_origin(field.annotation) is Literal
}
"""Keys that take one of a few names."""


def _section(path: Sequence[str | int]) -> type[BaseModel]:
    section: type[BaseModel] = RunConfig
    for part in path:
        field = section.model_fields.get(str(part))
        section = next(_sections_in(field.annotation), section) if field else section
    return section


def _sections_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Sections that a type is, or is made of: `dict[str, Box]`, `list[Distractor] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _sections_in(part)
