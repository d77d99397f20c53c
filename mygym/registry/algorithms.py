"""Algorithms, and other components that belong to a framework; `implemented_combos` is a view of the algorithms."""

from __future__ import annotations

import copy
import inspect
import linecache
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, Self, TypeVar

from mygym.errors import RegistryError, bad_value
from mygym.nested import merged, without
from mygym.registry.entries import Entry, caller, resolve, unknown_framework
from mygym.registry.registries import decorator, refuse_misspelt_methods, registry, wrong_parameters
from mygym.registry.signatures import (
    Parameter,
    checked_registration,
    first_line,
    fits,
    of_library,
    parameters,
    signature,
    source_location,
)
from mygym.registry.user_files import on_import


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
    stage_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values that it prefers for tasks of several stages, above `run_defaults`."""
    task_defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Values that it prefers for named tasks, above `stage_defaults`; by the name of the task."""
    engine_defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Values that it prefers for engines with batches, above the others; by the name of the engine."""
    engine_stage_defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Values that it prefers for engines with batches and tasks of several stages, above `engine_defaults`."""
    engine_task_defaults: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Values that it prefers for named tasks of several stages in such engines, above these; by engine, then task."""
    search_space: Mapping[str, Any] = field(default_factory=dict)
    """Hyperparameter → range of a sweep with `space: default`, e.g. `{"gamma": {"choice": [0.9, 0.95]}}`."""
    dict_observations: bool = True
    """Whether it takes goal dictionaries; otherwise it gets flat observations."""
    goal_relabelling: bool = False
    """Whether it takes hindsight replay (`her: true`)."""
    replaces_task_budget: bool = False
    """Whether its `steps` and `eval` replace the values of the task, which are meant for learning from rewards."""
    args: tuple[Any, ...] | None = None
    """Constructor arguments of the dictionary form (`implemented_combos`); None: `(policy, "env")`."""
    help: str = ""
    requires: tuple[str, ...] = ()
    """Requirements on the environment: names in `mygym.planning.checks`."""
    training_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Training parameters of a `Runner` that differ from the defaults in the signature of its `training`."""
    origin: str = ""
    """Place of the registration, `file:line`."""
    parent: str = ""
    """Algorithm from which this algorithm inherits; empty if it inherits nothing."""
    stated: Algorithm | None = None
    """The registration without inherited values; None if it inherits nothing."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Requirements on the environment and its observations, in words."""
        words = tuple(name.replace("_", " ") for name in self.requires)
        return words if self.dict_observations else (*words, "flat observations")

    def combo(self) -> Combo:
        """Return `(AlgoClass, args, kwargs)`; `"env"` or any environment in `args` stands for the run's environment."""
        wanted_by = f"algorithm {self.name!r} of framework {self.framework!r}"
        policy = self.policy
        if isinstance(policy, str) and ":" in policy:
            policy = resolve(policy, wanted_by)
        args = self.args if self.args is not None else (policy, "env")
        return resolve(self.target, wanted_by), args, copy.deepcopy(dict(self.defaults))


FIELDS = ("policy", "dict_observations", "goal_relabelling", "requires", "replaces_task_budget")
"""Fields of an `Algorithm` that are inherited as a whole; the mappings of defaults are merged key by key."""


