"""Classes and functions that configs name: policies, optimisers, feature extractors, activations, buffers."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mygym.config.plain import is_plain
from mygym.registry import registry
from mygym.registry.signatures import Parameter, fits

NAMED = {
    "policy": "policy",
    "features_extractor_class": "features_extractor",
    "activation_fn": "activation",
    "optimizer_class": "optimizer",
}
"""Parameter that takes a class or function → the kind of component whose names are its values."""


@dataclass(frozen=True)
class Inner:
    """A parameter that takes the keyword arguments of a class."""

    of: str
    """The parameter that chooses the class."""
    taken: frozenset[str]
    """Arguments that the library sets, so that configs cannot set them."""


INNER: Mapping[str, Inner] = {
    "policy_kwargs": Inner("policy", frozenset({"observation_space", "action_space", "lr_schedule", "use_sde"})),
    "features_extractor_kwargs": Inner("features_extractor_class", frozenset({"observation_space"})),
    "optimizer_kwargs": Inner("optimizer_class", frozenset({"params", "lr", "learning_rate"})),
    "replay_buffer_kwargs": Inner(
        "replay_buffer_class",
        frozenset(
            {
                "buffer_size",
                "observation_space",
                "action_space",
                "env",
                "device",
                "n_envs",
                "optimize_memory_usage",
                "n_steps",
                "gamma",
            }
        ),
    ),
    "rollout_buffer_kwargs": Inner(
        "rollout_buffer_class",
        frozenset({"buffer_size", "observation_space", "action_space", "device", "gae_lambda", "gamma", "n_envs"}),
    ),
}

BUFFERS = {
    "replay_buffer_class": ("stable_baselines3.common.buffers", "ReplayBuffer", "DictReplayBuffer"),
    "rollout_buffer_class": ("stable_baselines3.common.buffers", "RolloutBuffer", "DictRolloutBuffer"),
}
"""Default buffer of SB3: module, class for flat observations, class for dictionaries."""


def is_name(parameter: Parameter) -> bool:
    """Return whether configs give a parameter by a registered name; a class may use such a name for plain text."""
    return parameter.name == "policy" or (parameter.name in NAMED and fits(object, parameter.annotation))


def shown(value: Any) -> Any:
    """Return the representation of `value` in configs: plain data unchanged, other objects by name."""
    if isinstance(value, Mapping):
        return {key: shown(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [shown(inner) for inner in value]
    if is_plain(value):
        return value
    return name_of(value) or getattr(value, "__qualname__", f"{type(value).__name__}(…)")


def name_of(component: Any) -> str | None:
    """Return the name under which a class or function of networks is registered, or None."""
    import_string = f"{getattr(component, '__module__', '')}:{getattr(component, '__qualname__', '')}"
    for kind in dict.fromkeys(NAMED.values()):
        for entry in registry(kind):
            if isinstance(entry.target, Mapping):
                for target in entry.target.values():
                    if target is component or _leads_to(target, import_string, component):
                        return entry.name
    return None


def _leads_to(target: Any, import_string: str, component: Any) -> bool:
    """Return whether `target` is an import string of `component`; packages may re-export it elsewhere."""
    if not isinstance(target, str):
        return False
    module, _, attribute = target.partition(":")
    if attribute != import_string.rpartition(":")[2] or module.partition(".")[0] != import_string.partition(".")[0]:
        return False
    return getattr(importlib.import_module(module), attribute, None) is component


def is_for_framework(target: Any, framework: str) -> bool:
    """Return whether a registered target exists in a framework; plain functions exist in all."""
    return framework in target if isinstance(target, Mapping) else not inspect.isclass(target)
