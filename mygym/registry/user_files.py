"""Finds the user's own `algos/` and `envs/`, and installed entry points, without executing any of them.

Files are read for the names they register and executed when one of these is used, under the stable module names
`mygym_user.algos.NAME` and `mygym_user.envs.NAME`: so pickles and worker processes find them again. YAML files in
`envs/robots/`, `envs/workspaces/` and `envs/objects/` are components under their stems, as in `mygym/assets/`.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from mygym.errors import RegistryError
from mygym.registry import BUILTIN_FOLDERS, REGISTRIES, Deferred, Entry, first_comment, registered_twice

PACKAGE = "mygym_user"
FOLDERS = ("algos", "envs")
ENTRY_POINT_GROUP = "mygym"
WITH_FRAMEWORKS = ("algorithm", "policy", "features_extractor", "activation", "optimizer")
"""Kinds whose components belong to a framework."""


def user_folders() -> list[Path]:
    """The user's `algos` and `envs`: in the current folder, then beside the script that runs, each folder once."""
    here, found = Path.cwd(), []
    for place in dict.fromkeys((here, _script_folder(sys.argv[0], here) if sys.argv and sys.argv[0] else here)):
        folders = [place / name for name in FOLDERS if (place / name).is_dir()]
        if folders and not _is_run(place):  # asked last: each look-up of a name comes here
            found += [folder for folder in folders if not (folder / "__init__.py").exists()]
    return found


@cache
def _script_folder(script: str, here: Path) -> Path:
    """Where a script is that was started in the folder `here`."""
    return (here / script).resolve().parent


def _is_run(place: Path) -> bool:
    """Whether a folder is a run, which may be a stranger's: who stands in one did not come for the code in it."""
    files = ("result.json", "progress.jsonl", "policy.safetensors", "best_policy.safetensors")
    return any((place / file).exists() for file in files) or any(place.glob("checkpoints/step_*/manifest.json"))


def user_files() -> Iterator[tuple[str, Path]]:
    """`(module name, path)` of every user file; of two with one name the first place wins."""
    seen: set[str] = set()
    for folder in user_folders():
        for path in _named(folder, ".py"):
            name = f"{PACKAGE}.{folder.name}.{path.stem}"
            if name not in seen:
                seen.add(name)
                yield name, path


def user_assets(kind: str) -> Iterator[Path]:
    """The user's YAML files of a kind, e.g. `envs/robots/arm.yaml`; of two with one name the first place wins."""
    seen: set[str] = set()
    for folder in user_folders() if kind in BUILTIN_FOLDERS else ():
        for path in _named(folder / BUILTIN_FOLDERS[kind], ".yaml") if folder.name == "envs" else ():
            if path.stem not in seen:
                seen.add(path.stem)
                yield path


def _named(folder: Path, suffix: str) -> Iterator[Path]:
    """Files whose stems can be names, sorted; none of a folder that is not there or may not be read."""
    for path in sorted(folder.glob(f"*{suffix}")):
        if path.stem.isidentifier() and not path.stem.startswith("_"):
            yield path


@dataclass(frozen=True)
class Found:
    """What a file registers, as far as its source tells."""

    kind: str
    name: str
    help: str = ""
    override: bool = False
    frameworks: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


