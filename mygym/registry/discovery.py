"""`Scanner` finds the components in the user's folders and in installed plug-ins without executing any of them."""

from __future__ import annotations

import ast
import copy
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mygym.registry.builtins import BUILTIN_FOLDERS, FRAMEWORK_KINDS, KINDS
from mygym.registry.user_files import installed_files, place_of, user_assets, user_files, user_modules


@dataclass(frozen=True)
class SourceName:
    """A registration in the source of a file."""

    kind: str
    name: str
    help: str = ""
    override: bool = False
    frameworks: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    class_name: str = ""
    """Name of the class or function that the call decorates; empty if it decorates none."""


def source_names(path: Path) -> Iterator[SourceName]:
    """Yield the registrations of a file.

    Calls `register_KIND("name", …)`, also as decorators, and the forms of `implemented_combos` are recognised:
    `implemented_combos["name"] = …`, `implemented_combos = {"name": …}`, `implemented_combos |= {"name": …}`,
    `implemented_combos.update({"name": …})` and `implemented_combos.setdefault("name", …)`. The name is empty if it is
    not a string in the source.

    Raises:
        SyntaxError, ValueError, OSError: The file cannot be read.
    """
    if not path.is_file() and path.exists():  # reading a pipe would block, and a device may be endless
        raise OSError("it is not a regular file")
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    decorated = {
        id(decorator): node
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        for decorator in node.decorator_list
    }
    file_doc = (ast.get_docstring(tree) or "").partition("\n")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            name = _text(node.args[:1])
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            kind = called.removeprefix("register_")
            if kind != called and kind in KINDS:
                keywords = {k.arg: k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)}
                component = decorated.get(id(node))
                doc = (ast.get_docstring(component) or "").partition("\n")[0] if component else ""
                help = str(keywords.get("help") or doc or file_doc)
                framework = str(keywords.get("framework") or _text(node.args[1:2]) or "pytorch")
                frameworks = (framework,) if kind in FRAMEWORK_KINDS else ()
                listed = next((k.value for k in node.keywords if k.arg == "aliases"), None)
                aliases = tuple(_text([item]) for item in getattr(listed, "elts", ()))
                class_name = component.name if component else ""
                yield SourceName(kind, name, help, keywords.get("override") is True, frameworks, aliases, class_name)
        for key, value in _combos(node):
            yield SourceName("algorithm", _text([key]), file_doc, False, tuple(_text([each]) for each in _keys(value)))


def _combos(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield name and value of the algorithms that a statement or a call writes into `implemented_combos`."""
    targets, value = [], getattr(node, "value", None)
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        targets = [node.target]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_combos(node.func.value):
        if node.func.attr == "setdefault" and len(node.args) == 2:
            yield node.args[0], node.args[1]
        if node.func.attr == "update" and node.args:
            targets, value = [node.func.value], node.args[0]
    for target in targets:
        if isinstance(target, ast.Subscript) and _is_combos(target.value) and value is not None:
            yield target.slice, value
        elif _is_combos(target) and isinstance(value, ast.Dict):
            yield from ((key, item) for key, item in zip(value.keys, value.values, strict=True) if key is not None)


def _is_combos(node: ast.expr) -> bool:
    return (getattr(node, "id", "") or getattr(node, "attr", "")) == "implemented_combos"


def _keys(value: ast.expr) -> list[ast.expr]:
    return [key for key in value.keys if key is not None] if isinstance(value, ast.Dict) else []


def _text(nodes: Sequence[ast.expr]) -> str:
    """Return the first node if it is a string constant, else an empty string."""
    value = nodes[0].value if nodes and isinstance(nodes[0], ast.Constant) else ""
    return value if isinstance(value, str) else ""


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
