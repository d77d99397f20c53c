"""`Scanner` finds the components in the user's folders and in installed plug-ins without executing any of them."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mygym.registry.builtins import BUILTIN_FOLDERS
from mygym.registry.source_names import SourceName, source_names
from mygym.registry.user_files import installed_files, place_of, user_assets, user_files, user_modules

Signature = tuple[int, int]
"""Modification time in ns and size in bytes, by which a changed file is recognised."""


@dataclass(frozen=True)
class ScannedFile:
    """The components that a new or changed file declares; none if the file was removed."""

    path: Path
    kind: str | None = None
    """Kind of a YAML file; None for Python, which may register any kind."""
    module: str = ""
    """Module name under which a Python file is executed."""
    components: tuple[SourceName, ...] = ()
    error: str = ""
    """Reason why the file cannot be read; empty if it can be read."""


class Scanner:
    """Scans the user's folders, and reads each file again only if it has changed."""

    def __init__(self) -> None:
        self.receivers: list[Callable[[ScannedFile], None]] = []
        """Functions that are called with each new, changed or removed file."""
        self._folder_key: tuple[str, str, frozenset[Path]] | None = None
        self._signatures: dict[Path, Signature] = {}
        self._kinds: dict[Path, str | None] = {}

    def is_current(self) -> bool:
        """Return whether the last scan was for the current folder and script."""
        return self._folder_key == _folder_key()

    def scan(self) -> None:
        """Scan the folders, and pass each new, changed or removed file to the receivers."""
        for file in self._scan():
            for receive in self.receivers:
                receive(file)

    def _scan(self) -> Iterator[ScannedFile]:
        self._folder_key = _folder_key()
        user_modules.install()
        for path in [path for path in self._signatures if user_modules.excludes(path) or not path.is_file()]:
            del self._signatures[path]
            yield ScannedFile(path, self._kinds.pop(path))
        installed = [(module, path) for module, path in installed_files().items() if path is not None]
        for module in installed_files().keys() - dict(installed).keys():
            error = f"{module}: an installed package declares this plug-in, but the module does not exist"
            yield ScannedFile(Path(module), error=error)
        for module, path in [*user_files(), *installed]:
            if self._has_changed(path, None):
                user_modules.paths[module] = path
                yield _scan_python(path, module)
        for kind in BUILTIN_FOLDERS:
            for path in user_assets(kind):
                if self._has_changed(path, kind):
                    yield _scan_yaml(path, kind)

    def _has_changed(self, path: Path, kind: str | None) -> bool:
        """Return whether a file is new or has changed since it was read, and store its current state."""
        try:
            status = path.stat()
            signature = status.st_mtime_ns, status.st_size
        except OSError:  # reading the file will report the error
            signature = (-1, -1)
        changed = self._signatures.get(path) != signature
        self._signatures[path], self._kinds[path] = signature, kind
        return changed

    def snapshot(self) -> dict[str, Any]:
        """Return the state for `restore`."""
        names = ("_folder_key", "_signatures", "_kinds")
        state = {name: copy.copy(getattr(self, name)) for name in names}
        return {**state, "modules": {name: copy.copy(value) for name, value in vars(user_modules).items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Return to the state of a `snapshot`."""
        vars(user_modules).update(state["modules"])
        vars(self).update({name: value for name, value in state.items() if name != "modules"})


def _folder_key() -> tuple[str, str, frozenset[Path]]:
    """Return the current folder, the script and the excluded folders, which determine the user's folders."""
    try:
        current = os.getcwd()  # noqa: PTH109  (in every look-up, and faster than Path.cwd)
    except FileNotFoundError:  # the current folder was removed
        current = ""
    return current, sys.argv[0] if sys.argv else "", user_modules.excluded


def _scan_python(path: Path, module: str) -> ScannedFile:
    try:
        return ScannedFile(path, None, module, tuple(source_names(path)))
    except (SyntaxError, ValueError, OSError) as error:
        return ScannedFile(path, error=f"{place_of(error) or path}: {type(error).__name__}: {error}")


def _scan_yaml(path: Path, kind: str) -> ScannedFile:
    try:
        return ScannedFile(path, kind, components=(SourceName(kind, path.stem, first_comment(path)),))
    except (ValueError, OSError) as error:
        return ScannedFile(path, kind, error=f"{path}: {type(error).__name__}: {error}")


def first_comment(path: Path) -> str:
    """Return the comment in the first line of a YAML file, which is its help; empty without a comment."""
    if not path.is_file() and path.exists():  # reading a pipe would block, and a device may be endless
        raise OSError("it is not a regular file")
    with path.open(encoding="utf-8") as file:
        line = file.readline()
    return line.lstrip("# ").rstrip() if line.startswith("#") else ""
