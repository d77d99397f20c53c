"""`Registry`, name → component, for every kind of component.

No component is imported here: built-in components are import strings and files, and an entry resolves them at use. So
`import mygym`, `--help` and `list` stay fast and need neither torch nor pybullet.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mygym.errors import RegistryError, UnknownNameError, bad_value, did_you_mean, nearest
from mygym.registry.builtins import (
    ALIASES,
    ASSETS,
    BUILTIN_FOLDERS,
    BUILTIN_MODULES,
    FOLDER_EXTRAS,
)
from mygym.registry.discovery import ScannedFile, Scanner, first_comment
from mygym.registry.entries import Deferred, Entry, caller, registered_twice, requirements, with_extras
from mygym.registry.robot_files import OTHER_ROBOT_FILES, RobotFileName, is_file_name
from mygym.registry.source_names import SourceName
from mygym.registry.user_files import execute, unread_folders

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
        known = self.peek(name)
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
