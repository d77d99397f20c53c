"""Read the names that a Python file registers from its source, without executing the file."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mygym.registry.builtins import FRAMEWORK_KINDS, KINDS


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
