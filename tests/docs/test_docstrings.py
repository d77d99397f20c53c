"""The docstrings of all names on the page of the API are complete."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from docstring_parser.google import parse

from tests.docs.documents import ROOT

PAGES = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("api.md", "api_components.md")]
NAMES = re.findall(r"^\.\. auto\w+:: (\S+)", "\n".join(PAGES), re.M)

FIXED_BY = ("gymnasium.core", "stable_baselines3.common.base_class", "typing", "builtins")
"""Modules whose methods define the arguments of the methods that override them."""


def find(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the name of each function, and of each public method that a class itself defines, with the function."""
    for name in NAMES:
        target = find(name)
        if not inspect.isclass(target):
            yield name, target
            continue
        for key, member in vars(target).items():
            function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            inherited = any(key in vars(base) for base in target.__mro__[1:] if base.__module__ in FIXED_BY)
            if inspect.isfunction(function) and not key.startswith("_") and not inherited:
                yield f"{name}.{key}", function


def raised(function: Callable[..., Any]) -> set[str]:
    """Return the names of the exceptions that the code of a function raises and does not handle itself."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    tried = [statement for node in ast.walk(tree) if isinstance(node, ast.Try) for statement in node.body]
    handled = {id(node) for statement in tried for node in ast.walk(statement)}
    statements = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and id(node) not in handled]
    classes = [statement.func if isinstance(statement, ast.Call) else statement for statement in statements]
    names = {node.id for node in classes if isinstance(node, ast.Name) and node.id[0].isupper()}
    return names - {"NotImplementedError"}


def missing(function: Callable[..., Any]) -> list[str]:
    """Return the parts that a docstring lacks."""
    text = parse(inspect.getdoc(function) or "")
    signature = inspect.signature(function)
    documented = {name.strip("*`") for part in text.params for name in part.arg_name.split(",")}
    lacks = [f"Args: {name}" for name in signature.parameters if name not in {"self", "cls", "_", *documented}]
    returns = str(signature.return_annotation) not in ("None", "NoReturn")
    if (
        returns
        and not text.returns
        and not re.match(r"(Return|Yield|Whether|Decorator|Class decorator|`\()", text.short_description or "")
    ):
        lacks.append("Returns")
    named = {part.type_name for part in text.raises}
    return lacks + [f"Raises: {name}" for name in sorted(raised(function)) if name not in named]


def test_docstrings_are_complete() -> None:
    """All in a single test: the modules are imported when it runs, and not when tests are collected."""
    assert {name: lacks for name, function in functions() if (lacks := missing(function))} == {}
    assert [name for name in NAMES if not inspect.getdoc(find(name))] == []
