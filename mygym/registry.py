"""One registry for every kind of component, and `implemented_combos`, the algorithms' dictionary form.

Nothing here imports what it names: built-ins are import strings and files, resolved when an entry is used, so that
`import mygym`, `--help` and `list` stay fast and need neither torch nor pybullet.
"""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from mygym.errors import RegistryError, bad_value
from mygym.parameters import Parameter, first_line, parameters

ASSETS = Path(__file__).parent / "assets"

BUILTIN_MODULES: Mapping[str, str] = {
    "algorithm": "mygym.algos",
    "policy": "mygym.experts.policies",
    "features_extractor": "mygym.algos.networks",
    "activation": "mygym.algos.networks",
    "optimizer": "mygym.algos.networks",
    "schedule": "mygym.config.schedules",
    "observation": "mygym.tasks.components",
    "randomizer": "mygym.envs.randomizers",
    "task": "mygym.tasks.named",
    "stage": "mygym.tasks.stages",
}
"""Light modules that register the built-ins of a kind when they are imported, which happens at the first look-up."""

BUILTIN_FOLDERS: Mapping[str, str] = {"robot": "robots", "workspace": "workspaces", "object": "objects"}
"""Folders of `assets/` in which each YAML file, also in folders of theirs, is one component under its stem's name."""

EXTRA_FOLDERS: Mapping[str, str] = {"example_robot_data": "mygym[robots]"}
"""Folders of these whose components need an extra of mygym: what to install."""

DESCRIPTIONS = (".yaml", ".yml", ".urdf")
"""What the name of a file ends in that can be given instead of the name of a component of these kinds."""

BUILTIN_STRINGS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "controller": {
        "ee_delta": (
            "mygym.sim.controllers:EndEffectorDelta",
            "moves the commanded end-effector position by up to 5 cm",
        ),
        "ee_absolute": (
            "mygym.sim.controllers:EndEffectorAbsolute",
            "commands the end effector's position within the tool's bounds, held upright",
        ),
        "joint_delta": ("mygym.sim.joint_controllers:JointDelta", "moves the commanded joint angles"),
        "joint_position": ("mygym.sim.joint_controllers:JointPosition", "commands joint angles over their whole range"),
        "joint_velocity": ("mygym.sim.joint_controllers:JointVelocity", "commands joint velocities up to their limits"),
        "joint_torque": (
            "mygym.sim.joint_controllers:JointTorque",
            "commands joint torques up to their limits, on top of gravity and friction compensation",
        ),
    },
    "strategy": {"standard": ("mygym.training:train", "one task, one network")},
}

ALIASES: Mapping[str, Mapping[str, str]] = {
    "controller": {"step": "ee_delta", "absolute": "ee_absolute", "joints": "joint_position"}
}
"""Other names under which the command line and configs know a component."""

EXTRAS: Mapping[str, str] = dict.fromkeys(("sbx", "jax", "jaxlib", "flax", "optax", "tensorflow_probability"), "jax")
"""Package as it is imported → the extra of mygym that installs it."""

T = TypeVar("T")


@dataclass(frozen=True)
class Deferred:
    """A component that a user's file will register when it is executed."""

    path: Path
    execute: Callable[[Path], None]
    frameworks: tuple[str, ...] = ()
    """Of an algorithm or a part of networks."""


