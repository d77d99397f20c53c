"""One registry for every kind of component.

Nothing here imports what it names: built-ins are import strings and files, resolved when an entry is used, so that
`import mygym`, `--help` and `list` stay fast and need neither torch nor pybullet.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mygym.errors import RegistryError, bad_value, did_you_mean
from mygym.registry.signatures import first_line

T = TypeVar("T")

ASSETS = Path(__file__).parents[1] / "assets"

BUILTIN_MODULES: Mapping[str, str] = {
    "algorithm": "mygym.algos",
    "policy": "mygym.experts",
    "features_extractor": "mygym.algos.networks",
    "activation": "mygym.algos.networks",
    "optimizer": "mygym.algos.networks",
    "schedule": "mygym.config.schedules",
    "observation": "mygym.tasks.components",
    "reward": "mygym.tasks.rewards",
    "predicate": "mygym.tasks.predicates",
    "strategy": "mygym.strategies",
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
            "mygym.models.controllers:EndEffectorDelta",
            "moves the commanded end-effector position by up to 5 cm",
        ),
        "ee_absolute": (
            "mygym.models.controllers:EndEffectorAbsolute",
            "commands the end effector's position within the tool's bounds, held upright",
        ),
        "joint_delta": ("mygym.models.joint_controllers:JointDelta", "moves the commanded joint angles"),
        "joint_position": (
            "mygym.models.joint_controllers:JointPosition",
            "commands joint angles over their whole range",
        ),
        "joint_velocity": (
            "mygym.models.joint_controllers:JointVelocity",
            "commands joint velocities up to their limits",
        ),
        "joint_torque": (
            "mygym.models.joint_controllers:JointTorque",
            "commands joint torques up to their limits, on top of gravity and friction compensation",
        ),
    },
}

ALIASES: Mapping[str, Mapping[str, str]] = {
    "controller": {"step": "ee_delta", "absolute": "ee_absolute", "joints": "joint_position"},
    "strategy": {"experts": "mixture"},
}
"""Other names under which the command line and configs know a component."""

EXTRAS: Mapping[str, str] = {
    **dict.fromkeys(("sbx", "jax", "jaxlib", "flax", "optax", "tensorflow_probability"), "jax"),
    **dict.fromkeys(("minari", "h5py"), "demos"),
}
"""Package as it is imported → the extra of mygym that installs it."""


MOST_NAMES = 60
"""Names that a message has room for; of more it has the nearest."""


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
        """Set by `mygym.registry.user_files`: registers what the user's folders hold of this kind."""
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
        origin = origin or caller()
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
            names, why = self.names(), f"is not a known {self.kind}"
            message = bad_value(key or self.kind, name, names, why)
            if len(names) > MOST_NAMES:
                message = bad_value(key or self.kind, name, f"a name of `mygym list {self.kind}`", why)
                message += did_you_mean(name, names, most=3)
            raise RegistryError("; ".join([message, *self.unreadable.values()]))
        return entry

    def _of_file(self, name: str, key: str | None) -> Entry:
        path = Path(name).expanduser().absolute()
        if not path.is_file():
            allowed = f"a file, or a name of `mygym list {self.kind}`"
            raise RegistryError(bad_value(key or self.kind, name, allowed, "is not a file"))
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


REGISTRIES: dict[str, Registry] = {
    kind: Registry(kind)
    for kind in (
        *("algorithm", "policy", "features_extractor", "activation", "optimizer", "schedule", "strategy"),
        *(
            "robot",
            "workspace",
            "object",
            "controller",
            "task",
            "stage",
            "predicate",
            "reward",
            "observation",
            "randomizer",
        ),
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


def decorator(
    kind: str,
    name: str,
    *,
    build: Callable[[Any], Any] | None = None,
    check: Callable[[Any], bool] = callable,
    allowed: str = "a class or a function",
    help: str = "",
    override: bool = False,
) -> Callable[[T], T]:
    """Decorator that registers a component under `name`; the base of every `register_KIND`.

    Args:
        kind: Kind of component.
        name: Name in configs and flags.
        build: Builds the registered object from the decorated one; None: the decorated object itself.
        check: Whether the decorated object is of the right type.
        allowed: Type that `check` accepts, for the message.
        help: One line for listings; by default the first line of the docstring.
        override: Replace a component of the same name.

    Raises:
        RegistryError: When applied: `check` fails, or the name is taken or is not an identifier.
    """
    origin = caller()

    def register(component: T) -> T:
        if not check(component):
            raise RegistryError(bad_value(f"register_{kind}", name, allowed, f"does not decorate one ({origin})"))
        target = component if build is None else build(component)
        registry(kind).register(name, target, help or first_line(component), origin, override)
        return component

    return register


def caller() -> str:
    """`file:line` of the first frame outside this package and outside functions called `register_…` or within them."""
    frame = inspect.currentframe()
    while frame is not None and (
        frame.f_globals.get("__package__") == __package__ or frame.f_code.co_qualname.startswith("register_")
    ):
        frame = frame.f_back
    return "unknown" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def first_comment(path: Path) -> str:
    """The text of a YAML file's first line, if that is a comment: its one line of help."""
    with path.open(encoding="utf-8") as file:
        line = file.readline()
    return line.lstrip("# ").rstrip() if line.startswith("#") else ""
