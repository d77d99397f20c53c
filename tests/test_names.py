"""Names of mygym in tests, documents, templates, notebooks and benchmarks exist, also where nothing executes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

from tests.conftest import ROOT

FOLDERS = ("tests", "docs", "benchmarks", "notebooks", "algos", "envs", "mygym/cli/new/templates")
FILES = ("train.py", "evaluate.py", "README.md", "CONTRIBUTING.md")
SUFFIXES = (".py", ".md", ".ipynb", ".template")
FORMER = "test_moved.py"
"""Former names, with one that never was."""

IMPORTS = re.compile(r"from (mygym(?:\.\w+)*) import (\([^)]*\)|[^\n\\#;\"'`)]*)")
QUOTED = re.compile(r"[\"'`](mygym(?:\.\w+){2,})(?<!\.json)[\"'`]")
"""E.g. `mygym.training.session.Session` in a document, or the target of `monkeypatch.setattr`."""


def named(text: str) -> Iterator[tuple[str, str]]:
    """Yield module and name of each import, and of each quoted name, split at its last dot."""
    for module, names in IMPORTS.findall(text):
        yield from ((module, match[1]) for each in names.split(",") if (match := re.match(r"[\s(]*(\w+)", each)))
    for name in QUOTED.findall(text):
        module, _, attribute = name.rpartition(".")
        yield module, attribute


def resolve(module: str, name: str) -> Any:
    """Return an attribute of a module or of a class in it, or a submodule."""
    try:
        owner: Any = import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module or "." not in module:
            raise
        owner = resolve(*module.rsplit(".", 1))
    if isinstance(owner, ModuleType) and not hasattr(owner, name):
        return import_module(f"{module}.{name}")
    return getattr(owner, name)


def test_names_exist() -> None:
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES]
    places: dict[tuple[str, str], str] = {}
    for path in (*(path for path in files if path.name != FORMER), *(ROOT / name for name in FILES)):
        for pair in named(path.read_text(encoding="utf-8")):
            places.setdefault(pair, str(path.relative_to(ROOT)))
    missing = []
    for (module, name), place in places.items():
        try:
            resolve(module, name)
        except (ImportError, AttributeError) as error:
            if isinstance(error, AttributeError) or str(error.name).startswith("mygym"):  # else an extra is missing
                missing.append(f"{place}: {module}.{name}")
    assert missing == []
    assert len(places) > 500
