"""Filling of templates; config and test of every kind."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template

from mygym.cli.new.request import Request
from mygym.errors import ConfigError, bad_value


def template(file: str) -> str:
    """Return the text of a template."""
    return (files("mygym.cli.new") / "templates" / f"{file}.template").read_text(encoding="utf-8")


def fill(file: str, request: Request, /, **values: str) -> str:
    """Return a template with the placeholders `$name`, `$class_name` and `values` replaced."""
    return Template(template(file)).substitute(name=request.name, class_name=request.cls, **values)


def fill_class(file: str, request: Request, /, **values: str) -> str:
    """Return a template in which the class has the name given in the request.

    Raises:
        ConfigError: The file or Python already uses this name for another object.
    """
    code = fill(file, request, **values)
    taken = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    } | {"BASE"}
    if request.cls in taken or hasattr(builtins, request.cls):
        raise ConfigError(bad_value("--class", request.cls, "another name", "is another object in the file"))
    return code


def config_file(request: Request, values: Mapping[str, str], help: str) -> dict[str, str]:
    """Return path and content of a config.

    Args:
        request: The component.
        values: Key → value as YAML.
        help: One sentence for the file's header.
    """
    path = f"configs/{request.name}.yaml"
    header = [f"# {train_command(request.folder)} --config {path}", f"# {help} --explain prints all keys."]
    return {path: "\n".join([*header, *(f"{key}: {value}" for key, value in values.items()), "seed: 0"]) + "\n"}


def checks_test(kind: str, request: Request, arguments: str = "") -> str:
    """Return a test function that runs the checks of a kind.

    Args:
        kind: Kind in the registry.
        request: The component.
        arguments: Further arguments of `check`, each after a comma.
    """
    return fill("test_checks.py", request, kind=kind, arguments=arguments)


def test_file(request: Request, tests: str, imports: Mapping[str, str]) -> dict[str, str]:
    """Return path and content of a test module.

    Args:
        request: The component.
        tests: Test functions, in addition to the function that trains the config.
        imports: Module → name that the test functions import.
    """
    lines = {"mygym.config": "load_file", **imports}
    third_party = [f"from {module} import {name}" for module, name in lines.items() if not module.startswith("mygym")]
    package_imports = [f"from {module} import {name}" for module, name in lines.items() if module.startswith("mygym")]
    text = fill(
        "test.py",
        request,
        tests=tests,
        third_party="\n".join(["import pytest", *sorted(third_party)]),
        mygym_imports="\n".join(sorted(package_imports)),
    )
    return {f"tests/test_{request.name}.py": text}


def checks_test_file(request: Request, *tests: str) -> dict[str, str]:
    """Return a test module with functions from `checks_test`."""
    return test_file(request, "\n\n".join(tests), {"mygym.checks": "check"})


def env_test_file(request: Request) -> dict[str, str]:
    """Return a test module that validates the environment of the config."""
    return test_file(request, fill("test_env.py", request), {"gymnasium.utils.env_checker": "check_env"})


def train_command(folder: Path) -> str:
    """Return the command that trains in a folder."""
    return "python train.py" if (folder / "train.py").is_file() else "mygym train"