@dataclass(frozen=True)
class Entry:
    """One registered component."""

    kind: str
    name: str
    target: Any
    """The component itself, an import string `module:attribute`, the path of a YAML file, or a `Deferred` one."""
    help: str
    """One line for listings."""
    origin: str
    """Where it was registered: `file:line` or a module."""
    requires: tuple[str, ...] = ()
    """What it needs, in words that a listing shows."""

    @property
    def built_in(self) -> bool:
        """Whether code of this package has registered it."""
        return self.origin.startswith(str(ASSETS.parent))

    @property
    def frameworks(self) -> tuple[str, ...]:
        """Frameworks in which it is there; none for what belongs to no framework."""
        if isinstance(self.target, Deferred):
            return self.target.frameworks
        return tuple(self.target) if isinstance(self.target, Mapping) else ()

    def load(self) -> Any:
        """The component itself; import strings are resolved, users' files executed, paths handed over as they are.

        Of a component of a framework (an algorithm, a part of a network): framework → that framework's.
        """
        if isinstance(self.target, Deferred):
            self.target.execute(self.target.path)
            entry = registry(self.kind).get(self.name)
            if isinstance(entry.target, Deferred):
                raise RegistryError(f"{self.kind} {self.name!r}: {self.target.path} names it but does not register it")
            return entry.load()
        return resolve(self.target, f"{self.kind} {self.name!r}")

    def load_for(self, framework: str) -> Any:
        """The component in one framework.

        Raises:
            RegistryError: It is not there in this framework.
        """
        there = self.load()
        if framework not in there:
            why = f"does not have {self.kind} {self.name!r}"
            raise RegistryError(bad_value("framework", framework, sorted(there), why))
        return resolve(there[framework], f"{self.kind} {self.name!r}")

    def parameters(self, framework: str = "pytorch") -> dict[str, Parameter]:
        """What the component's class or function takes; nothing for what is a file or a value."""
        target = self.load()
        if isinstance(target, Mapping):
            target = self.load_for(framework)
            target = target.combo()[0] if isinstance(target, Algorithm) else target
        return parameters(target) if callable(target) else {}


def resolve(target: Any, wanted_by: str = "") -> Any:
    """`"module:attribute"` → the attribute; anything else as it is."""
    if not isinstance(target, str):
        return target
    module_name, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        install = f'"mygym[{EXTRAS[package]}]"' if package in EXTRAS else package
        raise RegistryError(f"{wanted_by}: needs the package {package!r}: pip install {install}") from error


def registered_twice(kind: str, name: str, first: str, second: str, way_out: str = ", or say override=True") -> str:
    """The message when two places claim one name."""
    return f"{kind} {name!r} is registered twice: {first} and {second}; choose another name{way_out}"


