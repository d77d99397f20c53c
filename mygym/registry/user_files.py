"""The user's `algos/`, `envs/` and `strategies/` folders and installed plug-ins: paths of their files, and imports.

A user's file is imported under a stable module name, e.g. `mygym_user.algos.NAME`, so that pickles and worker processes
can import it again. Nothing is imported from a run directory or a folder in it, because its author may be unknown.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from mygym.errors import RegistryError
from mygym.registry.builtins import ASSETS, BUILTIN_FOLDERS

PACKAGE = "mygym_user"
FOLDERS = ("algos", "envs", "strategies")
ENTRY_POINT_GROUP = "mygym"
RUN_FILES = ("result.json", "progress.jsonl", "policy.safetensors", "best_policy.safetensors")
"""Files by which a run directory is recognised."""
WEIGHTS = (".safetensors", ".zip")
"""Suffixes of policies and SB3 models, which make a folder with a `config.yaml` a run directory."""


def user_folders() -> list[Path]:
    """Return the existing `FOLDERS`: those in the current folder, then those beside the script."""
    return [folder for folder in _existing_folders() if not _is_refused(folder.parent)]


def unread_folders() -> list[Path]:
    """Return the existing `FOLDERS` that are not read, because they are in a run directory or a dataset."""
    return [folder for folder in _existing_folders() if _is_refused(folder.parent)]


def _existing_folders() -> list[Path]:
    try:
        current = Path.cwd()
    except FileNotFoundError:  # the current folder was removed
        return []
    script = sys.argv[0] if sys.argv else ""
    parents = dict.fromkeys((current, _script_folder(script, current) if script else current))
    present = [parent / name for parent in parents for name in FOLDERS if (parent / name).is_dir()]
    return [folder for folder in present if folder.parent.resolve() != ASSETS.parent]  # mygym itself has such folders


@cache
def _script_folder(script: str, current: Path) -> Path:
    """Return the folder of a script that was started in the folder `current`."""
    return (current / script).resolve().parent


def _is_refused(folder: Path) -> bool:
    """Return whether a folder is a run directory: it was opened as such, or has a run's files, or config and weights.

    Its author may be unknown, so code in it is never imported.
    """
    if user_modules.excludes(folder):
        return True
    if any((folder / file).exists() for file in RUN_FILES) or any(folder.glob("checkpoints/step_*/manifest.json")):
        return True
    weights = any(any(folder.glob(f"*{suffix}")) for suffix in WEIGHTS)
    return weights and (folder / "config.yaml").exists()


def user_files() -> Iterator[tuple[str, Path]]:
    """Yield `(module name, path)` of every user file; if two files have the same name, the first folder wins."""
    seen: set[str] = set()
    for folder in user_folders():
        for path in _python_files(folder):
            name = ".".join((PACKAGE, folder.name, *path.relative_to(folder).with_suffix("").parts))
            if name not in seen:
                seen.add(name)
                yield name, path


def user_assets(kind: str) -> Iterator[Path]:
    """Yield the user's YAML files of a kind, e.g. `envs/robots/arm.yaml`; for equal names the first folder wins."""
    seen: set[str] = set()
    for folder in user_folders() if kind in BUILTIN_FOLDERS else ():
        for path in _named(folder / BUILTIN_FOLDERS[kind], ".yaml") if folder.name == "envs" else ():
            if path.stem not in seen:
                seen.add(path.stem)
                yield path


def _python_files(folder: Path) -> Iterator[Path]:
    """Yield the Python files of a folder and its subfolders whose names are public identifiers."""
    for parent, subfolders, _ in os.walk(folder):
        subfolders[:] = sorted(name for name in subfolders if _is_public(name))
        if (Path(parent) / "__init__.py").is_file():
            yield Path(parent) / "__init__.py"
        yield from _named(Path(parent), ".py")


def _is_public(name: str) -> bool:
    return name.isidentifier() and not name.startswith("_")


def _named(folder: Path, suffix: str) -> Iterator[Path]:
    """Yield the files whose stems are public identifiers, sorted; none if the folder is missing or unreadable."""
    for path in sorted(folder.glob(f"*{suffix}")):
        if _is_public(path.stem):
            yield path


