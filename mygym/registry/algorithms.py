"""Algorithms and what else belongs to a framework: registered by decorators or in `implemented_combos`."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from mygym.errors import RegistryError, bad_value
from mygym.registry.components import Entry, caller, registry, resolve
from mygym.registry.signatures import Parameter, first_line, parameters

T = TypeVar("T")


@dataclass(frozen=True)
class Algorithm:
    """What the registry knows of an algorithm in one framework."""

    name: str
    framework: str
    target: Any
    """The class or its import string `module:Class`."""
    policy: Any = "MultiInputPolicy"
    """First constructor argument: a policy name, a policy class, or its import string."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Constructor keyword arguments that differ from the class's own defaults."""
    run_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values of the run's config (steps, n_envs, reward …) that this algorithm prefers."""
    dict_observations: bool = True
    """Takes goal dictionaries; otherwise it gets flat observations."""
    goal_relabelling: bool = False
    """Takes hindsight replay (`her: true`)."""
    own_budget: bool = False
    """Its `steps` and `eval` suit every task: what tasks prefer is for algorithms that learn from rewards."""
    args: tuple[Any, ...] | None = None
    """Constructor arguments as the dictionary form gave them; None: `(policy, "env")`."""
    help: str = ""
    requires: tuple[str, ...] = ()
    """What the environment must have: names in `mygym.runs.requirements`."""
    training_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Training parameters of a `Runner` that differ from those in the signature of its `training`."""
    origin: str = ""
    """Where it was registered."""

    @property
    def needs(self) -> tuple[str, ...]:
        """What it requires, and gets other observations for, in words."""
        words = tuple(name.replace("_", " ") for name in self.requires)
        return words if self.dict_observations else (*words, "flat observations")

    def combo(self) -> tuple[type, tuple[Any, ...], dict[str, Any]]:
        """`(AlgoClass, args, kwargs)`; `"env"` in `args`, or any environment, stands for that of the run."""
        who = f"algorithm {self.name!r} of framework {self.framework!r}"
        policy = resolve(self.policy, who) if isinstance(self.policy, str) and ":" in self.policy else self.policy
        args = self.args if self.args is not None else (policy, "env")
        return resolve(self.target, who), args, copy.deepcopy(dict(self.defaults))


def algorithm(name: str, framework: str = "pytorch") -> Algorithm:
    """The registered algorithm.

    Raises:
        RegistryError: No such algorithm, or not in this framework.
    """
    entry: Algorithm = registry("algorithm").get(name, "algo").load_for(framework)
    return entry


def parameters_of(entry: Entry, framework: str = "pytorch") -> dict[str, Parameter]:
    """What a component's class or function takes; nothing for what is a file or a value."""
    target = entry.load()
    if isinstance(target, Mapping):
        target = entry.load_for(framework)
        target = target.combo()[0] if isinstance(target, Algorithm) else target
    return parameters(target) if callable(target) else {}


def add_algorithm(entry: Algorithm, origin: str | None = None, override: bool = False) -> None:
    """Register `entry` under its name and framework; the other frameworks of the name stay."""
    origin = origin or caller()
    entry = replace(entry, origin=origin)
    known = registry("algorithm")._entries.get(entry.name)
    others = known.target if known is not None and isinstance(known.target, Mapping) else {}
    everywhere = {**others, entry.framework: entry}
    needs = {word: [name for name, one in everywhere.items() if word in one.needs] for word in _words(everywhere)}
    requires = [
        word if len(names) == len(everywhere) else f"{word} ({', '.join(names)})" for word, names in needs.items()
    ]
    _add("algorithm", entry.name, entry.framework, entry, entry.help, origin, override, requires)


def _words(frameworks: Mapping[str, Algorithm]) -> list[str]:
    """What an algorithm needs in any of its frameworks."""
    return list(dict.fromkeys(word for one in frameworks.values() for word in one.needs))


def _add(
    kind: str,
    name: str,
    framework: str,
    target: Any,
    help: str,
    origin: str,
    override: bool,
    requires: Sequence[str] = (),
) -> None:
    """Register what belongs to a framework; what the name is in other frameworks stays."""
    components = registry(kind)
    components._load_builtins()
    known = components._entries.get(name)
    others = dict(known.target) if known is not None and isinstance(known.target, Mapping) else {}
    new_framework = bool(others) and framework not in others
    help = help or (known.help if known else "")
    components.register(name, {**others, framework: target}, help, origin, override or new_framework, requires)


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

    Args:
        name: Keyword for `--algo`.
        framework: Keyword for `--framework`.
        policy: First constructor argument: a policy name or a policy class.
        defaults: Constructor keyword arguments, settable by `--set algo_params.KEY=VALUE`.
        run_defaults: Config values that this algorithm prefers, e.g. `{"n_envs": 4, "reward": "dense"}`.
        dict_observations: False if the class cannot take goal dictionaries: it gets flat observations.
        goal_relabelling: Whether it takes hindsight replay; by default, whether it takes a `replay_buffer_class`.
        requires: What the environment must have, e.g. `["goal_observations"]`.
        override: Replace an algorithm of the same name.
        training_defaults: Training parameters of a `Runner`, settable by `--set training_params.KEY=VALUE`.
    """
    origin = caller()

    def decorate(cls: type[T]) -> type[T]:
        if not inspect.isclass(cls):
            raise RegistryError(bad_value("register_algorithm", name, "a class", f"decorates no class ({origin})"))
        relabels = "replay_buffer_class" in parameters(cls) if goal_relabelling is None else goal_relabelling
        entry = Algorithm(
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
        )
        add_algorithm(entry, origin, override)
        return cls

    return decorate


class _Register:
    """A decorator for a part of a network, or a policy."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(
        self, name: str, framework: str = "pytorch", *, help: str = "", override: bool = False
    ) -> Callable[[T], T]:
        """Register what is decorated.

        Args:
            name: By which configs know it.
            framework: Whose part it is.
            help: One line; by default the first of the docstring.
            override: Replace one of the same name.
        """
        origin = caller()

        def decorate(component: T) -> T:
            text = help or first_line(component)
            if self.kind == "policy" and not _is_network(component):
                registry(self.kind).register(name, component, text, origin, override)
            else:
                _add(self.kind, name, framework, component, text, origin, override)
            return component

        return decorate


