"""Inheritance: values that a registration does not state come from the nearest registered ancestor of its class."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from mygym.errors import RegistryError
from mygym.nested import merged, without
from mygym.registry.algorithm_entry import Algorithm
from mygym.registry.entries import resolve
from mygym.registry.registries import registry
from mygym.registry.signatures import parameters

FIELDS = ("policy", "dict_observations", "goal_relabelling", "requires", "replaces_task_budget")
"""Fields of an `Algorithm` that are inherited as a whole; the mappings of defaults are merged key by key."""


def complete(entry: Algorithm, stated: Mapping[str, Any], inherit: bool = True) -> Algorithm:
    """Return a registration with all `FIELDS`, from the registration itself or from an ancestor of its class.

    The ancestor is searched along the MRO, among the algorithms of the same framework. A built-in algorithm is also an
    ancestor of the subclasses of the class that it adapts, e.g. `ppo` of the subclasses of SB3's `PPO`. Values that
    the class or its policy declares in a constructor are not inherited.

    Args:
        entry: The registration; its target is a class.
        stated: Values of the fields that the registration states.
        inherit: False to inherit nothing.
    """
    entry = replace(entry, goal_relabelling="replay_buffer_class" in parameters(entry.target))
    parent = _nearest_ancestor(entry) if inherit else None
    inherited: dict[str, Any] = {name: getattr(parent, name) for name in FIELDS} if parent else {}
    whole = replace(entry, **{**inherited, **stated})
    if "policy" in stated and "dict_observations" not in stated:
        whole = replace(whole, dict_observations=takes_dictionaries(whole))
    buffer = entry.defaults.get("replay_buffer_class")
    if buffer is not None and "goal_relabelling" not in stated and not _relabels(buffer):
        whole = replace(whole, goal_relabelling=False)
    whole = replace(whole, goal_relabelling=whole.goal_relabelling and whole.dict_observations)
    if parent is None:
        return whole
    return replace(
        whole,
        parent=parent.name,
        stated=entry,
        defaults=merged(_constructor_defaults(whole, parent, parent.defaults), entry.defaults),
        run_defaults=merged(parent.run_defaults, entry.run_defaults),
        stage_defaults=_preferences(parent.stage_defaults, whole, parent, entry),
        task_defaults={
            **{task: _preferences(values, whole, parent, entry) for task, values in parent.task_defaults.items()},
            **entry.task_defaults,
        },
        fused_defaults=_preferences(parent.fused_defaults, whole, parent, entry),
        fused_stage_defaults=_preferences(parent.fused_stage_defaults, whole, parent, entry),
        search_space={**_constructor_defaults(whole, parent, parent.search_space), **entry.search_space},
        training_defaults=merged(_training_defaults(entry.target, parent), entry.training_defaults),
    )


def policy_class(entry: Algorithm) -> Any:
    """Return the class of an algorithm's policy; the name itself if the algorithm has no class of this name."""
    policy = resolve(entry.policy) if isinstance(entry.policy, str) and ":" in entry.policy else entry.policy
    return _aliases(entry).get(policy, policy) if isinstance(policy, str) else policy


def _aliases(entry: Algorithm) -> Mapping[str, Any]:
    return getattr(resolve(entry.target), "policy_aliases", None) or {}


def _nearest_ancestor(entry: Algorithm) -> Algorithm | None:
    ancestors: dict[type, Algorithm] = {}
    for other in _registered(entry.framework):
        try:
            cls = resolve(other.target)
        except RegistryError:  # its package is not installed, so no class can have it as an ancestor
            continue
        if cls is entry.target and other.name == entry.name:  # the registration that `entry` replaces
            continue
        for base in (cls, *_adapted(cls)):
            ancestors.setdefault(base, other)
    return next((ancestors[cls] for cls in entry.target.__mro__ if cls in ancestors), None)


def _registered(framework: str) -> Iterator[Algorithm]:
    """Yield the algorithms of a framework in the order of their registration."""
    for entry in registry("algorithm").registered():
        if isinstance(entry.target, Mapping) and framework in entry.target:
            yield entry.target[framework]


def _adapted(cls: type) -> Iterator[type]:
    """Yield the classes of other packages that a built-in class adapts: its bases that are algorithms."""
    if cls.__module__.startswith("mygym."):
        for base in cls.__bases__:
            if not base.__module__.startswith("mygym.") and hasattr(base, "learn"):
                yield base


def _preferences(
    preferred: Mapping[str, Any], entry: Algorithm, parent: Algorithm, stated: Algorithm
) -> dict[str, Any]:
    """Return the ancestor's values for some tasks or an engine that the registration does not state for all."""
    values = {key: value for key, value in preferred.items() if key not in stated.run_defaults}
    if "algo_params" in values:
        params = _constructor_defaults(entry, parent, values["algo_params"])
        values["algo_params"] = without(params, stated.defaults)
    return values


def _constructor_defaults(entry: Algorithm, parent: Algorithm, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ancestor's constructor arguments that the class takes, and does not declare itself."""
    known, ancestors = parameters(entry.target), resolve(parent.target).__mro__
    inherited = {
        key: value
        for key, value in defaults.items()
        if key in known and (known[key].declared_by in ancestors or key not in parameters(resolve(parent.target)))
    }
    if "policy_kwargs" in inherited and entry.policy != parent.policy:
        accepts = _acceptance(policy_class(entry), policy_class(parent))
        inherited["policy_kwargs"] = {key: value for key, value in inherited["policy_kwargs"].items() if accepts(key)}
    return inherited


def _acceptance(policy: Any, inherited_policy: Any) -> Callable[[str], bool]:
    """Return a function that returns whether a policy takes an inherited argument, and does not declare it itself."""
    if not isinstance(policy, type) or not isinstance(inherited_policy, type):
        return lambda key: True
    known = parameters(policy)
    packages = {_package(cls) for cls in inherited_policy.__mro__}
    return lambda key: key in known and _package(known[key].declared_by) in packages


def _package(component: Any) -> str:
    return str(component.__module__).partition(".")[0]


def _training_defaults(cls: type, parent: Algorithm) -> dict[str, Any]:
    """Return the ancestor's training parameters that the `training` of a `Runner` takes."""
    training = getattr(cls, "training", None)
    known = parameters(training) if training is not None else {}
    return {key: value for key, value in parent.training_defaults.items() if key in known}


def _relabels(buffer: Any) -> bool:
    """Return whether a class of replay buffers is SB3's for hindsight replay, or a subclass of it."""
    return any(base.__name__ == "HerReplayBuffer" for base in getattr(buffer, "__mro__", ()))


def takes_dictionaries(entry: Algorithm) -> bool:
    """Return whether an algorithm's policy takes goal dictionaries; unchanged if the policy does not show it."""
    policy, aliases = policy_class(entry), _aliases(entry)
    for_dicts = next((cls for name, cls in aliases.items() if name.startswith("MultiInput")), None)
    if entry.policy in aliases and (for_dicts is None or entry.policy.startswith(("Mlp", "Cnn"))):
        return False  # by the name: in SBX both names have the same class
    if not isinstance(policy, type) or not isinstance(for_dicts, type):
        return entry.dict_observations
    if issubclass(policy, for_dicts):
        return True
    extractor = parameters(policy).get("features_extractor_class")
    return extractor is not None and getattr(extractor.default, "__name__", "") not in ("FlattenExtractor", "NatureCNN")