class Registry:
    """Name → `Entry` for one kind of component; built-ins and the user's files join at the first look-up."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry] = {}
        self._builtins_loaded = False
        self.discover: Callable[[str], None] | None = None
        """Set by `mygym.plugins`: registers what the user's folders hold of this kind."""
        self.conflicts: dict[str, str] = {}
        """Names that a user's file takes from something else without asking → the message."""
        self.unreadable: dict[Path, str] = {}
        """Users' files that cannot be parsed, in which a name that is missing may be → the message."""

    def register(
        self,
        name: str,
        target: Any,
        help: str = "",
        origin: str | None = None,
        override: bool = False,
        requires: Sequence[str] = (),
    ) -> None:
        """Add a component.

        Raises:
            RegistryError: The name is taken (both places are named) and `override` is not set, or is no identifier.
        """
        if not name.isidentifier():
            raise RegistryError(bad_value(self.kind, name, "letters, digits and _", "is not a name"))
        origin = origin or _caller()
        self._load_builtins()
        known = self._entries.get(name)
        awaited = known is not None and isinstance(known.target, Deferred) and origin.startswith(str(known.target.path))
        if known is not None and not override and not awaited and known.origin != origin:
            raise RegistryError(registered_twice(self.kind, name, known.origin, origin))
        self._entries[name] = Entry(self.kind, name, target, help, origin, tuple(requires))

    def get(self, name: str, key: str | None = None) -> Entry:
        """The entry under `name` or its alias; of robots, workspaces and objects also that of a file of one's own.

        Raises:
            RegistryError: No such name or file; the message has the names and the nearest. `key` is what the user typed
                it as.
        """
        if self.kind in BUILTIN_FOLDERS and Path(name).suffix in DESCRIPTIONS:
            return self._of_file(name, key)
        self._load_all()
        if name in self.conflicts:
            raise RegistryError(self.conflicts[name])
        entry = self._entries.get(ALIASES.get(self.kind, {}).get(name, name))
        if entry is None:
            message = bad_value(key or self.kind, name, self.names(), f"is not a known {self.kind}")
            raise RegistryError("; ".join([message, *self.unreadable.values()]))
        return entry

    def _of_file(self, name: str, key: str | None) -> Entry:
        path = Path(name).expanduser().absolute()
        if not path.is_file():
            raise RegistryError(
                bad_value(key or self.kind, name, f"a file, or one of {', '.join(self.names())}", "is not a file")
            )
        return Entry(self.kind, name, path, "", str(path))

    def names(self) -> list[str]:
        """All names, sorted."""
        self._load_all()
        return sorted(self._entries)

    def __contains__(self, name: object) -> bool:
        self._load_all()
        return name in self._entries

    def __iter__(self) -> Iterator[Entry]:
        self._load_all()
        if self.conflicts:
            raise RegistryError(next(iter(self.conflicts.values())))
        return iter([self._entries[name] for name in sorted(self._entries)])

    def _load_all(self) -> None:
        self._load_builtins()
        if self.discover is not None:
            self.discover(self.kind)

    def _load_builtins(self) -> None:
        if self._builtins_loaded:
            return
        self._builtins_loaded = True
        for name, (target, help) in BUILTIN_STRINGS.get(self.kind, {}).items():
            self._entries[name] = Entry(self.kind, name, target, help, target.partition(":")[0])
        if self.kind in BUILTIN_FOLDERS:
            for path in sorted((ASSETS / BUILTIN_FOLDERS[self.kind]).rglob("*.yaml")):
                origin = path.relative_to(ASSETS.parent).as_posix()
                needs = (EXTRA_FOLDERS[path.parent.name],) if path.parent.name in EXTRA_FOLDERS else ()
                self._entries[path.stem] = Entry(self.kind, path.stem, path, first_comment(path), origin, needs)
        if self.kind in BUILTIN_MODULES:
            importlib.import_module(BUILTIN_MODULES[self.kind])


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


REGISTRIES: dict[str, Registry] = {
    kind: Registry(kind)
    for kind in (
        *("algorithm", "policy", "features_extractor", "activation", "optimizer", "schedule", "strategy"),
        *("robot", "workspace", "object", "controller", "task", "stage", "observation", "randomizer"),
    )
}
"""Every kind of component."""


def registry(kind: str) -> Registry:
    """The registry of one kind.

    Raises:
        RegistryError: No such kind.
    """
    if kind not in REGISTRIES:
        raise RegistryError(bad_value("kind", kind, sorted(REGISTRIES), "is not a kind of component"))
    return REGISTRIES[kind]


def algorithm(name: str, framework: str = "pytorch") -> Algorithm:
    """The registered algorithm.

    Raises:
        RegistryError: No such algorithm, or not in this framework.
    """
    entry: Algorithm = registry("algorithm").get(name, "algo").load_for(framework)
    return entry


def add_algorithm(entry: Algorithm, origin: str | None = None, override: bool = False) -> None:
    """Register `entry` under its name and framework; the other frameworks of the name stay."""
    origin = origin or _caller()
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
    origin = _caller()

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
        origin = _caller()

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
        origin = _caller()
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


def _caller() -> str:
    """`file:line` of the first frame outside this module and outside functions called `register_…` or within them."""
    frame = inspect.currentframe()
    while frame is not None and (
        frame.f_globals.get("__name__") == __name__ or frame.f_code.co_qualname.startswith("register_")
    ):
        frame = frame.f_back
    return "unknown" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def first_comment(path: Path) -> str:
    """The text of a YAML file's first line, if that is a comment: its one line of help."""
    with path.open(encoding="utf-8") as file:
        line = file.readline()
    return line.lstrip("# ").rstrip() if line.startswith("#") else ""
