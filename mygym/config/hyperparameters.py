"""Checks `algo_params` against the signature of an algorithm's class before anything is built."""

from __future__ import annotations

import contextlib
import inspect
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mygym.config.plain import is_plain
from mygym.errors import ConfigError, bad_value

OURS = frozenset({"self", "policy", "env", "seed", "device", "verbose", "tensorboard_log", "_init_setup_model"})
"""Constructor arguments that the run sets itself."""


@dataclass(frozen=True)
class Range:
    """An interval of numbers; open where said."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False

    def __contains__(self, value: float) -> bool:
        return (value > self.low if self.open_low else value >= self.low) and value <= self.high

    def __str__(self) -> str:
        low = f"above {self.low:g}" if self.open_low else f"at least {self.low:g}"
        return low if self.high == math.inf else f"{low} and at most {self.high:g}"


_POSITIVE = Range(0, open_low=True)
_COUNT = Range(1)
_SHARE = Range(0, 1)

RANGES: Mapping[str, Range] = {
    "learning_rate": _POSITIVE,
    "gamma": _SHARE,
    "gae_lambda": _SHARE,
    "tau": _SHARE,
    "batch_size": _COUNT,
    "buffer_size": _COUNT,
    "n_steps": _COUNT,
    "n_epochs": _COUNT,
    "learning_starts": Range(0),
    "gradient_steps": Range(-1),
    "target_update_interval": _COUNT,
    "policy_delay": _COUNT,
    "clip_range": _POSITIVE,
    "ent_coef": Range(0),
    "vf_coef": Range(0),
    "max_grad_norm": _POSITIVE,
    "n_delta": _COUNT,
    "n_top": _COUNT,
    "delta_std": _POSITIVE,
    "target_kl": _POSITIVE,
    "target_policy_noise": Range(0),
    "target_noise_clip": Range(0),
    "top_quantiles_to_drop_per_net": Range(0),
    "cg_max_steps": _COUNT,
    "cg_damping": Range(0),
    "n_critic_updates": _COUNT,
    "sde_sample_freq": Range(-1),
    "action_noise": Range(0),
    "train_freq": _COUNT,
    "stats_window_size": _COUNT,
    "n_eval_episodes": _COUNT,
    "population": Range(2),
    "elites": _COUNT,
    "initial_std": _POSITIVE,
    "extra_std": Range(0),
    "extra_generations": _COUNT,
    "smoothing": Range(0, 1, open_low=True),
    "episodes": _COUNT,
    "sub_sampling_factor": Range(1, 1),  # sb3-contrib cannot take every second one of dictionaries
}
"""Known ranges of hyperparameters that signatures do not bound."""

LARGEST = 3.4e38
"""Of float32, in which torch computes; beyond it lies infinity."""


def parameters(cls: type, include_ours: bool = False) -> dict[str, inspect.Parameter]:
    """Constructor parameters that a user may set; `*args, **kwargs` take the parents' along the MRO.

    With `include_ours` also those that the run sets itself.
    """
    found: dict[str, inspect.Parameter] = {}
    for base in cls.__mro__:
        if "__init__" not in base.__dict__:
            continue
        init: Callable[..., None] = base.__dict__["__init__"]
        own = inspect.signature(init).parameters.values()
        for parameter in own:
            named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            if named and (include_ours or parameter.name not in OURS):
                found.setdefault(parameter.name, parameter)
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in own):
            break
    return found


def defaults(cls: type) -> dict[str, Any]:
    """Values that the class itself gives to what nobody sets, as far as they are plain data."""
    return {
        name: list(parameter.default) if isinstance(parameter.default, tuple) else parameter.default
        for name, parameter in parameters(cls).items()
        if is_plain(parameter.default)
    }


def check(cls: type, values: Mapping[str, Any]) -> None:
    """Refuse what `cls` would not take.

    Raises:
        ConfigError: An unknown hyperparameter, a wrong type, or a number out of its known range.
    """
    _check("algo_params", values, parameters(cls), _hints(cls), cls.__name__)


def training_parameters(runner: type) -> dict[str, inspect.Parameter]:
    """Training parameters of a `Runner`: the keyword-only ones of its `training`."""
    found = inspect.signature(runner.training).parameters  # type: ignore[attr-defined]
    return {name: one for name, one in found.items() if one.kind is one.KEYWORD_ONLY}


def training_defaults(runner: type) -> dict[str, Any]:
    """Values that the signature of `training` gives to what nobody sets."""
    return {name: one.default for name, one in training_parameters(runner).items() if is_plain(one.default)}


def check_training(runner: type, values: Mapping[str, Any]) -> None:
    """Refuse what `training` of a `Runner` would not take.

    Raises:
        ConfigError: An unknown training parameter, one that nobody sets, a wrong type, or a number out of its range.
    """
    owner, known = f"{runner.__name__}.training", training_parameters(runner)
    _check("training_params", values, known, _hints_of(runner.training), owner)  # type: ignore[attr-defined]
    for name, parameter in known.items():
        if parameter.default is inspect.Parameter.empty and name not in values:
            raise ConfigError(bad_value(f"training_params.{name}", None, f"a value, which {owner} needs", "is missing"))


def _check(
    section: str,
    values: Mapping[str, Any],
    known: Mapping[str, inspect.Parameter],
    hints: Mapping[str, Any],
    owner: str,
) -> None:
    for name, value in values.items():
        key = f"{section}.{name}"
        if name not in known:
            raise ConfigError(bad_value(key, name, sorted(known), f"is not a parameter of {owner}"))
        hint = hints.get(name) or type(known[name].default)
        if not _fits(value, hint):
            raise ConfigError(bad_value(key, value, _words(hint), "has the wrong type"))
        for number in _numbers(value):
            if not abs(number) <= LARGEST:
                raise ConfigError(bad_value(key, value, f"finite numbers of at most {LARGEST:g}, as float32 has"))
            if name in RANGES and number not in RANGES[name]:
                raise ConfigError(bad_value(key, value, str(RANGES[name]), "is out of range"))


def _numbers(value: Any) -> Iterator[float]:
    """The value itself, the numbers in a list such as `[1, "step"]`, the one in `"auto_0.1"`."""
    for item in value if isinstance(value, list | tuple) else [value]:
        if isinstance(item, int | float) and not isinstance(item, bool):
            yield item
        elif isinstance(item, str):
            with contextlib.suppress(ValueError):
                yield float(item.removeprefix("auto_"))


def _hints(cls: type) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if "__init__" in base.__dict__:
            hints |= _hints_of(base.__dict__["__init__"])
    return hints


def _hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError):
        return {}


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value that YAML can hold fits an annotation; what YAML cannot express is left to the class."""
    origin = typing.get_origin(hint)
    options = typing.get_args(hint)
    if hint is Any or isinstance(hint, str | typing.TypeVar):
        return True
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, option) for option in options)
    if origin is typing.Literal:
        return value in options
    plain = origin or hint
    if plain is type(None):
        return value is None
    if plain is bool:
        return isinstance(value, bool)
    if plain is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if plain is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if plain is str:
        return isinstance(value, str)
    if plain is tuple and options and options[-1] is not ...:
        return isinstance(value, list | tuple) and len(value) == len(options) and all(map(_fits, value, options))
    if plain in (list, tuple):
        return isinstance(value, list | tuple)
    if plain is dict:
        return isinstance(value, Mapping)
    return isinstance(value, plain) if isinstance(plain, type) else callable(value)


def _words(hint: Any) -> str:
    names = {"None": "null", "NoneType": "null", "bool": "true or false", "int": "a whole number", "float": "a number",
             "str": "text"}  # fmt: skip
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(word for word in map(_words, inner) if "Callable" not in word)
    if origin is tuple:
        return f"[{', '.join(map(_words, inner))}]"
    name = str(getattr(hint, "__name__", hint))
    return names.get(name, name)
