"""Which of an algorithm's hyperparameters may follow a schedule: those that its class reads again and again.

What the libraries read is written down here, class by class. Of other classes, the user's own, the annotation tells:
`float | Schedule` is called with the progress that remains, and `float` must be kept as the attribute of that name.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile

LIBRARIES = ("stable_baselines3", "sb3_contrib", "sbx")
"""Packages whose classes may schedule what `READS` says and nothing else."""

RUNNER = "mygym.Runner"
"""The base class of algorithms that write their own loop."""

FIXED = frozenset({"gamma"})
"""What nobody may schedule: the environment's rewards are shaped by it as well."""


@dataclass(frozen=True)
class Reads:
    """How a class comes to the values of hyperparameters that may change."""

    called: frozenset[str] = frozenset()
    """It calls a function of the progress that remains, at each update."""
    held: frozenset[str] = frozenset()
    """It reads the attribute of the same name, at each use."""


def _reads(called: str, held: str = "") -> Reads:
    return Reads(frozenset(called.split()), frozenset(held.split()))


_PPO = _reads("learning_rate clip_range clip_range_vf", "ent_coef vf_coef max_grad_norm target_kl")
_SAC = _reads("learning_rate", "tau ent_coef target_entropy action_noise")

READS: Mapping[str, Reads] = {
    "stable_baselines3.PPO": _PPO,
    "stable_baselines3.A2C": _reads("learning_rate", "ent_coef vf_coef max_grad_norm"),
    "stable_baselines3.SAC": _SAC,
    "stable_baselines3.TD3": _reads("learning_rate", "tau target_policy_noise target_noise_clip action_noise"),
    "sb3_contrib.TQC": _SAC,
    "sb3_contrib.CrossQ": _reads("learning_rate", "ent_coef target_entropy action_noise"),
    "sb3_contrib.TRPO": _reads("learning_rate", "target_kl cg_damping line_search_shrinking_factor"),
    "sb3_contrib.ARS": _reads("learning_rate delta_std"),  # an offset that changes would favour some candidates
    "sb3_contrib.RecurrentPPO": _PPO,
    # SBX compiles what is not here into the update, or into the optimiser, once.
    "sbx.PPO": _reads("learning_rate clip_range", "ent_coef vf_coef"),
    "sbx.SAC": _reads("learning_rate", "tau target_entropy action_noise"),
    "sbx.TQC": _reads("learning_rate", "tau target_entropy action_noise"),
    "sbx.CrossQ": _reads("", "target_entropy action_noise"),
    "sbx.TD3": _reads("", "tau target_policy_noise target_noise_clip action_noise"),
}
"""Package and class → what it reads; subclasses read the same."""


def way(cls: type, name: str, takes_function: bool, takes_number: bool) -> str | None:
    """How a hyperparameter of `cls` may be scheduled.

    Args:
        cls: The algorithm's class.
        name: One of its constructor's parameters.
        takes_function: Whether the parameter's annotation allows a function.
        takes_number: Whether it allows a number that is not whole.

    Returns:
        `"called"`, `"held"`, or None: it may not.
    """
    if name in FIXED or not takes_number:
        return None
    reads = next((READS[key] for key in map(_key, cls.__mro__) if key in READS), Reads())
    if name in reads.called:
        return "called" if takes_function else None
    if name in reads.held:
        return "held"
    if RUNNER in map(_key, cls.__mro__):  # what its own constructor names it reads itself
        if name in getattr(cls, "read_once", ()):
            return None
        own = takewhile(lambda base: _key(base) != RUNNER, cls.__mro__)
        return "held" if any(name in _own(base) for base in own) else None
    if any(_key(base).partition(".")[0] in LIBRARIES and name in _own(base) for base in cls.__mro__):
        return None
    return "called" if takes_function else "held"


def contradiction(cls: type, name: str, values: Mapping[str, object]) -> str:
    """Why other hyperparameters leave this one without an effect; empty if they do not."""
    if name == "target_entropy" and not str(values.get("ent_coef", "")).startswith("auto"):
        return "is used with ent_coef auto only"
    adaptive = any(_key(base) == "sbx.PPO" for base in cls.__mro__)
    if name == "learning_rate" and adaptive and values.get("target_kl") is not None:
        return "is decided by target_kl in this algorithm"
    return ""


def _key(cls: type) -> str:
    return f"{cls.__module__.partition('.')[0]}.{cls.__name__}"


def _own(cls: type) -> Mapping[str, object]:
    """Parameters of the class's own constructor."""
    init = cls.__dict__.get("__init__")
    return {} if init is None else inspect.signature(init).parameters
