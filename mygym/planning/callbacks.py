"""`register_callback`, and the callbacks that a config names: subclasses of SB3's `BaseCallback`.

A callback is constructed with the parameters in the config, and gets SB3's events and `locals`. If its `_on_step`
returns False, the training ends. State in `state_dict` and `load_state_dict` is part of checkpoints.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from mygym.config.parameter_checks import check_parameters
from mygym.errors import ConfigError, bad_value
from mygym.registry import decorator, refuse_misspelt_methods, registry
from mygym.registry.signatures import checked_registration, parameters, source_location

if TYPE_CHECKING:
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.type_aliases import MaybeCallback

C = TypeVar("C")


@checked_registration
def register_callback(name: str, *, help: str = "", override: bool = False) -> Callable[[type[C]], type[C]]:
    """Class decorator that registers a callback for the key `callbacks` of configs.

    Args:
        name: Name in configs.
        help: One line for listings; by default the first line of the docstring.
        override: Replace a callback of the same name.

    Raises:
        RegistryError: The class is not a subclass of SB3's `BaseCallback`, or misspells the name of a method that SB3
            calls; or the name is taken.
    """

    def build(cls: type[C]) -> type[C]:
        base = next(base for base in cls.__mro__ if base.__name__ == "BaseCallback")
        refuse_misspelt_methods("callback", base, cls)
        return cls

    allowed = "a subclass of stable_baselines3's BaseCallback"
    return decorator("callback", name, build=build, check=is_callback, allowed=allowed, help=help, override=override)


def is_callback(cls: Any) -> bool:
    """Return whether an object is a subclass of SB3's `BaseCallback`; SB3 need not be imported."""
    return inspect.isclass(cls) and any(base.__name__ == "BaseCallback" for base in cls.__mro__)


def construct_callbacks(values: Sequence[Any]) -> list[BaseCallback]:
    """Return the callbacks of the key `callbacks` of a config.

    Raises:
        ConfigError: A callback is unknown, refuses its parameters, or does not call the constructor of its base.
    """
    constructed = []
    for cls, section, params in check_callbacks(values):
        try:
            constructed.append(_initialised(cls(**params)))
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{section}: {cls.__name__} refuses its arguments: {error}") from error
    return constructed


def _initialised(callback: BaseCallback) -> BaseCallback:
    """Return a callback; refuse one without the attributes that the constructor of SB3's class sets."""
    if not hasattr(callback, "n_calls"):
        cls = type(callback)
        raise ConfigError(
            f"callbacks: {cls.__name__}.__init__ does not call super().__init__() ({source_location(cls)})"
        )
    return callback


def as_callbacks(callbacks: MaybeCallback | Sequence[BaseCallback]) -> list[BaseCallback]:
    """Return the callbacks of a call of `mygym.train`, in each form that SB3's `learn` takes.

    Args:
        callbacks: A callback, a function of `locals` and `globals`, a list of both, or None.

    Raises:
        ConfigError: Something else, or a callback that does not call the constructor of its base.
    """
    if callbacks is None:
        return []
    from stable_baselines3.common.callbacks import BaseCallback, ConvertCallback

    values = callbacks if isinstance(callbacks, list | tuple) else [callbacks]
    result: list[BaseCallback] = []
    for value in values:
        if isinstance(value, BaseCallback):
            result.append(_initialised(value))
        elif callable(value) and not inspect.isclass(value):
            result.append(ConvertCallback(value))
        else:
            allowed = "instances of SB3's BaseCallback, and functions of locals and globals"
            raise ConfigError(bad_value("callbacks", value, allowed, "is not a callback"))
    return result


def check_callbacks(values: Sequence[Any]) -> list[tuple[type[BaseCallback], str, Mapping[str, Any]]]:
    """Return class, config key and parameters of each callback of a config; nothing is constructed.

    Raises:
        ConfigError: A callback is unknown, lacks a method, or does not take its parameters.
    """
    result = []
    for index, value in enumerate(values):
        key = f"callbacks.{index}"
        given = {"name": value} if isinstance(value, str) else value
        if unknown := sorted(given.keys() - {"name", "params"}):
            raise ConfigError(bad_value(key, unknown[0], ["name", "params"], "is not a key of a callback"))
        name, params = given.get("name"), given.get("params", {})
        if not isinstance(name, str) or not isinstance(params, Mapping):
            allowed = "a name, or {name: NAME, params: {…}}"
            raise ConfigError(bad_value(key, value, allowed, "is not a callback"))
        cls = _find(name, f"{key}.name")
        if missing := sorted(getattr(cls, "__abstractmethods__", ())):
            why = f"does not define {', '.join(missing)} ({source_location(cls)})"
            raise ConfigError(bad_value(key, name, "a callback that defines each method", why))
        check_parameters(f"{key}.params", name, parameters(cls), params)
        result.append((cls, f"{key}.params", params))
    return result


def _find(name: str, key: str) -> type[BaseCallback]:
    """Return the callback class with a registered name, or with a dotted name in an imported module."""
    module, _, attribute = name.rpartition(".")
    if not module:
        cls: type[BaseCallback] = registry("callback").get(name, key).load()
        return cls
    if module not in sys.modules:
        why = "would run code of a module that has not been imported"
        raise ConfigError(bad_value(key, name, f"also the flag --import {module}", why))
    component: Any = getattr(sys.modules[module], attribute, None)
    if not is_callback(component):
        names = [key for key, value in vars(sys.modules[module]).items() if is_callback(value)]
        raise ConfigError(bad_value(key, name, names, "is not a subclass of BaseCallback"))
    return component  # type: ignore[no-any-return]


for _name, _help, _requires in (
    ("layer_statistics", "logs root mean squares of weights and gradients of each layer", ()),
    ("section_times", "logs the time of environment, rollout, update and evaluation per env step", ()),
    ("wandb", "logs figures to Weights & Biases; offline by default", ("mygym[wandb]",)),
    ("mlflow", "logs figures to MLflow; into a local file by default", ("mygym[mlflow]",)),
):
    _target = f"mygym.training.monitors:{_name.title().replace('_', '')}Callback"
    registry("callback").register(_name, _target, _help, "mygym.training", requires=_requires)
