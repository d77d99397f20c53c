"""The user's `algos/`, `envs/` and `strategies/` folders and installed plug-ins: paths, imports, and lines of errors.

A user's file is imported under a stable module name, e.g. `mygym_user.algos.NAME`, so that pickles and other processes
can import it again. Its imports of the files beside it, relative or not (`from .parts import x`, `from parts import x`,
`from algos.parts import x`), find the same modules. Nothing is imported from a run directory or a folder in it, because
its author may be unknown.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.metadata import entry_points
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from mygym.errors import MygymError, RegistryError, bad_value, did_you_mean
from mygym.registry.entries import ASSETS, BUILTIN_FOLDERS
from mygym.registry.signatures import of_library, parameters

PACKAGE = "mygym_user"
FOLDERS = ("algos", "envs", "strategies")
IMPORTED = "imported"
"""Subpackage of the files of `--import FILE` that are in none of the `FOLDERS`."""
ENTRY_POINT_GROUP = "mygym"
RUN_FILES = ("result.json", "progress.jsonl", "policy.safetensors", "best_policy.safetensors")
"""Files by which a run directory is recognised."""
YAML_SUFFIXES = (".yaml", ".yml")
"""Suffixes of descriptions of robots, workspaces and objects; two files of a folder with one stem are refused."""
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


def user_files() -> dict[str, Path]:
    """Return module name → path of every user file; if two files have the same name, the first folder wins."""
    files: dict[str, Path] = {}
    for folder in user_folders():
        for path in _python_files(folder):
            files.setdefault(_module_name(folder, path), path)
    return files


def _module_name(folder: Path, path: Path) -> str:
    """Return the stable name of a Python file below one of the `FOLDERS`; `__init__.py` of a subfolder names it."""
    parts = path.relative_to(folder).with_suffix("").parts
    return ".".join((PACKAGE, folder.name, *(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)))


def user_assets(kind: str) -> Iterable[Path]:
    """Return the user's YAML files of a kind, e.g. `envs/robots/arm.yaml`; for equal names the first folder wins."""
    files: list[Path] = []
    for folder in (each / BUILTIN_FOLDERS[kind] for each in user_folders() if each.name == "envs"):
        known = {path.stem for path in files}
        files += [path for suffix in YAML_SUFFIXES for path in _named(folder, suffix) if path.stem not in known]
    return files


def _python_files(folder: Path) -> Iterator[Path]:
    """Yield the Python files of a folder and its subfolders whose names are public identifiers."""
    for parent, subfolders, _ in os.walk(folder):
        subfolders[:] = sorted(name for name in subfolders if _is_public(name) and not _is_refused(Path(parent, name)))
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


def check_regular(path: Path) -> None:
    """Raise `RegistryError` for a pipe, whose reading would block, and a device, which may be endless."""
    if not path.is_file() and path.exists():
        raise RegistryError(f"{path}: it is not a regular file")


def read_text(path: Path) -> str:
    """Return the text of a user's file; raise `RegistryError` if it cannot be read, or is not text."""
    try:
        check_regular(path)
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise RegistryError(f"{path}: {type(error).__name__}: {error}") from error


def first_comment(path: Path) -> str:
    """Return the comment in the first line of a YAML file, which is its help; empty without a comment."""
    line = read_text(path).partition("\n")[0]
    return line.lstrip("# ").rstrip() if line.startswith("#") else ""


