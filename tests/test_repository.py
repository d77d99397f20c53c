"""Every file is tracked by git, and imports form no circle."""

from __future__ import annotations

import shutil
import subprocess
from graphlib import TopologicalSorter

import grimp
import pytest

from tests.conftest import ROOT


@pytest.mark.skipif(not (ROOT / ".git").exists() or shutil.which("git") is None, reason="not in a clone")
def test_git_ignores_no_source_file() -> None:
    folders = ["mygym", "tests", "algos", "envs", "configs", "notebooks", "benchmarks"]
    command = ["git", "ls-files", "--others", "--ignored", "--exclude-standard", "--", *folders]
    ignored = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [path for path in ignored if "__pycache__" not in path and "/." not in path] == []


def test_imports_form_no_circle() -> None:
    """Imports for type checking and within functions count as well."""
    graph = grimp.build_graph("mygym", cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert imported["mygym.api"] >= {"mygym.training.session"}
    TopologicalSorter(imported).prepare()  # raises an error that names the modules of a circle
