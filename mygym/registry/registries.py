"""The registries of this process: `registry(kind)` for every kind, and the decorators that add to them."""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from mygym.errors import RegistryError, UnknownNameError, bad_value, did_you_mean, nearest
from mygym.registry.builtins import ALIASES, ASSETS, BUILTIN_FOLDERS, BUILTIN_MODULES, FOLDER_EXTRAS, KINDS
from mygym.registry.discovery import ScannedFile, Scanner, SourceName, first_comment
from mygym.registry.entries import (
    Deferred,
    Entry,
    caller,
    is_built_in,
    registered_twice,
    requirements,
    with_extras,
)
from mygym.registry.signatures import first_line, source_location
from mygym.registry.user_files import PACKAGE, execute, unread_folders, user_modules

DESCRIPTION_SUFFIXES = (".yaml", ".yml", ".urdf")
"""Suffixes of the files that can be given instead of the name of a robot, workspace or object."""

ARCHIVE_SUFFIXES = (".zip", ".tar", ".tgz", ".tar.gz", ".txz", ".tar.xz", ".tbz2", ".tar.bz2")
"""Suffixes of archives that may contain a robot."""

ROBOT_SUFFIXES = (*DESCRIPTION_SUFFIXES, ".xacro", ".xml", ".mjcf", *ARCHIVE_SUFFIXES)
"""Suffixes of the files that can be given instead of the name of a robot."""

OTHER_ROBOT_FILES = {".sdf": "a URDF, xacro or MuJoCo file; SDF, the format of Gazebo, is not read"}
"""Suffixes of robot files of other formats → the allowed values, for the message."""

_ARGUMENT = re.compile(r"\s+(?=[A-Za-z_]\w*:=)")


@dataclass(frozen=True)
class RobotFileName:
    """A text such as `arm.urdf`, `arms.zip/arm.urdf`, or `arm.xacro prefix:=left_ gripper:=true`."""

    file: Path
    """The file on the disk."""
    inside: str = ""
    """Path inside the archive `file`; empty for a whole archive, and for other files."""
    arguments: tuple[str, ...] = ()
    """`NAME:=VALUE` of a xacro file."""

    @classmethod
    def parse(cls, text: str | Path) -> RobotFileName:
        """Split a text into its parts; no file is opened."""
        name, *arguments = _ARGUMENT.split(str(text).strip())
        path = Path(name).expanduser()
        for folder in path.parents:
            if folder.name.lower().endswith(ARCHIVE_SUFFIXES) and folder.is_file():
                return cls(folder, str(path.relative_to(folder)), tuple(arguments))
        return cls(path, "", tuple(arguments))

    def absolute(self) -> RobotFileName:
        """Return the name with the absolute path of the file."""
        return replace(self, file=self.file.absolute())

    @property
    def name(self) -> str:
        """The name of the description, without folders and arguments."""
        return Path(self.inside).name or self.file.name

    @property
    def is_archive(self) -> bool:
        """Whether the file is an archive."""
        return self.file.name.lower().endswith(ARCHIVE_SUFFIXES)

    def __str__(self) -> str:
        return " ".join([str(self.file / self.inside if self.inside else self.file), *self.arguments])


def is_file_name(name: str, kind: str = "robot") -> bool:
    """Return whether the text in place of a component's name is that of a file, by its suffix."""
    if kind != "robot":
        return Path(name).suffix.lower() in DESCRIPTION_SUFFIXES
    return RobotFileName.parse(name).name.lower().endswith(ROBOT_SUFFIXES)


MAX_NAMES = 60
"""Maximum number of names in a message; of more names, only the nearest are listed."""