def names_in(path: Path) -> Iterator[Found]:
    """What a file registers, read from its source without executing it.

    Seen are calls `register_KIND("name", …)` (also as decorators) and `implemented_combos["name"] = …`.

    Raises:
        SyntaxError, ValueError, OSError: The file cannot be read.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    docs = {
        id(decorator): (ast.get_docstring(node) or "").partition("\n")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        for decorator in node.decorator_list
    }
    file_doc = (ast.get_docstring(tree) or "").partition("\n")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := _text(node.args[:1])):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            kind = called.removeprefix("register_")
            if kind != called and kind in REGISTRIES:
                keywords = {k.arg: k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)}
                help = str(keywords.get("help") or docs.get(id(node)) or file_doc)
                framework = str(keywords.get("framework") or _text(node.args[1:2]) or "pytorch")
                frameworks = (framework,) if kind in WITH_FRAMEWORKS else ()
                listed = next((k.value for k in node.keywords if k.arg == "aliases"), None)
                aliases = tuple(_text([item]) for item in getattr(listed, "elts", ()))
                yield Found(kind, name, help, keywords.get("override") is True, frameworks, aliases)
        elif isinstance(node, ast.Assign):
            keys = node.value.keys if isinstance(node.value, ast.Dict) else []
            for target in node.targets:
                if (
                    isinstance(target, ast.Subscript)
                    and (getattr(target.value, "id", "") or getattr(target.value, "attr", "")) == "implemented_combos"
                    and (name := _text([target.slice]))
                ):
                    yield Found("algorithm", name, file_doc, False, tuple(_text([key]) for key in keys if key))


def _text(nodes: Sequence[ast.expr]) -> str:
    """The string that a lone node is; empty if it is none."""
    value = nodes[0].value if nodes and isinstance(nodes[0], ast.Constant) else ""
    return value if isinstance(value, str) else ""


@cache
def installed_files() -> dict[str, Path]:
    """Module name → path of what installed packages name as entry points, found without importing anything."""
    found: dict[str, Path] = {}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            package, *inner = point.module.split(".")
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):
            spec = None
        places = list((spec.submodule_search_locations if spec else None) or [])
        files = [Path(place, *inner).with_suffix(".py") for place in places if inner]
        files += [Path(place, *inner, "__init__.py") for place in places]
        files += [Path(spec.origin)] if spec and spec.origin and not inner else []
        for path in files:
            if path.is_file():
                found[point.module] = path
                break
        else:
            _missing[point.module] = f"{point.module}: an installed package names this plug-in, but it is not there"
    return found


def discover(kind: str) -> None:
    """Add what the user's files and installed packages register of `kind` to its registry, each file once.

    A file that cannot be parsed, or takes a name without `override=True`, is told of when such a name is asked for.
    """
    _install_finder()
    registry = REGISTRIES[kind]
    installed = installed_files()
    registry.unreadable |= {Path(module): message for module, message in _missing.items()}
    _discover_assets(kind)
    for module, path in [*user_files(), *installed.items()]:
        if (kind, path) in _read:
            continue
        _read.add((kind, path))
        _modules[module] = path
        try:
            found = list(names_in(path))
        except (SyntaxError, ValueError, OSError) as error:
            registry.unreadable[path] = f"{path}:{_line_in(path, error)}: {type(error).__name__}: {error}"
            continue
        for one in found:
            known = registry._entries.get(one.name)
            if one.kind != kind or (known is not None and known.origin.startswith(str(path))):
                continue
            if known is not None and not one.override:
                registry.conflicts[one.name] = registered_twice(kind, one.name, known.origin, str(path))
            else:
                deferred = Deferred(path, execute, one.frameworks)
                registry._entries[one.name] = Entry(kind, one.name, deferred, one.help, str(path))
                registry.aliases |= {alias: one.name for alias in one.aliases if alias not in registry.aliases}


def _discover_assets(kind: str) -> None:
    registry = REGISTRIES[kind]
    for path in user_assets(kind):
        if (kind, path) in _read:
            continue
        _read.add((kind, path))
        known = registry._entries.get(path.stem)
        if known is not None:
            registry.conflicts[path.stem] = registered_twice(kind, path.stem, known.origin, str(path), way_out="")
            continue
        try:
            help = first_comment(path)
        except (ValueError, OSError) as error:
            registry.unreadable[path] = f"{path}: {type(error).__name__}: {error}"
            continue
        registry._entries[path.stem] = Entry(kind, path.stem, path, help, str(path))


def import_modules(names: Sequence[str]) -> None:
    """Import modules that register something, for `--import`; those in the current folder are found as well.

    Raises:
        RegistryError: There is no such module, or it raises; the message has the place in it.
    """
    if names and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            raise RegistryError(f"--import {name}: {_place_of(error)}{type(error).__name__}: {error}") from error


def _place_of(error: Exception) -> str:
    """`file:line: ` of what a module raised when it was imported; empty where it was not found."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: "
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    return "" if frames[-1].filename == __file__ else f"{frames[-1].filename}:{frames[-1].lineno}: "


def execute(path: Path) -> None:
    """Import a user's file under its stable name.

    Raises:
        RegistryError: The file raises; the message has the place in it.
    """
    name = next(name for name, file in [*_modules.items(), *user_files()] if file == path)
    try:
        importlib.import_module(name)
    except Exception as error:
        line = _line_in(path, error)
        raise RegistryError(f"{path}:{line}: {type(error).__name__}: {error}") from error


class _Finder(MetaPathFinder):
    """Resolves `mygym_user.…` to the user's files."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == PACKAGE or fullname in {f"{PACKAGE}.{name}" for name in FOLDERS}:
            return ModuleSpec(fullname, None, is_package=True)
        if fullname.startswith(f"{PACKAGE}."):
            for name, file in [*_modules.items(), *user_files()]:
                if name == fullname:
                    return importlib.util.spec_from_file_location(name, file)
        return None


def _install_finder() -> None:
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


def _line_in(path: Path, error: BaseException) -> int:
    if isinstance(error, SyntaxError):
        return error.lineno or 0
    lines = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return lines[-1] if lines else 0


_read: set[tuple[str, Path]] = set()
_modules: dict[str, Path] = {}
"""What has been found, wherever the process goes afterwards."""
_missing: dict[str, str] = {}


def install() -> None:
    """Let the registries see the user's files, and unpickling find their classes."""
    _install_finder()
    for registry in REGISTRIES.values():
        registry.discover = discover
