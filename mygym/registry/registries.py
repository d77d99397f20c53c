"""The registries of this process: `registry(kind)` for every kind, and the decorators that add to them."""

from __future__ import annotations

import contextlib
import copy
import difflib
import functools
import importlib
import inspect
import linecache
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

from mygym.errors import RegistryError, UnknownNameError, bad_value, did_you_mean, nearest
from mygym.registry.entries import (
    ALIASES,
    ASSETS,
    BUILTIN_FOLDERS,
    BUILTIN_MODULES,
    BULLET,
    BULLET_FILES,
    FOLDER_EXTRAS,
    FRAMEWORKS,
    HAS_BULLET,
    KINDS,
    Entry,
    caller,
    is_built_in,
    requirements,
    with_extras,
)
from mygym.registry.signatures import first_line, fits, in_words, signature, source_location, wrong_result
from mygym.registry.user_files import (
    PACKAGE,
    check_regular,
    execute,
    first_comment,
    installed_files,
    read_text,
    unread_folders,
    user_assets,
    user_files,
    user_folder_key,
    user_modules,
)

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

    Built-in components are registered at the first look-up. A file of the user is imported by the first look-up of its
    stem or of a name in its text, also of a built-in name, which it may replace (`override=True`). An unknown name, and
    a list of all names, import every file that registers this kind. A file that fails registers nothing: its error is
    raised by look-ups of its names, and is an entry of `broken`.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.aliases: dict[str, str] = dict(ALIASES.get(kind, {}))
        """Alias → name, for configs and flags."""
        self._entries: dict[str, Entry] = {}
        self._watchers: list[Callable[[Entry], object]] = []
        self._replaced: dict[str, Entry] = {}
        self._answered: set[str] = set()
        self._loaded = False
        """Whether the registration of the built-in components has begun."""

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
                name is not an identifier; or the framework is none of `FRAMEWORKS`.
        """
        if not isinstance(name, str) or not name.isidentifier():
            raise RegistryError(bad_value(self.kind, name, "letters, digits and _", "is not a name"))
        if framework is not None and framework not in FRAMEWORKS:
            raise RegistryError(bad_value("framework", framework, FRAMEWORKS, "is not supported"))
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
        if known is not None and not override and known.origin != origin and not _are_typed(known.origin, origin):
            raise RegistryError(registered_twice(self.kind, name, known.origin, origin))
        for alias in aliases:
            holder = self._find(alias)
            if holder is not None and holder.name != name and not override:
                raise RegistryError(registered_twice(self.kind, alias, holder.origin, origin))
        self._add(Entry(self.kind, name, target, help, origin, tuple(requires)))
        self.aliases |= dict.fromkeys(aliases, name)

    def remove(self, name: str) -> None:
        """Remove a component; raise `KeyError` without one of this name."""
        del self._entries[name]

    def get(self, name: str, key: str | None = None, more: Collection[str] = ()) -> Entry:
        """Return the entry of a name or alias; robots, workspaces and objects may also be given as files.

        Args:
            name: Name, alias or file.
            key: Config key or flag that the user typed, for the message.
            more: Further allowed values, for the message.

        Raises:
            UnknownNameError: The name or file does not exist; the message lists the known and the nearest names.
            RegistryError: Two files register the name without `override=True`, or its file cannot be imported.
        """
        if self.kind in BUILTIN_FOLDERS and name not in self._entries and is_file_name(name, self.kind):
            return self._file_entry(name, key or self.kind)
        answer = self._look_up(name)
        if answer is None:
            raise self._unknown_name(name, key or self.kind, more)
        if isinstance(answer, RegistryError):
            raise answer
        return answer

    def registered(self) -> list[Entry]:
        """Return all entries in the order of their registration, without a look into the user's folders."""
        self._load_builtins()
        return list(self._entries.values())

    def names(self) -> list[str]:
        """Return all names, sorted."""
        self._update()
        self._import(lambda file: not file.tried and self.kind in file.kinds)
        return sorted(self._entries)

    def broken(self) -> list[Entry]:
        """Return an entry for each user's file of this kind that cannot be imported; its help is the error."""
        self.names()
        broken = _user.broken(self.kind)
        return [Entry(self.kind, file.path.stem, file.path, str(file.error), str(file.path)) for file in broken]

    def watch(self, callback: Callable[[Entry], object]) -> None:
        """Call `callback` for each built-in entry now, and for every entry that is added later."""
        for entry in self.registered():
            callback(entry)
        self._watchers.append(callback)

    def __contains__(self, name: object) -> bool:
        """Return whether a name is registered, or should be by a file that fails: `get` raises its error."""
        return isinstance(name, str) and self._look_up(name) is not None

    def __iter__(self) -> Iterator[Entry]:
        return iter([self._entries[name] for name in self.names()])

    def _look_up(self, name: str) -> Entry | RegistryError | None:
        """Return the entry of a name or alias, or the error of the file that should register it; None if unknown."""
        if name in self._answered and _user.is_current() and (entry := self._find(name)):
            return entry
        self._update()
        if self._find(name) is None:
            _user.scan()
        self._import(lambda file: (not file.tried or file.error is not None) and file.mentions(self.kind, name))
        if self._find(name) is None:
            self._import(lambda file: not file.tried and (self.kind in file.kinds or file.path.stem == name))
        known = self._find(name)
        broken = [file for file in _user.files.values() if file.error is not None]
        errors = [file.error for file in broken if file.registers(self.kind, name)]
        if known is None:
            errors += [file.error for file in broken if file.path.stem == name or file.mentions(self.kind, name)]
        if not errors:
            self._answered.add(name)
        return next(iter(errors), known)

    def _import(self, wanted: Callable[[UserFile], bool]) -> None:
        """Import the user's files for which `wanted` is True."""
        for file in list(filter(wanted, _user.files.values())):
            _user.load(file)

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

    def _unknown_name(self, name: str, key: str, more: Collection[str] = ()) -> UnknownNameError:
        if self.kind == "robot" and (allowed := OTHER_ROBOT_FILES.get(Path(name).suffix.lower())):
            return UnknownNameError(bad_value(key, name, allowed, "is not a robot file"))
        labels = {known: with_extras(known, entry.missing_extras) for known, entry in sorted(self._entries.items())}
        are_few = len(labels) <= MAX_NAMES
        allowed = (
            ", ".join([*labels.values(), *more]) or "nothing" if are_few else f"a name of `mygym list {self.kind}`"
        )
        near = [known for known in labels if self._entries[known].class_name == name]
        near = near or nearest(name, [*labels, *more, *self.aliases], most=1 if are_few else 3)
        message = bad_value(key, name, allowed, f"is not a known {self.kind}")
        message += did_you_mean(name, near, most=3, cutoff=0.0)
        if not are_few:
            message += "".join(f"; {labels[known]}" for known in near if labels.get(known, known) != known)
        why = "is not read, because it is in a run directory, whose author may be unknown: move it, or use --import"
        unread = [f"{folder} {why}" for folder in unread_folders()]
        silent = [
            f"{file.path} does not register it"
            for file in _user.files.values()
            if file.module and file.path.stem == name
        ]
        errors = [str(file.error) for file in _user.broken(self.kind) if file.module]  # a YAML file registers its stem
        return UnknownNameError("; ".join([message, *silent, *errors, *unread]))

    def _update(self) -> None:
        """Register the built-in components, and find the user's files in a new current folder."""
        self._load_builtins()
        if not _user.is_current():
            _user.scan()

    def forget_answers(self) -> None:
        """Ask the user's files again in later look-ups."""
        self._answered.clear()

    def undo(self, path: Path) -> None:
        """Undo the registrations of a file, whose import has failed."""
        for name in [name for name, entry in self._entries.items() if _file_of(entry) == str(path)]:
            del self._entries[name]
            if name in self._replaced:
                self._entries[name] = self._replaced.pop(name)
            else:
                self.aliases = {alias: known for alias, known in self.aliases.items() if known != name}

    def _add(self, entry: Entry) -> None:
        known = self._entries.get(entry.name)
        if known is not None and _file_of(known) != _file_of(entry):
            self._replaced[entry.name] = known
        self._entries[entry.name] = entry
        for callback in self._watchers:
            callback(entry)

    def _load_builtins(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        try:
            if self.kind in BUILTIN_FOLDERS:
                for path in sorted((ASSETS / BUILTIN_FOLDERS[self.kind]).rglob("*.yaml")):
                    self._add(self._asset_entry(path))
            if self.kind in BUILTIN_MODULES:
                importlib.import_module(BUILTIN_MODULES[self.kind])
        except BaseException:
            self._loaded = False
            raise

    def _asset_entry(self, path: Path) -> Entry:
        origin = path.relative_to(ASSETS.parent).as_posix()
        extra = FOLDER_EXTRAS.get(path.parent.name)
        requires = () if extra is None else (f"mygym[{extra}]",)
        bullet = () if HAS_BULLET or BULLET_FILES not in read_text(path) else (BULLET,)
        return Entry(self.kind, path.stem, path, first_comment(path), origin, (*requires, *bullet))


def _file_of(entry: Entry) -> str:
    """Return the file of an entry, without the line."""
    return entry.origin if isinstance(entry.target, Path) else entry.origin.rpartition(":")[0]


def registered_twice(kind: str, name: str, first: str, second: str) -> str:
    """Return the message for a name that is registered twice."""
    remedy = "" if kind in BUILTIN_FOLDERS else f", or pass override=True to register_{kind}"
    return f"{kind} {name!r} is registered twice: {first} and {second}; choose another name{remedy}"


@dataclass
class UserFile:
    """A file of the user, or of an installed plug-in, that may register components."""

    path: Path
    module: str
    """Name under which a Python file is imported; empty for a YAML file."""
    kinds: Collection[str]
    """Kinds that it registers, by the words `register_KIND` and `implemented_combos` in its text."""
    text: str = ""
    tried: bool = False
    """Whether an import has begun."""
    error: RegistryError | None = None
    """Why it cannot be read or imported."""

    @classmethod
    def read(cls, path: Path, module: str) -> UserFile:
        """Read a Python file without importing it."""
        try:
            text = read_text(path)
        except RegistryError as error:
            return cls(path, module, KINDS, tried=True, error=error)
        words = [*re.findall(r"register_(\w+)", text), *(["algorithm"] if "implemented_combos" in text else [])]
        return cls(path, module, {kind for kind in KINDS if any(word.endswith(kind) for word in words)}, text)

    def mentions(self, kind: str, name: str) -> bool:
        """Return whether it registers a kind, and has a name as its stem or between quotes in its text."""
        if kind not in self.kinds:
            return False
        return self.path.stem == name or f'"{name}"' in self.text or f"'{name}'" in self.text

    def registers(self, kind: str, name: str) -> bool:
        """Return whether the text registers a name, even if its import fails; a YAML file registers its stem."""
        if kind not in self.kinds or not self.module:
            return kind in self.kinds and self.path.stem == name
        quoted = f"[\"']{re.escape(name)}[\"']"
        forms = [rf"register_\w*{kind}\(\s*{quoted}", *([rf"{quoted}\]?\s*[:=](?!=)"] if kind == "algorithm" else [])]
        return any(re.search(form, self.text) for form in forms)


class UserFiles:
    """The user's files and those of installed plug-ins, which are imported one by one, when a look-up needs them."""

    def __init__(self) -> None:
        self.files: dict[Path, UserFile] = {}
        self._key: object = None

    def is_current(self) -> bool:
        """Return whether the last scan was for the current folder and script."""
        return self._key == user_folder_key()

    def scan(self) -> None:
        """Find new, changed and removed files; an imported Python file stays as it is."""
        self._key = user_folder_key()
        user_modules.install()
        for components in REGISTRIES.values():
            components.forget_answers()
        for known_path, file in list(self.files.items()):
            if user_modules.excludes(known_path) or not known_path.is_file():
                del self.files[known_path]
                if not file.module:
                    REGISTRIES[next(iter(file.kinds))].undo(known_path)
        for module, path in [*user_files().items(), *installed_files().items()]:
            if path is None:
                error = f"{module}: an installed package declares this plug-in, but the module does not exist"
                self.files[Path(module)] = UserFile(Path(module), module, KINDS, "", True, RegistryError(error))
                continue
            known = self.files.get(path)
            if known is None or not known.tried or known.error is not None:
                user_modules.paths[module] = path
                read = UserFile.read(path, module)
                self.files[path] = read if known is None or known.text != read.text or read.error else known
        for kind in BUILTIN_FOLDERS:
            self.files |= {path: UserFile(path, "", (kind,)) for path in user_assets(kind)}

    def load(self, file: UserFile) -> None:
        """Import a file; if it fails, keep its error and undo what it has registered."""
        file.tried, file.error = True, None
        try:
            if file.module:
                check_regular(file.path)
                execute(file.module, file.path)
            else:
                kind, path = next(iter(file.kinds)), file.path
                REGISTRIES[kind].register(path.stem, path, first_comment(path), str(path))
        except RegistryError as error:
            file.error = error
            for components in REGISTRIES.values():
                components.undo(file.path)

    def broken(self, kind: str) -> list[UserFile]:
        """Return the files of a kind that cannot be read or imported."""
        return [file for file in self.files.values() if file.error is not None and kind in file.kinds]


_user = UserFiles()

REGISTRIES: dict[str, Registry] = {kind: Registry(kind) for kind in KINDS}
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


def of_user(kind: str, names: Iterable[str]) -> str:
    """Return the components among `names` that are the user's, with their lines, for messages; empty without any."""
    entries = [registry(kind).get(name) for name in dict.fromkeys(names)]
    return ", ".join(f"{kind} {entry.name} ({entry.origin})" for entry in entries if not entry.built_in)


def refresh() -> None:
    """Look for the user's files again, e.g. after a file was added, mended or removed; an imported file stays."""
    _user.files = {path: file for path, file in _user.files.items() if file.error is None}
    _user.scan()


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Context manager for tests that undoes every registration and import of user files in its block."""
    for components in REGISTRIES.values():
        components.registered()  # the built-in components stay
    owners, modules = (*REGISTRIES.values(), _user, user_modules), len(sys.modules)
    states = [
        {name: copy.copy(value) for name, value in vars(owner).items() if name != "_watchers"} for owner in owners
    ]
    states[-2]["files"] = {path: copy.copy(file) for path, file in _user.files.items()}
    try:
        yield
    finally:
        user_modules.forget_second_names()
        for owner, state in zip(owners, states, strict=True):
            vars(owner).update(state)
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
    form: Any = Any,
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
        form: Type hint of the decorated object, in place of `check` and `allowed`.
        help: One line for listings; by default the first line of the docstring.
        override: Replace a component of the same name.
        framework: Framework of the component, or a function that returns it for the decorated object; None for a
            component that is independent of frameworks.

    Raises:
        RegistryError: When the decorator is applied: `check` fails, or the name is taken or is not an identifier.
    """
    origin, words = caller(), allowed if form is Any else in_words(form, in_python=True)

    def register(component: T) -> T:
        if not check(component) or not fits(component, form):
            what = getattr(component, "__name__", f"an object of type {type(component).__name__}")
            why = f"decorates {_call(component) if inspect.isfunction(component) else what} ({origin})"
            raise RegistryError(bad_value(f"register_{kind}", name, words, why))
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
        RegistryError: When `build` is called: a method takes other parameters than mygym passes, or is never called,
            as one with a misspelt name.
            When such a method is called: its result is not the mapping, or the sequence, that `base` declares.
    """

    def check(cls: C) -> C:
        for name, replacement in replaced.items():
            method, known = inspect.getattr_static(cls, name, None), replacement.split(" or ")
            if method is not None and all(getattr(cls, hook, None) is getattr(base, hook, None) for hook in known):
                signatures = [_call(getattr(base, hook)) for hook in known if hasattr(base, hook)]
                why = f"is a method of {cls.__name__} that is never called ({source_location(method)})"
                raise RegistryError(bad_value(f"register_{kind}", name, " or ".join(signatures) or replacement, why))
        refuse_misspelt_methods(kind, base, cls)
        for name, method in inspect.getmembers_static(cls, inspect.isfunction):
            hook = inspect.getattr_static(base, name, None)
            if inspect.isfunction(hook) and method is not hook and not name.startswith("_"):
                _check_signature(kind, base, cls, method, hook)
                form, _, inner = str(hook.__annotations__.get("return")).partition("[")
                if form in RESULTS and inner.endswith("]"):  # not `| None`
                    setattr(cls, name, _checks_result(f"{kind} {cls.__name__}.{name}", method, form))
        return cls

    return check


RESULTS: Mapping[str, type] = {"Mapping": Mapping, "dict": dict, "Sequence": Sequence}
"""Annotations of results that are checked."""


def refuse_misspelt_methods(kind: str, base: type, cls: type) -> None:
    """Refuse a method that nothing in its file names, and whose name is nearly that of a hook that `cls` leaves as is.

    Raises:
        RegistryError: The class has such a method.
    """
    methods = dict(inspect.getmembers_static(cls, inspect.isfunction))
    hooks = [name for name, method in methods.items() if vars(base).get(name) is method and name[:2] != "__"]
    for name, method in methods.items():
        alike = [hook for hook in hooks if (hook[0] == "_") == (name[0] == "_")] if not hasattr(base, name) else []
        near = difflib.get_close_matches(name, alike, n=1, cutoff=0.85)
        if near and _is_named_once(method):
            why = f"is a method of {cls.__name__} that is never called ({source_location(method)})"
            raise RegistryError(bad_value(f"register_{kind}", name, near, why))


def _is_named_once(method: FunctionType) -> bool:
    """Return whether the file of a method has its name nowhere else; False if its text is unknown."""
    text = "".join(linecache.getlines(method.__code__.co_filename))
    return len(re.findall(rf"\b{method.__name__}\b", text)) == 1


def _checks_result(key: str, method: Callable[..., Any], form: str) -> Callable[..., Any]:
    """Return `method` with a check of its results."""

    @functools.wraps(method)
    def checked(*args: Any, **kwargs: Any) -> Any:
        result = method(*args, **kwargs)
        if not isinstance(result, RESULTS[form]) or isinstance(result, str):
            raise wrong_result(key, method, result, f"a {form.lower()}")
        return result

    return checked


def _check_signature(kind: str, base: type, cls: type, method: Callable[..., Any], hook: Callable[..., Any]) -> None:
    """Check that a method accepts the parameters with which mygym calls the method `hook` of the base class."""
    passed, taken = signature(hook).parameters, signature(method)
    try:
        taken.bind(*(p for p in passed.values() if p.default is p.empty))
    except TypeError:
        attributes = [f"self.{name}" for name in taken.parameters if name in base.__annotations__]
        allowed = _call(hook) + (f", with {', '.join(attributes)}" if attributes else "")
        raise wrong_parameters(kind, cls, method, allowed) from None


def wrong_parameters(kind: str, cls: type, method: Callable[..., Any], allowed: str) -> RegistryError:
    """Return the error for a method of the user's class that refuses the arguments of mygym's call."""
    why = f"takes other parameters than mygym passes to {cls.__name__} ({source_location(method)})"
    return RegistryError(bad_value(f"register_{kind}", _call(method), allowed, why))


def _call(function: Callable[..., Any]) -> str:
    """Return the name of a function with the names of its parameters, e.g. `prepare_model(self)`."""
    return f"{function.__name__}({', '.join(signature(function).parameters)})"


def _are_typed(*origins: str) -> bool:
    """Return whether code that was typed in, also in the cell of a notebook, has registered each time."""
    return all(origin.startswith("<") or "ipykernel_" in origin for origin in origins)
