"""Registration of algorithms, and of the other kinds of components that belong to a framework."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from mygym.errors import RegistryError, bad_value
from mygym.registry.algorithm_entry import Algorithm
from mygym.registry.builtins import FRAMEWORK_EXTRAS
from mygym.registry.decorators import decorator
from mygym.registry.entries import Entry, caller
from mygym.registry.inheritance import complete
from mygym.registry.registries import registry
from mygym.registry.signatures import Parameter, first_line, parameters

T = TypeVar("T")


def algorithm(name: str, framework: str = "pytorch") -> Algorithm:
    """Return a registered algorithm.

    Args:
        name: Name for `--algo`.
        framework: `pytorch` or `jax`.

    Raises:
        RegistryError: The algorithm does not exist, or not in this framework.
    """
    entry: Algorithm = registry("algorithm").get(name, "algo").load_for(framework)
    return entry


def add_algorithm(entry: Algorithm, origin: str | None = None, override: bool = False) -> None:
    """Register `entry` under its name and framework; the other frameworks of the name are kept.

    Raises:
        RegistryError: The name is taken in this framework and `override` is False; or the framework is
            neither `pytorch` nor `jax`.
    """
    origin = origin or caller()
    check_framework(entry.framework)
    registry("algorithm").register(
        entry.name, replace(entry, origin=origin), entry.help, origin, override, framework=entry.framework
    )


def check_framework(framework: str) -> None:
    """Refuse a framework other than those whose weights, devices and random numbers the runs know.

    Raises:
        RegistryError: It is neither `pytorch` nor `jax`.
    """
    if framework not in (known := ["pytorch", *FRAMEWORK_EXTRAS]):
        raise RegistryError(bad_value("framework", framework, known, "is not supported"))


def parameters_of(entry: Entry, framework: str = "pytorch") -> dict[str, Parameter]:
    """Return the parameters of a component's class or function; empty for a file or a value."""
    target = entry.load()
    if isinstance(target, Mapping):
        target = entry.load_for(framework)
        target = target.combo()[0] if isinstance(target, Algorithm) else target
    return parameters(target) if callable(target) else {}


def register_algorithm(
    name: str,
    framework: str = "pytorch",
    *,
    policy: Any = None,
    defaults: Mapping[str, Any] | None = None,
    run_defaults: Mapping[str, Any] | None = None,
    dict_observations: bool | None = None,
    goal_relabelling: bool | None = None,
    requires: Sequence[str] | None = None,
    override: bool = False,
    training_defaults: Mapping[str, Any] | None = None,
    search_space: Mapping[str, Any] | None = None,
    inherit: bool = True,
) -> Callable[[type[T]], type[T]]:
    """Class decorator that registers an algorithm.

    An example::

        @register_algorithm("my_ppo", defaults={"n_steps": 256})
        class MyPPO(PPO):
            "First line: its help."

    Everything that is not stated is inherited from the nearest registered ancestor of the class, `ppo` in this example:
    defaults, preferred config values, policy and requirements.

    Args:
        name: Keyword for `--algo`.
        framework: Keyword for `--framework`.
        policy: First constructor argument: a policy name or a policy class; without an ancestor `MultiInputPolicy`.
        defaults: Constructor keyword arguments, settable by `--set algo_params.KEY=VALUE`.
        run_defaults: Config values that this algorithm prefers, e.g. `{"n_envs": 4, "reward": "dense"}`.
        dict_observations: Whether the class takes goal dictionaries, or gets flat observations; by default decided by
            the policy.
        goal_relabelling: Whether it takes hindsight replay; without an ancestor, whether it takes a
            `replay_buffer_class`.
        requires: Requirements on the environment, e.g. `["goal_observations"]`.
        override: Replace an algorithm of the same name.
        training_defaults: Training parameters of a `Runner`, settable by `--set training_params.KEY=VALUE`.
        search_space: Hyperparameter → range of `mygym sweep` with `space: default`, e.g.
            `{"learning_rate": {"loguniform": [1e-4, 1e-2]}}`.
        inherit: False to inherit nothing from an ancestor.

    Raises:
        RegistryError: The decorated object is not a class, or the name is taken or is not an identifier.
    """
    origin = caller()

    def build(cls: type[T]) -> Algorithm:
        check_framework(framework)
        entry = Algorithm(
            name,
            framework,
            cls,
            defaults=defaults or {},
            run_defaults=run_defaults or {},
            help=first_line(cls),
            training_defaults=training_defaults or {},
            search_space=search_space or {},
            origin=origin,
        )
        stated = {
            "policy": policy,
            "dict_observations": dict_observations,
            "goal_relabelling": goal_relabelling,
            "requires": None if requires is None else tuple(requires),
        }
        return complete(entry, {key: value for key, value in stated.items() if value is not None}, inherit)

    return decorator(
        "algorithm",
        name,
        build=build,
        check=inspect.isclass,
        allowed="a class",
        override=override,
        framework=framework,
    )


def register_policy(
    name: str, framework: str = "pytorch", *, help: str = "", override: bool = False
) -> Callable[[T], T]:
    """Class decorator that registers a policy.

    A subclass of SB3's `BasePolicy` is trained by an algorithm (`algo_params.policy`). Any other class acts without
    training (`evaluate.py --policy`): it is constructed with `(envs, seed)` and has SB3's `predict`.

    Args:
        name: Name in configs and flags.
        framework: Framework of a policy that is trained.
        help: One line; by default the first line of the docstring.
        override: Replace a policy of the same name.
    """

    def framework_of(policy: Any) -> str | None:
        return framework if is_network(policy) else None

    return decorator("policy", name, help=help, override=override, framework=framework_of)


def register_features_extractor(
    name: str, framework: str = "pytorch", *, help: str = "", override: bool = False
) -> Callable[[T], T]:
    """Class decorator that registers a features extractor for `algo_params.policy_kwargs.features_extractor_class`.

    Args:
        name: Name in configs.
        framework: Framework of the class.
        help: One line; by default the first line of the docstring.
        override: Replace a features extractor of the same name.
    """
    return decorator("features_extractor", name, help=help, override=override, framework=framework)


def register_activation(
    name: str, framework: str = "pytorch", *, help: str = "", override: bool = False
) -> Callable[[T], T]:
    """Decorator that registers a class or function for `algo_params.policy_kwargs.activation_fn`.

    Args:
        name: Name in configs.
        framework: Framework of the class or function.
        help: One line; by default the first line of the docstring.
        override: Replace an activation of the same name.
    """
    return decorator("activation", name, help=help, override=override, framework=framework)


def register_optimizer(
    name: str, framework: str = "pytorch", *, help: str = "", override: bool = False
) -> Callable[[T], T]:
    """Decorator that registers a class or function for `algo_params.policy_kwargs.optimizer_class`.

    Args:
        name: Name in configs.
        framework: Framework of the class or function.
        help: One line; by default the first line of the docstring.
        override: Replace an optimizer of the same name.
    """
    return decorator("optimizer", name, help=help, override=override, framework=framework)


def is_network(policy: Any) -> bool:
    """Return whether a policy is an SB3 policy, which must be trained."""
    return inspect.isclass(policy) and any(base.__name__ == "BasePolicy" for base in policy.__mro__)
