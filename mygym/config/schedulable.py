"""Find the hyperparameters that may follow a schedule, because the algorithm's class reads them repeatedly.

`READS` lists them for the libraries' classes. For other classes the annotation decides: a `float | Schedule` parameter
is called with the remaining progress; a `float` parameter must be stored in the attribute of the same name.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from mygym.config.parameter_checks import MAX_FLOAT32, RUN_PARAMETERS, range_of, refusal_of_type
from mygym.config.schedules import Schedule, parse
from mygym.errors import ConfigError, bad_value
from mygym.nested import is_schedule
from mygym.registry.signatures import Parameter, fits, parameters

LIBRARIES = ("stable_baselines3", "sb3_contrib", "sbx")
"""Packages whose classes can schedule only the parameters in `READS`."""

RUNNER = "mygym.Runner"
"""The base class of algorithms with a custom training loop."""

FIXED = frozenset({"gamma"})
"""Hyperparameters that cannot be scheduled, because the environment also uses them to shape rewards."""


@dataclass(frozen=True)
class Reads:
    """Hyperparameters that a class reads repeatedly, by the way it reads them."""

    called: frozenset[str] = frozenset()
    """Hyperparameters that it reads by calling a function of the remaining progress at each update."""
    held: frozenset[str] = frozenset()
    """Hyperparameters that it reads from the attribute of the same name at each use."""


def _reads(called: str, held: str = "") -> Reads:
    return Reads(frozenset(called.split()), frozenset(held.split()))


_PPO = _reads("learning_rate clip_range clip_range_vf", "ent_coef vf_coef max_grad_norm target_kl")
_SAC = _reads("learning_rate", "tau ent_coef target_entropy action_noise")
_DQN = _reads("learning_rate", "tau max_grad_norm")

READS: Mapping[str, Reads] = {
    "stable_baselines3.PPO": _PPO,
    "stable_baselines3.A2C": _reads("learning_rate", "ent_coef vf_coef max_grad_norm"),
    "stable_baselines3.SAC": _SAC,
    "stable_baselines3.TD3": _reads("learning_rate", "tau target_policy_noise target_noise_clip action_noise"),
    "stable_baselines3.DQN": _DQN,
    "sb3_contrib.QRDQN": _DQN,
    "sb3_contrib.TQC": _SAC,
    "sb3_contrib.CrossQ": _reads("learning_rate", "ent_coef target_entropy action_noise"),
    "sb3_contrib.TRPO": _reads("learning_rate", "target_kl cg_damping line_search_shrinking_factor"),
    "sb3_contrib.ARS": _reads("learning_rate delta_std"),  # a changing offset would favour some candidates
    "sb3_contrib.RecurrentPPO": _PPO,
    # SBX compiles all other hyperparameters into the update or the optimiser, once.
    "sbx.PPO": _reads("learning_rate clip_range", "ent_coef vf_coef"),
    "sbx.SAC": _reads("learning_rate", "tau target_entropy action_noise"),
    "sbx.TQC": _reads("learning_rate", "tau target_entropy action_noise"),
    "sbx.CrossQ": _reads("", "target_entropy action_noise"),
    "sbx.TD3": _reads("", "tau target_policy_noise target_noise_clip action_noise"),
}
"""Package and class → the hyperparameters that it reads; subclasses read the same."""


def schedules(cls: type, values: Mapping[str, Any], total_steps: int) -> dict[str, Schedule]:
    """Return the schedules among `values`, the complete hyperparameters of an algorithm.

    Raises:
        ConfigError: A schedule is wrong, does not fit the run's steps, or could have no effect.
    """
    known = parameters(cls, leave_out=RUN_PARAMETERS)
    scheduled = {}
    for name, value in values.items():
        if name in known and is_scheduled(value, known[name]):
            scheduled[name] = check_schedule(cls, value, known[name], total_steps)
            if why := _contradiction(cls, name, values):
                raise ConfigError(bad_value(f"algo_params.{name}", value, "no schedule", why))
    return scheduled


def may_be_scheduled(cls: type) -> dict[str, str]:
    """Return the hyperparameters that may follow a schedule → `"called"` or `"held"` (see `Reads`)."""
    known = parameters(cls, leave_out=RUN_PARAMETERS)
    return {name: way for name, parameter in known.items() if (way := _way(cls, parameter)) is not None}


def is_scheduled(value: Any, parameter: Parameter) -> bool:
    """Return whether a mapping is a schedule of a number, rather than the value of a parameter that takes mappings."""
    if not isinstance(value, Mapping):
        return False
    takes_number = fits(0.5, parameter.annotation)
    if fits(value, parameter.annotation):
        return is_schedule(value) and takes_number
    return is_schedule(value) or takes_number


def check_schedule(
    cls: type, value: Mapping[str, Any], parameter: Parameter, total_steps: int | None = None
) -> Schedule:
    """Return the schedule of a hyperparameter.

    Raises:
        ConfigError: The class cannot follow a schedule here, or the schedule is wrong.
    """
    key = f"algo_params.{parameter.name}"
    if _way(cls, parameter) is None:
        names = ", ".join(may_be_scheduled(cls)) or "nothing"
        allowed = f"{parameter.type_in_words}; of {cls.__name__} may be scheduled: {names}"
        raise ConfigError(bad_value(key, value, allowed, "is fixed while training"))
    schedule = parse(key, value, range_of(parameter), total_steps)
    numbers = [number for _, number in schedule.trials(total_steps)]
    if any(abs(number) > MAX_FLOAT32 for number in numbers):
        raise ConfigError(bad_value(key, value, f"finite numbers of at most {MAX_FLOAT32:g}, as float32 has"))
    refused = ((n, refusal) for n in numbers if (refusal := refusal_of_type(n, parameter.annotation)))
    if outside := next(refused, None):
        raise ConfigError(bad_value(key, value, outside[1], f"reaches {outside[0]:g}, which is out of range"))
    return schedule


def _way(cls: type, parameter: Parameter) -> str | None:
    """Return the way a class reads a parameter: `"called"` or `"held"`; None if the parameter may not be scheduled."""
    name, hint = parameter.name, parameter.annotation
    if name in FIXED or not fits(0.5, hint):
        return None
    takes_function = fits(abs, hint) and not fits(object(), hint)  # a parameter of type Any is not called
    reads = next((READS[key] for key in map(_key, cls.__mro__) if key in READS), Reads())
    if name in reads.called:
        return "called" if takes_function else None
    if name in reads.held:
        return "held"
    if RUNNER in map(_key, cls.__mro__):  # a runner reads its constructor's parameters from its attributes
        if name in getattr(cls, "read_once", ()):
            return None
        subclasses = takewhile(lambda base: _key(base) != RUNNER, cls.__mro__)
        return "held" if any(name in _init_parameters(base) for base in subclasses) else None
    if any(_key(base).partition(".")[0] in LIBRARIES and name in _init_parameters(base) for base in cls.__mro__):
        return None
    return "called" if takes_function else "held"


def _contradiction(cls: type, name: str, values: Mapping[str, object]) -> str:
    """Return the reason why other hyperparameters make this hyperparameter ineffective; empty without a reason."""
    if name == "target_entropy" and not str(values.get("ent_coef", "")).startswith("auto"):
        return "is used with ent_coef auto only"
    adaptive = any(_key(base) == "sbx.PPO" for base in cls.__mro__)
    if name == "learning_rate" and adaptive and values.get("target_kl") is not None:
        return "is decided by target_kl in this algorithm"
    return ""


def _key(cls: type) -> str:
    return f"{cls.__module__.partition('.')[0]}.{cls.__name__}"


def _init_parameters(cls: type) -> Mapping[str, object]:
    """Return the parameters of a constructor that the class itself defines."""
    init = cls.__dict__.get("__init__")
    return {} if init is None else inspect.signature(init).parameters