def complete(entry: Algorithm, stated: Mapping[str, Any], inherit: bool = True) -> Algorithm:
    """Return a registration with all `FIELDS`, from the registration itself or from an ancestor of its class.

    The ancestor is searched along the MRO, among the algorithms of the same framework. A built-in algorithm is also an
    ancestor of the subclasses of the class that it adapts, e.g. `ppo` of the subclasses of SB3's `PPO`. Values that
    the class or its policy declares in a constructor are not inherited.

    Raises:
        RegistryError: A method of the class refuses the arguments with which it is called, or the search space has a
            parameter that the class does not take.
    """
    _check_calls(entry.target)
    declared = parameters(entry.target)
    for key in entry.search_space.keys() - declared.keys():
        why = f"is not a parameter of {entry.target.__name__} ({source_location(entry.target)})"
        raise RegistryError(bad_value("register_algorithm: search_space", key, [*declared], why))
    entry = replace(entry, goal_relabelling="replay_buffer_class" in declared)
    policy = declared.get("policy")
    if policy and not policy.required and isinstance(policy.default, type) and not of_library(policy.declared_by):
        stated = {"policy": policy.default, **stated}
    parent = _nearest_ancestor(entry) if inherit else None
    inherited: dict[str, Any] = {name: getattr(parent, name) for name in FIELDS} if parent else {}
    whole = replace(entry, **{**inherited, **stated})
    if "policy" in stated and "dict_observations" not in stated:
        whole = replace(whole, dict_observations=takes_dictionaries(whole))
    buffer = entry.defaults.get("replay_buffer_class")
    if buffer is not None and "goal_relabelling" not in stated and not relabels(buffer):
        whole = replace(whole, goal_relabelling=False)
    whole = replace(whole, goal_relabelling=whole.goal_relabelling and whole.dict_observations)
    if parent is None:
        return whole

    def preferences(preferred: Mapping[str, Any]) -> dict[str, Any]:
        """Return the ancestor's values for some tasks or an engine that the registration does not state for all."""
        values = {key: value for key, value in preferred.items() if key not in entry.run_defaults}
        if "algo_params" in values:
            params = _constructor_defaults(whole, parent, values["algo_params"])
            values["algo_params"] = without(params, entry.defaults)
        return values

    def of_each(preferred: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
        return {name: preferences(values) for name, values in preferred.items()}

    return replace(
        whole,
        parent=parent.name,
        stated=entry,
        defaults=merged(_constructor_defaults(whole, parent, parent.defaults), entry.defaults),
        run_defaults=merged(parent.run_defaults, entry.run_defaults),
        stage_defaults=preferences(parent.stage_defaults),
        task_defaults={**of_each(parent.task_defaults), **entry.task_defaults},
        engine_defaults=of_each(parent.engine_defaults),
        engine_stage_defaults=of_each(parent.engine_stage_defaults),
        engine_task_defaults={engine: of_each(tasks) for engine, tasks in parent.engine_task_defaults.items()},
        search_space={**_constructor_defaults(whole, parent, parent.search_space), **entry.search_space},
        training_defaults=merged(_training_defaults(entry.target, parent), entry.training_defaults),
    )


CALLS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "learn": (("total_timesteps", "callback"), ()),
    "predict": (("observation", "state", "episode_start", "deterministic"), ()),
    "save": (("path",), ()),
    "load": (("path",), ("env", "device")),
}
"""Method of SB3's algorithms → the arguments with which mygym calls it: positional ones, and keywords."""


def _check_calls(cls: type) -> None:
    """Refuse an SB3 algorithm with a method of the user that cannot be called as mygym and SB3 call it."""
    if not any(base.__name__ == "BaseAlgorithm" for base in cls.__mro__):  # refused when a run is planned
        return
    calls = dict(CALLS)
    if getattr(cls, "defines_training", False):
        calls["setup"] = (), ()
        refuse_misspelt_methods("algorithm", next(base for base in cls.__mro__ if of_library(base)), cls)
    elif of_library(cls.learn):  # type: ignore[attr-defined]  # it calls `train` with all its arguments as keywords
        library = next(base for base in cls.__mro__ if of_library(base))
        if hasattr(library, "train"):
            calls["train"] = ((), tuple(signature(library.train).parameters)[1:])
    for name, (positional, keywords) in calls.items():
        found = inspect.getattr_static(cls, name, None)
        method = found.__func__ if isinstance(found, classmethod) else found
        if not inspect.isfunction(method) or of_library(method) or hasattr(method, "__wrapped__"):
            continue
        try:
            signature(method).bind("self", *positional, **dict.fromkeys(keywords))
        except TypeError:
            allowed = f"{name}({', '.join(['self', *positional, *keywords])})"
            raise wrong_parameters("algorithm", cls, method, allowed) from None


def policy_class(entry: Algorithm) -> Any:
    """Return the class of an algorithm's policy; the name itself if the algorithm has no class of this name."""
    policy = resolve(entry.policy) if isinstance(entry.policy, str) and ":" in entry.policy else entry.policy
    return _aliases(entry).get(policy, policy) if isinstance(policy, str) else policy


def _aliases(entry: Algorithm) -> Mapping[str, Any]:
    return getattr(resolve(entry.target), "policy_aliases", None) or {}


def _nearest_ancestor(entry: Algorithm) -> Algorithm | None:
    ancestors: dict[type, Algorithm] = {}
    for other in of_framework(registry("algorithm").registered(), entry.framework):
        try:
            cls = resolve(other.target)
        except RegistryError:  # its package is not installed, so no class can have it as an ancestor
            continue
        if cls is entry.target and other.name == entry.name:  # the registration that `entry` replaces
            continue
        for base in (cls, *_adapted(cls)):
            ancestors.setdefault(base, other)
    return next((ancestors[cls] for cls in entry.target.__mro__ if cls in ancestors), None)