@cache
def installed_files() -> dict[str, Path | None]:
    """Module name → path of the plug-ins of installed packages, without importing them; None if the file is missing."""
    return {point.module: _module_file(point.module) for point in entry_points(group=ENTRY_POINT_GROUP)}


def _module_file(module: str) -> Path | None:
    """Return the source file of an installed module without importing it."""
    package, *inner = module.split(".")
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    folders = list((spec.submodule_search_locations if spec else None) or [])
    files = [Path(folder, *inner).with_suffix(".py") for folder in folders if inner]
    files += [Path(folder, *inner, "__init__.py") for folder in folders]
    files += [Path(spec.origin)] if spec and spec.origin and not inner else []
    return next((path for path in files if path.is_file()), None)


class UserModules(MetaPathFinder):
    """Import hook that resolves `mygym_user.…` to the user's files."""

    def __init__(self) -> None:
        self.paths: dict[str, Path] = {}
        """Module name → path of the files that were scanned; they stay importable after the current folder changes."""
        self.excluded: frozenset[Path] = frozenset()
        """Folders of runs and datasets that this process has opened."""

    def exclude(self, folder: Path) -> None:
        """Import nothing from a folder from now on, or from a folder in it."""
        self.excluded |= {folder.resolve()}
        self.paths = {module: path for module, path in self.paths.items() if not self.excludes(path)}

    def excludes(self, path: Path) -> bool:
        """Return whether a path is in a folder from which nothing is imported."""
        resolved = path.resolve()
        return not self.excluded.isdisjoint((resolved, *resolved.parents))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of `mygym_user`, its subpackages and the modules in them; None for any other module."""
        if fullname == PACKAGE or fullname in {f"{PACKAGE}.{name}" for name in FOLDERS}:
            return ModuleSpec(fullname, None, is_package=True)
        if not fullname.startswith(f"{PACKAGE}."):
            return None
        files = dict(user_files()) | self.paths
        if fullname in files:
            return importlib.util.spec_from_file_location(fullname, files[fullname])
        is_package = any(name.startswith(f"{fullname}.") for name in files)
        return ModuleSpec(fullname, None, is_package=True) if is_package else None

    def install(self) -> None:
        """Let `import` and unpickling find the user's modules."""
        if self not in sys.meta_path:
            sys.meta_path.append(self)


user_modules = UserModules()


def import_modules(names: Sequence[str]) -> None:
    """Import the modules of `--import`, which may be in the current folder.

    Raises:
        RegistryError: A module does not exist or raises an error; the message contains file and line.
    """
    if names and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            hint = f"; did you mean --import {name[:-3]}?" if name.endswith(".py") else ""
            shown = name if name.isprintable() else repr(name)
            raise RegistryError(f"--import {shown}: {_location(error)}{type(error).__name__}: {error}{hint}") from error


def _location(error: Exception) -> str:
    """Return `file:line: ` of an error during an import; empty if the module does not exist."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: "
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    return "" if frames[-1].filename == __file__ else f"{frames[-1].filename}:{frames[-1].lineno}: "


def execute(module: str, path: Path) -> None:
    """Import a user's file under its stable name.

    Raises:
        RegistryError: The file raises an error (the message has file and line), or another file has this module name.
    """
    loaded = getattr(sys.modules.get(module), "__file__", None)
    if loaded is not None and Path(loaded) != path:
        raise RegistryError(f"{path}: {loaded} was imported as {module} already; rename a file or restart Python")
    user_modules.paths[module] = path
    try:
        importlib.import_module(module)
    except Exception as error:
        line = error_line(path, error)
        raise RegistryError(f"{path}:{line}: {type(error).__name__}: {error}") from error


def error_line(path: Path, error: BaseException) -> int:
    """Return the line of a file in which an error was raised; 0 if it was raised elsewhere."""
    if isinstance(error, SyntaxError):
        return error.lineno or 0
    lines = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return lines[-1] if lines else 0
