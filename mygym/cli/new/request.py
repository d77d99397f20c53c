"""`Request`: description of a new component from the command line; its names, and templates of its files."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

from mygym.envs.ids import ANY_TASK, env_id
from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.registry import ASSETS, registry
from mygym.registry.user_files import FOLDERS, user_folders
from mygym.tasks.grammar import letters

MAX_LENGTH = 60
"""Maximum length of a name, because names become file names."""


def check_identifier(key: str, name: str) -> None:
    """Refuse a name that is not an identifier or not a file name.

    Args:
        key: Argument or flag, for the message.
        name: The name.

    Raises:
        ConfigError: The name is invalid.
    """
    if keyword.iskeyword(name):
        raise ConfigError(bad_value(key, name, "letters, digits and _", "is a keyword of Python"))
    if not re.fullmatch(rf"[A-Za-z][A-Za-z0-9_]{{0,{MAX_LENGTH - 1}}}", name):
        allowed = f"at most {MAX_LENGTH} letters, digits and _, a letter first"
        raise ConfigError(bad_value(key, name, allowed, "is not a name"))


def check_free(kind: str, name: str) -> None:
    """Refuse a name that is already registered, or that would hide a task.

    Raises:
        ConfigError: The name cannot be used.
    """
    if name in registry(kind):
        try:
            origin = registry(kind).get(name).origin
        except RegistryError as error:  # the file of this name cannot be imported
            origin = str(error)
        raise ConfigError(bad_value("name", name, "a new name", f"is a registered {kind} already ({origin})"))
    if kind != "task":
        return
    if set(name) <= letters().keys():
        why = "is a composition of stages by their letters"
        raise ConfigError(bad_value("name", name, "a name that is not a string of stages' letters", why))
    ids = {env_id(task): task for task in registry("task").names()} | {ANY_TASK: "any task"}
    if env_id(name) in ids:
        why = f"would have the environment id {env_id(name)}, which belongs to {ids[env_id(name)]}"
        raise ConfigError(bad_value("name", name, "a name with a new environment id", why))


def check_folder(folder: Path) -> None:
    """Refuse a folder in which the registry does not look for components.

    Raises:
        ConfigError: The folder is a run directory.
    """
    for name in FOLDERS:
        if (folder / name).is_dir() and folder / name not in user_folders():
            why = "is a run directory, where components are not looked up"
            raise ConfigError(bad_value("folder", str(folder), "the folder of train.py, or an empty folder", why))


def class_name(name: str) -> str:
    """Return a name in CamelCase: `my_algo` → `MyAlgo`."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))


@dataclass(frozen=True)
class Request:
    """Description of a new component."""

    name: str
    folder: Path
    """Folder for `algos/`, `envs/`, `configs/` and `tests/`, which are created if missing."""
    class_name: str | None = None
    """Name of the class; None: the component's name in CamelCase."""
    base: str | None = None
    """Base algorithm of an algorithm or a policy; None: ppo."""
    framework: str = "pytorch"
    """Framework of the base."""
    urdf: Path | None = None
    """URDF file of a robot or an object; None: the template."""
    policy: Path | None = None
    """Exported policy of a ROS 2 node."""

    @property
    def cls(self) -> str:
        """Name of the class."""
        return self.class_name or class_name(self.name)


def template(file: str) -> str:
    """Return the text of a template."""
    return (files("mygym.cli.new") / "templates" / f"{file}.template").read_text(encoding="utf-8")


def example(file: str, names: Mapping[str, str] | None = None) -> str:
    """Return the text of an example of the repository's `envs/`, which is `mygym/examples/` in a wheel.

    Args:
        file: Path below the folder.
        names: Text of the example → text in its place.
    """
    folder = next(path for path in (ASSETS.parent / "examples", ASSETS.parents[1] / "envs") if path.is_dir())
    text = (folder / file).read_text(encoding="utf-8")
    return re.sub("|".join(map(re.escape, names)), lambda match: names[match[0]], text) if names else text


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