def of_framework(entries: Iterable[Entry], framework: str) -> Iterator[Algorithm]:
    """Yield the algorithms of a framework among the entries of the registry."""
    for entry in entries:
        if isinstance(entry.target, Mapping) and framework in entry.target:
            yield entry.target[framework]


def _adapted(cls: type) -> Iterator[type]:
    """Yield the classes of other packages that a built-in class adapts: its bases that are algorithms."""
    if cls.__module__.startswith("mygym."):
        for base in cls.__bases__:
            if not base.__module__.startswith("mygym.") and hasattr(base, "learn"):
                yield base


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


def relabels(buffer: Any) -> bool:
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


T = TypeVar("T")


def algorithm(name: str, framework: str | None = None) -> Algorithm:
    """Return a registered algorithm.

    Args:
        name: Name for `--algo`.
        framework: `pytorch` or `jax`; None: `pytorch`, or the only framework that has the algorithm.

    Raises:
        RegistryError: The algorithm does not exist, or not in this framework.
    """
    entry = registry("algorithm").get(name, "algo")
    found: Algorithm = entry.load_for(framework or entry.framework)
    return found


def add_algorithm(entry: Algorithm, origin: str | None = None, override: bool = False) -> None:
    """Register `entry` under its name and framework; the other frameworks of the name are kept.

    Raises:
        RegistryError: The name is taken in this framework and `override` is False; or the framework is
            neither `pytorch` nor `jax`.
    """
    origin = origin or caller()
    registry("algorithm").register(
        entry.name, replace(entry, origin=origin), entry.help, origin, override, framework=entry.framework
    )


def parameters_of(entry: Entry, framework: str | None = None) -> dict[str, Parameter]:
    """Return the parameters of a component's class or function; empty for a file or a value."""
    target = entry.load()
    if isinstance(target, Mapping):
        target = entry.load_for(framework or entry.framework)
        target = target.combo()[0] if isinstance(target, Algorithm) else target
    return parameters(target) if callable(target) else {}


