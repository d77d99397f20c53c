"""Every file is tracked by git, and imports form no circle."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from graphlib import TopologicalSorter

import grimp
import pytest

from mygym.cli.main import COMMANDS
from tests.conftest import ROOT


@pytest.mark.skipif(not (ROOT / ".git").exists() or shutil.which("git") is None, reason="not in a clone")
def test_git_ignores_no_source_file() -> None:
    folders = ["mygym", "tests", "algos", "envs", "configs", "notebooks", "benchmarks"]
    command = ["git", "ls-files", "--others", "--ignored", "--exclude-standard", "--", *folders]
    ignored = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [path for path in ignored if "__pycache__" not in path and "/." not in path] == []


def test_every_room_lists_its_modules() -> None:
    commands = {f"mygym/cli/{command}" for command in COMMANDS}  # their modules have their names
    unlisted, missing = [], []
    for contents in (ROOT / "mygym").rglob("*/__init__.py"):
        text = contents.read_text(encoding="utf-8")
        words = set(re.findall(r"\w+", text))
        modules = [path for path in contents.parent.glob("*.py") if path != contents]
        modules += [path.parent for path in contents.parent.glob("*/__init__.py")]
        names = {path.relative_to(ROOT).with_suffix("").as_posix() for path in modules if path.stem not in words}
        unlisted += sorted(names - commands)
        listed = re.findall(r"^(\w+)  +\w", ast.get_docstring(ast.parse(text)) or "", re.M)
        existing = {path.stem for path in contents.parent.iterdir()}
        missing += [f"{contents.parent.name}: {name}" for name in listed if name not in existing]
    assert (unlisted, missing) == ([], [])


def test_imports_form_no_circle() -> None:
    """Imports for type checking and within functions count as well."""
    graph = grimp.build_graph("mygym", cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert imported["mygym.training.runner"] >= {"mygym.training.runner"}
    TopologicalSorter(imported).prepare()  # raises an error that names the modules of a circle
