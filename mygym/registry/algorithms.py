"""`Algorithm`, an algorithm in a framework, and `register_KIND` for the kinds whose components have frameworks."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from mygym.registry.components import registry
from mygym.registry.decorators import decorator
from mygym.registry.entries import Entry, caller, resolve
from mygym.registry.signatures import Parameter, first_line, parameters

T = TypeVar("T")


@dataclass(frozen=True)
class Algorithm:
    """An algorithm in a framework."""

    name: str
    framework: str
    target: Any
    """The class or its import string `module:Class`."""
    policy: Any = "MultiInputPolicy"
    """First constructor argument: a policy name, a policy class, or its import string."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Constructor keyword arguments that differ from the defaults of the class."""
    run_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values of the run's config (steps, n_envs, reward …) that this algorithm prefers."""
    dict_observations: bool = True
    """Whether it takes goal dictionaries; otherwise it gets flat observations."""
    goal_relabelling: bool = False
    """Whether it takes hindsight replay (`her: true`)."""
    own_budget: bool = False
    """Whether its `steps` and `eval` replace the values of the task, which are meant for learning from rewards."""
    args: tuple[Any, ...] | None = None
    """Constructor arguments of the dictionary form (`implemented_combos`); None: `(policy, "env")`."""
    help: str = ""
    requires: tuple[str, ...] = ()
    """Requirements on the environment: names in `mygym.runs.requirements`."""
    training_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Training parameters of a `Runner` that differ from the defaults in the signature of its `training`."""
    origin: str = ""
    """Place of the registration, `file:line`."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Requirements on the environment and its observations, in words."""
        words = tuple(name.replace("_", " ") for name in self.requires)
        return words if self.dict_observations else (*words, "flat observations")

    def combo(self) -> tuple[type, tuple[Any, ...], dict[str, Any]]:
        """Return `(AlgoClass, args, kwargs)`; `"env"` or any environment in `args` stands for the run's environment."""
        wanted_by = f"algorithm {self.name!r} of framework {self.framework!r}"
        policy = self.policy
        if isinstance(policy, str) and ":" in policy:
            policy = resolve(policy, wanted_by)
        args = self.args if self.args is not None else (policy, "env")
        return resolve(self.target, wanted_by), args, copy.deepcopy(dict(self.defaults))


def algorithm(name: str, framework: str = "pytorch") -> Algorithm:
    """Return a registered algorithm.

    Raises:
        RegistryError: The algorithm does not exist, or not in this framework.
    """
    entry: Algorithm = registry("algorithm").get(name, "algo").load_for(framework)
    return entry


def add_algorithm(entry: Algorithm, origin: str | None = None, override: bool = False) -> None:
    """Register `entry` under its name and framework; the other frameworks of the name are kept.

    Raises:
        RegistryError: The name is taken in this framework and `override` is False.
    """
    origin = origin or caller()
    registry("algorithm").register(
        entry.name, replace(entry, origin=origin), entry.help, origin, override, framework=entry.framework
    )


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
    policy: Any = "MultiInputPolicy",
    defaults: Mapping[str, Any] | None = None,
    run_defaults: Mapping[str, Any] | None = None,
    dict_observations: bool = True,
    goal_relabelling: bool | None = None,
    requires: Sequence[str] = (),
    override: bool = False,
    training_defaults: Mapping[str, Any] | None = None,
) -> Callable[[type[T]], type[T]]:
    """Class decorator that registers an algorithm.

        @register_algorithm("my_ppo", defaults={"n_steps": 128})
        class MyPPO(PPO):
            "First line: its help."

    Args:
        name: Keyword for `--algo`.
        framework: Keyword for `--framework`.
        policy: First constructor argument: a policy name or a policy class.
        defaults: Constructor keyword arguments, settable by `--set algo_params.KEY=VALUE`.
        run_defaults: Config values that this algorithm prefers, e.g. `{"n_envs": 4, "reward": "dense"}`.
        dict_observations: False if the class cannot take goal dictionaries: it gets flat observations.
        goal_relabelling: Whether it takes hindsight replay; by default, whether it takes a `replay_buffer_class`.
        requires: Requirements on the environment, e.g. `["goal_observations"]`.
        override: Replace an algorithm of the same name.
        training_defaults: Training parameters of a `Runner`, settable by `--set training_params.KEY=VALUE`.

    Raises:
        RegistryError: The decorated object is not a class, or the name is taken or is not an identifier.
    """
    origin = caller()

    def build(cls: type[T]) -> Algorithm:
        relabels = "replay_buffer_class" in parameters(cls) if goal_relabelling is None else goal_relabelling
        return Algorithm(
            name,
            framework,
            cls,
            policy,
            defaults or {},
            run_defaults or {},
            dict_observations,
            relabels and dict_observations,
            help=first_line(cls),
            requires=tuple(requires),
            training_defaults=training_defaults or {},
            origin=origin,
        )

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