@checked_registration
def register_algorithm(
    name: str,
    framework: str = "pytorch",
    *,
    policy: str | type[Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
    run_defaults: Mapping[str, Any] | None = None,
    dict_observations: bool | None = None,
    goal_relabelling: bool | None = None,
    requires: Sequence[str] | None = None,
    override: bool = False,
    training_defaults: Mapping[str, Any] | None = None,
    search_space: Mapping[str, Mapping[str, Any]] | None = None,
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
        RegistryError: The decorated object is not a class, the name is taken or is not an identifier, or an
            argument has a wrong type.
    """
    origin = caller()

    def build(cls: type[T]) -> Algorithm:
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
        "algorithm", name, build=build, check=inspect.isclass, allowed="a class", override=override, framework=framework
    )


@checked_registration
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

    Raises:
        RegistryError: The class is of neither kind, or the name is taken.
    """

    def framework_of(policy: Any) -> str | None:
        return framework if is_network(policy) else None

    def acts(policy: Any) -> bool:
        return fits(policy, Callable[[Any, int], Any]) and (hasattr(policy, "predict") or not inspect.isclass(policy))

    return decorator(
        "policy",
        name,
        check=lambda policy: is_network(policy) or acts(policy),
        allowed="a policy of SB3, or a class (envs, seed) with the method predict",
        help=help,
        override=override,
        framework=framework_of,
    )


@checked_registration
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


@checked_registration
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


@checked_registration
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


Combo = tuple[type, tuple[Any, ...], dict[str, Any]]
"""Algorithm class, constructor arguments, keyword arguments."""


class FrameworkCombos(Mapping[str, Combo]):
    """Framework → `(AlgoClass, args, kwargs)` of one algorithm; a class is imported when it is looked up."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    @property
    def _frameworks(self) -> Mapping[str, Algorithm]:
        frameworks: Mapping[str, Algorithm] = self._entry.load()
        return frameworks

    def __getitem__(self, framework: str) -> Combo:
        if framework not in self._frameworks:
            raise unknown_framework(framework, self._frameworks, f"algorithm {self._entry.name!r}")
        return self._frameworks[framework].combo()

    def __contains__(self, framework: object) -> bool:
        return framework in self._frameworks

    def __iter__(self) -> Iterator[str]:
        return iter(self._frameworks)

    def __len__(self) -> int:
        return len(self._frameworks)

    def __repr__(self) -> str:
        return "\n".join(f"{framework:<10}{_label(entry.target)}" for framework, entry in self._frameworks.items())


class ImplementedCombos(MutableMapping[str, Mapping[str, Any]]):
    """Algorithm → framework → `(AlgoClass, args, kwargs)`.

    Assigning `implemented_combos["myalgo"] = {"pytorch": [MyAlgo, (MyPolicy, "env"), {"n_steps": 512}]}` registers an
    algorithm.
    """

    def __getitem__(self, name: str) -> FrameworkCombos:
        return FrameworkCombos(registry("algorithm").get(name, "algo"))

    def __contains__(self, name: object) -> bool:
        return name in registry("algorithm")

    def __setitem__(self, name: str, frameworks: Mapping[str, Any]) -> None:
        _register(name, frameworks, caller())

    def __delitem__(self, name: str) -> None:
        raise RegistryError(f"algo: {name!r} cannot be removed from the registry")

    def __ior__(self, combos: Mapping[str, Mapping[str, Any]]) -> Self:
        self.update(combos)
        return self

    def __iter__(self) -> Iterator[str]:
        return iter(registry("algorithm").names())

    def __len__(self) -> int:
        return len(registry("algorithm").names())

    def __repr__(self) -> str:
        rows = [(entry.name, ", ".join(entry.frameworks), entry.help) for entry in registry("algorithm")]
        widths = [max(len(row[column]) for row in rows) + 2 for column in (0, 1)]
        return "\n".join(f"{name:<{widths[0]}}{frameworks:<{widths[1]}}{help}" for name, frameworks, help in rows)


implemented_combos = ImplementedCombos()


def register_dictionary(module: ModuleType) -> None:
    """Register the algorithms of a dictionary `implemented_combos = {…}` that a module assigns.

    Args:
        module: A user's module, e.g. a copy of train.py.

    Raises:
        RegistryError: An entry is not `{framework: (AlgoClass, args, kwargs)}`, or its name is taken.
    """
    combos, lines = vars(module).get("implemented_combos"), linecache.getlines(str(getattr(module, "__file__", "")))
    line = next((number for number, text in enumerate(lines, 1) if text.startswith("implemented_combos")), 1)
    for name, frameworks in combos.items() if isinstance(combos, dict) else ():
        if not isinstance(frameworks, FrameworkCombos):  # of `{**implemented_combos, …}`
            _register(name, frameworks, f"{module.__file__}:{line}")


on_import.append(register_dictionary)


def with_env(args: Sequence[Any], env: Any) -> tuple[Any, ...]:
    """Return constructor arguments of a combo with `env` in place of the marker `"env"`.

    AlgoClass, args, kwargs = implemented_combos["ppo"]["pytorch"]
    model = AlgoClass(*with_env(args, env), **kwargs)
    """
    return tuple(env if is_environment(argument) else argument for argument in args)


def is_environment(argument: Any) -> bool:
    """Return whether an argument stands for the environment: `"env"`, or an environment of Gymnasium or SB3."""
    return (
        argument == "env"
        if isinstance(argument, str)
        else hasattr(argument, "observation_space") and callable(getattr(argument, "step", None))
    )


def _register(name: str, frameworks: Mapping[str, Any], origin: str) -> None:
    """Register an algorithm in its frameworks."""
    if not isinstance(frameworks, Mapping):
        allowed = '{"pytorch": (AlgoClass, (policy, "env"), kwargs)}'
        raise RegistryError(bad_value(f"implemented_combos[{name!r}]", frameworks, allowed, "has no framework"))
    for framework, combo in frameworks.items():
        if not fits(combo, Combo):
            why = f"is not (AlgoClass, args, kwargs) ({origin})"
            raise RegistryError(bad_value(f"implemented_combos[{name!r}][{framework!r}]", combo, "a triple", why))
        add_algorithm(_algorithm(name, framework, *combo), origin)


def _algorithm(name: str, framework: str, cls: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Algorithm:
    """Return the registration of a combo; arguments other than policy and environment become keyword arguments."""
    known = parameters(cls)
    if len(args) == 1 and is_environment(args[0]) and next(iter(known), "") == "policy":
        args = ()  # the policy is inherited
    named = dict(zip(known, args, strict=False))
    positional = [key for key, value in named.items() if key == "policy" or is_environment(value)]
    rest = {key: value for key, value in named.items() if key not in positional}
    entry = Algorithm(name, framework, cls, defaults={**rest, **kwargs}, help=first_line(cls))
    if not named and "policy" in known and "policy" not in kwargs:
        return complete(entry, {})
    arguments = tuple(named[key] for key in positional)
    return complete(replace(entry, args=arguments), {"policy": named.get("policy", kwargs.get("policy"))})


def _label(target: Any) -> str:
    return target if isinstance(target, str) else f"{target.__module__}:{target.__qualname__}"