def user_folder_key() -> tuple[str, str, frozenset[Path]]:
    """Return the current folder, the script and the excluded folders, which determine the user's folders."""
    try:
        current = os.getcwd()  # noqa: PTH109  (in every look-up, and faster than Path.cwd)
    except FileNotFoundError:  # the current folder was removed
        current = ""
    return current, sys.argv[0] if sys.argv else "", user_modules.excluded


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
        self.second_names: frozenset[str] = frozenset()
        """Names other than `mygym_user.…` under which files have imported the files beside them."""

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
        """Return the spec of a module in `mygym_user`, or of a file beside the user's file that imports it."""
        if fullname in {PACKAGE, *(f"{PACKAGE}.{name}" for name in (*FOLDERS, IMPORTED))}:
            return ModuleSpec(fullname, None, is_package=True)
        if fullname.startswith(f"{PACKAGE}."):
            return self._user_spec(fullname)
        package = _importing_package()
        names = [f"{parent}.{fullname}" for parent in _parents(package)] if package else []
        if package and fullname.partition(".")[0] in FOLDERS:
            names.append(f"{PACKAGE}.{fullname}")
        for name in names:
            if (spec := self.find_spec(name)) is not None:
                is_package = spec.submodule_search_locations is not None
                self.second_names |= {fullname}
                return ModuleSpec(fullname, _SameModule(name), is_package=is_package)
        return None

    def _user_spec(self, fullname: str) -> ModuleSpec | None:
        """Return the spec of a file or a subfolder of the user; files that begin with `_` can be imported, too."""
        known = self.paths.get(fullname)
        if known is not None and known.name != "__init__.py":
            return _spec_of(fullname, known)
        _, folder, *parts = fullname.split(".")
        for root in self._roots(folder):
            path = root.joinpath(*parts)
            if self.excludes(path) or _is_refused(path):
                continue
            if path.with_suffix(".py").is_file():
                return _spec_of(fullname, path.with_suffix(".py"))
            if (path / "__init__.py").is_file():
                return _spec_of(fullname, path / "__init__.py", submodule_search_locations=[])
            if path.is_dir():
                return ModuleSpec(fullname, None, is_package=True)
        return None

    def _roots(self, folder: str) -> dict[Path, None]:
        """Return the folders whose files are modules of `mygym_user.FOLDER`, the first of which wins."""
        roots = dict.fromkeys(path for path in user_folders() if path.name == folder)
        for module, path in self.paths.items():
            parts = module.split(".")
            if parts[:2] == [PACKAGE, folder]:
                depth = len(parts) - 3 + (path.name == "__init__.py" and parts[-1] != "__init__")
                roots.setdefault(path.parents[depth])
        return roots

    def forget_second_names(self) -> None:
        """Let the next file that imports `parts` find the file beside it, not that of another folder."""
        for name in self.second_names:
            sys.modules.pop(name, None)
        self.second_names = frozenset()

    def install(self) -> None:
        """Let `import` and unpickling find the user's modules."""
        if self not in sys.meta_path:
            sys.meta_path.append(self)


user_modules = UserModules()


class _SourceLoader(SourceFileLoader):
    """Loader of a user's file: Python's cache would return the former text of a file that changes within a second."""

    def get_code(self, fullname: str) -> CodeType:
        """Compile the file."""
        return self.source_to_code(self.get_data(self.path), self.path)


def _spec_of(fullname: str, file: Path, **options: Any) -> ModuleSpec | None:
    loader = _SourceLoader(fullname, str(file))
    return importlib.util.spec_from_file_location(fullname, file, loader=loader, **options)


class _SameModule(Loader):
    """Loader of a second name of a user's module, e.g. `parts` for `mygym_user.algos.parts`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module, imported under its stable name."""
        module = importlib.import_module(self.name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the spec, which the import system has replaced."""
        module.__spec__ = self.spec


_IMPORT_SYSTEM = ("importlib", "_frozen_importlib", "_frozen_importlib_external")
"""Packages whose frames are between the file that imports a module and the import hook."""


def _importing_package() -> str:
    """Return the package in `mygym_user` of the file that imports now; empty if it is not a file of the user."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _imports(str(frame.f_globals.get("__name__"))):
        frame = frame.f_back
    package = "" if frame is None else str(frame.f_globals.get("__package__"))
    return package if package.startswith(f"{PACKAGE}.") else ""


def _imports(module: str) -> bool:
    """Return whether a module is the import hook, or part of the import system."""
    return module == __name__ or module.partition(".")[0] in _IMPORT_SYSTEM


def _parents(package: str) -> list[str]:
    """Return a package in `mygym_user` and the packages that contain it, without `mygym_user`."""
    parts = package.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 1, -1)]


on_import: list[Callable[[ModuleType], object]] = []
"""Functions that are called with each user's module after its import."""


def import_modules(names: Sequence[str]) -> list[str]:
    """Import the modules of `--import`: names of modules, which may be in the current folder, or paths of files.

    Returns:
        The names, and the absolute paths, so that another process or a later run finds them from any folder.

    Raises:
        RegistryError: A module or file does not exist or raises an error; the message contains file and line.
    """
    if names and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    for name in names:
        prefix, path = f"--import {name if name.isprintable() else repr(name)}: ", _path_of(name)
        if path is None:
            _import(name, prefix)
        elif path.is_file():
            execute(_module_of(path), path, prefix)
        else:
            raise RegistryError(bad_value("--import", name, "a module, or the path of a Python file", "is not a file"))
    return [str(_path_of(name) or name) for name in names]


def is_imported(name: str) -> bool:
    """Return whether this process has imported a module of `--import`: this file, and no other of the same name."""
    path = _path_of(name)
    if path is None:
        return name in sys.modules
    return getattr(sys.modules.get(_module_of(path)), "__file__", None) == str(path)


