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

    Calls `register_KIND("name", …)`, also as decorators, and `implemented_combos["name"] = …` are recognised. The name
    is empty if it is not a string in the source.

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
        elif isinstance(node, ast.Assign):
            keys = node.value.keys if isinstance(node.value, ast.Dict) else []
            for target in node.targets:
                if (
                    isinstance(target, ast.Subscript)
                    and (getattr(target.value, "id", "") or getattr(target.value, "attr", "")) == "implemented_combos"
                ):
                    name = _text([target.slice])
                    yield SourceName("algorithm", name, file_doc, False, tuple(_text([key]) for key in keys if key))


def _text(nodes: Sequence[ast.expr]) -> str:
    """Return the first node if it is a string constant, else an empty string."""
    value = nodes[0].value if nodes and isinstance(nodes[0], ast.Constant) else ""
    return value if isinstance(value, str) else ""