class Registry:
    """Name → `Entry` of one kind of component.

    Built-in components are registered at the first look-up. The user's folders are scanned once for each current folder
    and script, and again when a name is missing or by `refresh`. They are scanned for a built-in name too, because a
    file may replace it (`override=True`).
    """

    def __init__(self, kind: str, scanner: Scanner) -> None:
        self.kind = kind
        self.conflicts: dict[str, str] = {}
        """Taken name that a user's file registers without `override=True` → error message."""
        self.unreadable: dict[Path, str] = {}
        """User's file that cannot be read, and may register a missing name → error message."""
        self.aliases: dict[str, str] = dict(ALIASES.get(kind, {}))
        """Alias → name, for configs and flags."""
        self._scanner = scanner
        self._entries: dict[str, Entry] = {}
        self._watchers: list[Callable[[Entry], object]] = []
        self._scanned: list[ScannedFile] = []
        self._conflicting: dict[str, Path] = {}
        self._replaced: dict[str, Entry] = {}
        self._loading = self._loaded = False
        scanner.receivers.append(self._queue)

    def register(
        self,
        name: str,
        target: Any,
        help: str = "",
        origin: str | None = None,
        override: bool = False,
        requires: Sequence[str] = (),
        framework: str | None = None,
        aliases: Sequence[str] = (),
    ) -> None:
        """Register a component.

        Args:
            name: An identifier.
            target: The component or an import string `module:attribute`.
            help: One line for listings.
            origin: `file:line`; by default the caller's.
            override: Replace a component of the same name.
            requires: Requirements, in words for listings.
            framework: Framework of the component; the component's other frameworks are kept.
            aliases: Other names for the same component.

        Raises:
            RegistryError: The name or an alias is taken and `override` is False (the message has both origins), or the
                name is not an identifier.
        """
        if not name.isidentifier():
            raise RegistryError(bad_value(self.kind, name, "letters, digits and _", "is not a name"))
        origin = origin or caller()
        if not is_built_in(origin):  # the module of a built-in component may be imported before the others
            self._load_builtins()
        known = self._entries.get(name)
        if framework is not None:
            frameworks = dict(known.target) if known is not None and isinstance(known.target, Mapping) else {}
            override = override or (bool(frameworks) and framework not in frameworks)
            help = help or (known.help if known else "")
            target = {**frameworks, framework: target}
            requires = requirements(target)
        if known is not None and not override and known.origin != origin and not _declares(known, origin):
            raise RegistryError(registered_twice(self.kind, name, known.origin, origin))
        for alias in aliases:
            holder = self._find(alias)
            if holder is not None and holder.name != name and not override:
                raise RegistryError(registered_twice(self.kind, alias, holder.origin, origin))
        self._add(Entry(self.kind, name, target, help, origin, tuple(requires)))
        self.aliases |= dict.fromkeys(aliases, name)

    def remove(self, name: str) -> None:
        """Remove a component.

        Raises:
            KeyError: No component has this name.
        """
        del self._entries[name]

    def get(self, name: str, key: str | None = None) -> Entry:
        """Return the entry of a name or alias; robots, workspaces and objects may also be given as files.

        Args:
            name: Name, alias or file.
            key: Config key or flag that the user typed, for the message.

        Raises:
            UnknownNameError: The name or file does not exist; the message lists the known and the nearest names.
            RegistryError: A user's file registers the name, which is taken, without `override=True`.
        """
        entry = self._find(name)
        if entry is None or not self._is_current() or name in self.conflicts:
            return self._search(name, key or self.kind)
        return entry

    def peek(self, name: str) -> Entry | None:
        """Return the entry of a name, without scanning the user's folders; None if the name is unknown."""
        self._load_builtins()
        return self._entries.get(name)

    def registered(self) -> list[Entry]:
        """Return all entries in the order of their registration, without scanning the user's folders."""
        self._load_builtins()
        return list(self._entries.values())

    def names(self) -> list[str]:
        """Return all names, sorted."""
        self._update()
        return sorted(self._entries)

    def watch(self, callback: Callable[[Entry], object]) -> None:
        """Call `callback` for each built-in entry now, and for every entry that is added later."""
        self._load_builtins()
        for entry in self._entries.values():
            callback(entry)
        self._watchers.append(callback)

    def __contains__(self, name: object) -> bool:
        self._update()
        if name not in self._entries:
            self._update(rescan=True)
        return name in self._entries

    def __iter__(self) -> Iterator[Entry]:
        self._update()
        if self.conflicts:
            raise RegistryError(next(iter(self.conflicts.values())))
        return iter([self._entries[name] for name in sorted(self._entries)])

    def _search(self, name: str, key: str) -> Entry:
        if self.kind in BUILTIN_FOLDERS and is_file_name(name, self.kind):
            return self._file_entry(name, key)
        if self.kind == "robot" and (allowed := OTHER_ROBOT_FILES.get(Path(name).suffix.lower())):
            raise UnknownNameError(bad_value(key, name, allowed, "is not a robot file"))
        self._update()
        if self._find(name) is None:
            self._update(rescan=True)
        if name in self.conflicts:
            raise RegistryError(self.conflicts[name])
        entry = self._find(name)
        if entry is None:
            raise self._unknown_name(name, key)
        return entry

    def _find(self, name: str) -> Entry | None:
        """Return the registered entry of a name or alias; None if it is unknown."""
        return self._entries.get(name) or self._entries.get(self.aliases.get(name, name))

    def _file_entry(self, name: str, key: str) -> Entry:
        file = RobotFileName.parse(name) if self.kind == "robot" else RobotFileName(Path(name).expanduser())
        path = Path(str(file.absolute()))
        if not file.file.is_file():
            allowed = f"a file, or a name of `mygym list {self.kind}`"
            raise UnknownNameError(bad_value(key, name, allowed, "is not a file"))
        return Entry(self.kind, name, path, "", str(path))

    def _unknown_name(self, name: str, key: str) -> UnknownNameError:
        why = f"is not a known {self.kind}"
        labels = {known: with_extras(known, entry.missing_extras) for known, entry in sorted(self._entries.items())}
        are_few = len(labels) <= MAX_NAMES
        allowed = ", ".join(labels.values()) or "nothing" if are_few else f"a name of `mygym list {self.kind}`"
        near = [known for known in labels if self._entries[known].class_name == name]
        near = near or nearest(name, [*labels, *self.aliases], most=1 if are_few else 3)
        message = bad_value(key, name, allowed, why) + did_you_mean(name, near, most=3, cutoff=0.0)
        if not are_few:
            message += "".join(f"; {labels[known]}" for known in near if labels.get(known, known) != known)
        why = "is not read, because it is in a run directory, whose author may be unknown: move it, or use --import"
        unread = [f"{folder} {why}" for folder in unread_folders()]
        return UnknownNameError("; ".join([message, *self.unreadable.values(), *unread]))

    def _is_current(self) -> bool:
        """Return whether all known components are registered and the current folder has not changed."""
        return self._loaded and not self._scanned and self._scanner.is_current()

    def _update(self, rescan: bool = False) -> None:
        """Register the built-in components and those in the user's folders, scanning them if necessary."""
        self._load_builtins()
        if self._loading:  # the user's components come after all built-in components
            return
        if rescan or not self._scanner.is_current():
            self._scanner.scan()
        scanned, self._scanned = self._scanned, []
        for file in scanned:
            self._merge(file)

    def _queue(self, file: ScannedFile) -> None:
        """Keep a scanned file until the next look-up, which registers its components."""
        if file.kind in (None, self.kind):
            self._scanned.append(file)

    def _merge(self, file: ScannedFile) -> None:
        """Register the components of a new or changed file, in place of its previous components."""
        self.unreadable.pop(file.path, None)
        for name in [name for name, path in self._conflicting.items() if path == file.path]:
            del self._conflicting[name], self.conflicts[name]
        for name in [name for name, entry in self._entries.items() if _is_unused(entry, file.path)]:
            del self._entries[name]
            if name in self._replaced:
                self._entries[name] = self._replaced.pop(name)
        if file.error:
            self.unreadable[file.path] = file.error
        for component in file.components:
            if component.kind == self.kind:
                self._merge_component(component, file)

    def _merge_component(self, component: SourceName, file: ScannedFile) -> None:
        name, path = component.name, file.path
        if not name:
            self.unreadable[path] = (
                f"{path} registers a name of kind {self.kind} that is not a string in the source: "
                f"write the name out, or import the file with --import"
            )
            return
        known = self._entries.get(name)
        if known is not None and known.origin.startswith(str(path)):
            return
        if known is not None and not component.override:
            self.conflicts[name] = registered_twice(self.kind, name, known.origin, str(path), file.kind is None)
            self._conflicting[name] = path
            return
        if known is not None:
            self._replaced[name] = known
        target: Any = path
        if file.kind is None:
            target = Deferred(path, lambda: self._execute(name, file), component.frameworks, component.class_name)
        self._add(Entry(self.kind, name, target, component.help, str(path)))
        self.aliases |= {alias: name for alias in component.aliases if self._find(alias) is None}

    def _execute(self, name: str, file: ScannedFile) -> Entry:
        execute(file.module, file.path)
        return self._entries[name]

    def _add(self, entry: Entry) -> None:
        self._entries[entry.name] = entry
        for callback in self._watchers:
            callback(entry)

    def _load_builtins(self) -> None:
        if self._loaded or self._loading:
            return
        self._loading = True
        try:
            if self.kind in BUILTIN_FOLDERS:
                for path in sorted((ASSETS / BUILTIN_FOLDERS[self.kind]).rglob("*.yaml")):
                    self._add(self._asset_entry(path))
            if self.kind in BUILTIN_MODULES:
                importlib.import_module(BUILTIN_MODULES[self.kind])
        finally:
            self._loading = False
        self._loaded = True

    def _asset_entry(self, path: Path) -> Entry:
        origin = path.relative_to(ASSETS.parent).as_posix()
        extra = FOLDER_EXTRAS.get(path.parent.name)
        requires = () if extra is None else (f"mygym[{extra}]",)
        return Entry(self.kind, path.stem, path, first_comment(path), origin, requires)

    def snapshot(self) -> dict[str, Any]:
        """Return the registered components and messages, for `restore`."""
        names = ("_entries", "aliases", "conflicts", "unreadable", "_conflicting", "_replaced", "_scanned")
        return {name: copy.copy(getattr(self, name)) for name in names}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Return to the state of a `snapshot`."""
        vars(self).update(state)


def _declares(known: Entry, origin: str) -> bool:
    """Return whether `known` was read from the source of the file that now registers it, at `origin`."""
    return isinstance(known.target, Deferred) and origin.startswith(str(known.target.path))


def _is_unused(entry: Entry, path: Path) -> bool:
    """Return whether an entry was read from the file `path` and the file has not been executed."""
    return entry.target == path or (isinstance(entry.target, Deferred) and entry.target.path == path)


_scanner = Scanner()

REGISTRIES: dict[str, Registry] = {kind: Registry(kind, _scanner) for kind in KINDS}
"""Kind → registry."""


def registry(kind: str) -> Registry:
    """Return the registry of a kind.

    Args:
        kind: `robot`, `task`, `algorithm` or another kind; `mygym list` has them all.

    Raises:
        UnknownNameError: The kind does not exist.
    """
    if kind not in REGISTRIES:
        raise UnknownNameError(bad_value("kind", kind, sorted(REGISTRIES), "is not a kind of component"))
    return REGISTRIES[kind]


def refresh() -> None:
    """Scan the user's folders again, e.g. after a file was added, changed or removed."""
    _scanner.scan()


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Context manager for tests that undoes every registration, scan and import of user files in its block."""
    registries = {kind: components.snapshot() for kind, components in REGISTRIES.items()}
    scanner, modules = _scanner.snapshot(), len(sys.modules)
    try:
        yield
    finally:
        for kind, state in registries.items():
            REGISTRIES[kind].restore(state)
        user_modules.forget_second_names()
        _scanner.restore(scanner)
        if len(sys.modules) != modules:  # a search through thousands of names takes longer than most tests
            for module in [module for module in sys.modules if module.startswith(f"{PACKAGE}.")]:
                del sys.modules[module]


T = TypeVar("T")
C = TypeVar("C", bound=type)


def decorator(
    kind: str,
    name: str,
    *,
    aliases: Sequence[str] = (),
    build: Callable[[Any], Any] | None = None,
    check: Callable[[Any], bool] = callable,
    allowed: str = "a class or a function",
    help: str = "",
    override: bool = False,
    framework: str | Callable[[Any], str | None] | None = None,
) -> Callable[[T], T]:
    """Return a decorator that registers a component under `name`; the base of every `register_KIND`.

    Args:
        kind: Kind of component.
        name: Name in configs and flags.
        aliases: Other names for the same component.
        build: Builds the registered object from the decorated object; None: register the decorated object itself.
        check: Returns whether the decorated object has the right type.
        allowed: Type that `check` accepts, for the message.
        help: One line for listings; by default the first line of the docstring.
        override: Replace a component of the same name.
        framework: Framework of the component, or a function that returns it for the decorated object; None for a
            component that is independent of frameworks.

    Raises:
        RegistryError: When the decorator is applied: `check` fails, or the name is taken or is not an identifier.
    """
    origin = caller()

    def register(component: T) -> T:
        if not check(component):
            why = f"decorates an object of type {type(component).__name__} ({origin})"
            raise RegistryError(bad_value(f"register_{kind}", name, allowed, why))
        target = component if build is None else build(component)
        component_framework = framework(component) if callable(framework) else framework
        text = help or first_line(component)
        registry(kind).register(name, target, text, origin, override, framework=component_framework, aliases=aliases)
        return component

    return register


def check_hooks(kind: str, base: type, replaced: Mapping[str, str]) -> Callable[[C], C]:
    """Return a `build` for `decorator` that checks the methods of a subclass of `base`, and returns the subclass.

    Args:
        kind: Kind of component.
        base: Class whose public methods mygym calls.
        replaced: Method of other libraries, which mygym never calls → methods of `base` that replace it, joined by
            ` or `, or words. A class that also defines a replacement may use the method as a helper.

    Raises:
        RegistryError: When `build` is called: a method takes other parameters than mygym passes, or is never called.
    """

    def check(cls: C) -> C:
        for name, replacement in replaced.items():
            method, known = inspect.getattr_static(cls, name, None), replacement.split(" or ")
            if method is not None and all(getattr(cls, hook, None) is getattr(base, hook, None) for hook in known):
                signatures = [_call(getattr(base, hook)) for hook in known if hasattr(base, hook)]
                why = f"is a method of {cls.__name__} that is never called ({source_location(method)})"
                raise RegistryError(bad_value(f"register_{kind}", name, " or ".join(signatures) or replacement, why))
        for name, method in inspect.getmembers_static(cls, inspect.isfunction):
            hook = inspect.getattr_static(base, name, None)
            if inspect.isfunction(hook) and method is not hook and not name.startswith("_"):
                _check_signature(kind, base, cls, method, hook)
        return cls

    return check


def _check_signature(kind: str, base: type, cls: type, method: Callable[..., Any], hook: Callable[..., Any]) -> None:
    """Check that a method accepts the parameters with which mygym calls the method `hook` of the base class.

    Raises:
        RegistryError: It does not.
    """
    passed, taken = inspect.signature(hook).parameters, inspect.signature(method)
    try:
        taken.bind(*(p for p in passed.values() if p.default is p.empty))
    except TypeError:
        attributes = [f"self.{name}" for name in taken.parameters if name in base.__annotations__]
        allowed = _call(hook) + (f", with {', '.join(attributes)}" if attributes else "")
        why = f"takes other parameters than mygym passes to {cls.__name__} ({source_location(method)})"
        raise RegistryError(bad_value(f"register_{kind}", _call(method), allowed, why)) from None


def _call(function: Callable[..., Any]) -> str:
    """Return the name of a function with the names of its parameters, e.g. `prepare_model(self)`."""
    return f"{function.__name__}({', '.join(inspect.signature(function).parameters)})"