def _path_of(name: str) -> Path | None:
    """Return the path of a file of `--import`; None for the name of a module."""
    return Path(name).expanduser().absolute() if name.endswith(".py") else None


def _module_of(path: Path) -> str:
    """Return the name under which a file of `--import` is imported."""
    folder = next((parent for parent in path.parents if parent.name in FOLDERS), None)
    if folder is None or any("." in part for part in path.relative_to(folder).with_suffix("").parts):
        return f"{PACKAGE}.{IMPORTED}.{path.stem.replace('.', '_')}"
    return _module_name(folder, path)


def execute(module: str, path: Path, prefix: str = "") -> None:
    """Import a user's file under its stable name; the message of an error begins with `prefix`.

    Raises:
        RegistryError: The file raises an error (the message has file and line), or another file has this module name.
    """
    loaded = getattr(sys.modules.get(module), "__file__", None)
    if loaded is not None and Path(loaded) != path:
        why = f"{loaded} was imported as {module} already; rename a file or restart Python"
        raise RegistryError(f"{prefix or f'{path}: '}{why}")
    user_modules.paths[module] = path
    _import(module, prefix, f"{path}: ")


def _known_arguments(error: TypeError) -> str:
    """Return the arguments that a class or function of this package takes, after a call with another keyword."""
    match = re.search(r"(\w+)(\.__init__)?\(\) got an unexpected keyword argument '(\w+)'", str(error))
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if not _is_library(_file_of(frame))]
    called = frames[-1].f_globals.get(match[1]) if match and frames else None
    if match is None or not callable(called) or not of_library(called):
        return ""
    names = list(parameters(called))
    return f"; allowed: {', '.join(names)}{did_you_mean(match[3], names)}"


def _import(module: str, prefix: str, otherwise: str = "") -> None:
    """Import a user's module; `prefix` begins messages, `otherwise` is the place of an error without a line."""
    try:
        imported = importlib.import_module(module)
        for receive in on_import:
            receive(imported)
    except (Exception, SystemExit) as error:  # also of a script that ends itself
        place = f"{at}: " if (at := place_of(error)) else otherwise
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, MygymError):
            text = str(error)
        elif isinstance(error, NameError) and error.name == "env":
            text += '; write "env" with quotes: it stands for the environment of the run'
        elif isinstance(error, TypeError):
            text += _known_arguments(error)
        raise RegistryError(f"{prefix}{place}{text}") from error
    finally:
        user_modules.forget_second_names()


def place_of(error: BaseException) -> str:
    """Return `file:line` of the innermost line of the user's code that has raised an error; empty without one.

    The user's code is every file outside this package, Python and the installed packages, and every plug-in. If no line
    of it has raised the error itself, its cause is searched. Errors of runs, such as the death of a process, are
    not mistakes of the lines that they pass.
    """
    cause: BaseException | None = error
    for _ in range(20):  # an error may be its own context
        if cause is None:
            break
        if isinstance(cause, SyntaxError) and cause.filename and not _is_library(cause.filename):
            return f"{cause.filename}:{cause.lineno or 1}"
        if not isinstance(cause, MygymError) or cause.exit_code == MygymError.exit_code:
            frames = list(traceback.walk_tb(cause.__traceback__))
            for index, (frame, line) in enumerate(reversed(frames)):
                if not _is_library(_file_of(frame)) and (index == 0 or not _is_entry_point(frame)):
                    return f"{_file_of(frame)}:{line}"
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return ""


def located(text: str, error: BaseException) -> str:
    """Return the message of an error with the `place_of` the error, unless the message has it."""
    place = place_of(error)
    return f"{text} ({place})" if place and place not in text else text


def _is_entry_point(frame: FrameType) -> bool:
    """Return whether a frame is the script itself, or `train` of a copy of train.py, through which every run goes."""
    name = frame.f_code.co_qualname.partition(".")[0]
    return frame.f_globals.get("__name__") == "__main__" and name in ("<module>", "train")


def _file_of(frame: FrameType) -> str:
    return frame.f_code.co_filename


@cache
def _is_library(file: str) -> bool:
    """Return whether a file is part of this package, of Python or of an installed package that is not a plug-in."""
    path = Path(file)
    if path in installed_files().values():
        return False
    packages, paths = {"site-packages", "dist-packages"}, sysconfig.get_paths()
    folders = (ASSETS.parent, *(Path(paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")))
    return not path.is_file() or not packages.isdisjoint(path.parts) or any(map(path.is_relative_to, folders))