register_policy = _Register("policy")
"""Registers a policy class: one of SB3's kind, which algorithms train (`algo_params.policy`), or one that acts without
training (`evaluate.py --policy`): constructed with `(envs, seed)`, with SB3's `predict`."""
register_features_extractor = _Register("features_extractor")
"""Registers a class for `algo_params.policy_kwargs.features_extractor_class`."""
register_activation = _Register("activation")
"""Registers a class or function for `algo_params.policy_kwargs.activation_fn`."""
register_optimizer = _Register("optimizer")
"""Registers a class or function for `algo_params.policy_kwargs.optimizer_class`."""


class _Combos(Mapping[str, Any]):
    """Framework → `(AlgoClass, args, kwargs)` of one algorithm, imported when it is asked for."""

    def __init__(self, frameworks: Mapping[str, Algorithm]) -> None:
        self.frameworks = frameworks

    def __getitem__(self, framework: str) -> tuple[type, tuple[Any, ...], dict[str, Any]]:
        return self.frameworks[framework].combo()

    def __iter__(self) -> Iterator[str]:
        return iter(self.frameworks)

    def __len__(self) -> int:
        return len(self.frameworks)


class ImplementedCombos(MutableMapping[str, Mapping[str, Any]]):
    """`implemented_combos[algo][framework]` → `(AlgoClass, args, kwargs)`, a live view of the registry.

    Assigning `implemented_combos["myalgo"] = {"pytorch": [MyAlgo, (MyPolicy, "env"), {"n_steps": 512}]}` registers.
    """

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        return _Combos(registry("algorithm").get(name, "algo").load())

    def __contains__(self, name: object) -> bool:
        return name in registry("algorithm")

    def __setitem__(self, name: str, frameworks: Mapping[str, Any]) -> None:
        origin = caller()
        if not isinstance(frameworks, Mapping):
            allowed = '{"pytorch": (AlgoClass, (policy, "env"), kwargs)}'
            raise RegistryError(bad_value(f"implemented_combos[{name!r}]", frameworks, allowed, "has no framework"))
        for framework, combo in frameworks.items():
            triple = isinstance(combo, list | tuple) and len(combo) == 3
            if not (
                triple
                and inspect.isclass(combo[0])
                and isinstance(combo[1], list | tuple)
                and isinstance(combo[2], Mapping)
            ):
                why = f"is not (AlgoClass, args, kwargs) ({origin})"
                raise RegistryError(bad_value(f"implemented_combos[{name!r}][{framework!r}]", combo, "a triple", why))
            cls, args, kwargs = combo
            taken = parameters(cls)
            named = dict(zip(taken, args, strict=False))  # what follows policy and env is given by name
            own = [key for key, value in named.items() if key == "policy" or is_environment(value)]
            rest = {key: value for key, value in named.items() if key not in own}
            entry = Algorithm(
                name,
                framework,
                cls,
                named.get("policy"),
                {**rest, **kwargs},
                goal_relabelling="replay_buffer_class" in taken,
                args=tuple(named[key] for key in own),
                help=first_line(cls),
            )
            add_algorithm(entry, origin)

    def __delitem__(self, name: str) -> None:
        raise RegistryError(f"algo: {name!r} cannot be removed from the registry")

    def __iter__(self) -> Iterator[str]:
        return iter(registry("algorithm").names())

    def __len__(self) -> int:
        return len(registry("algorithm").names())


implemented_combos = ImplementedCombos()


def is_environment(argument: Any) -> bool:
    """Whether a constructor argument stands for the environment: `"env"`, or an environment of Gymnasium's or SB3's."""
    return (
        argument == "env"
        if isinstance(argument, str)
        else hasattr(argument, "observation_space") and callable(getattr(argument, "step", None))
    )


def _is_network(component: Any) -> bool:
    """Whether a policy is one of SB3's, which has to be trained."""
    return inspect.isclass(component) and any(base.__name__ == "BasePolicy" for base in component.__mro__)
