"""What git would lose."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.conftest import ROOT


@pytest.mark.skipif(not (ROOT / ".git").exists() or shutil.which("git") is None, reason="not in a clone")
def test_git_ignores_none_of_our_files() -> None:
    folders = ["mygym", "tests", "algos", "envs", "configs", "notebooks", "benchmarks"]
    command = ["git", "ls-files", "--others", "--ignored", "--exclude-standard", "--", *folders]
    ignored = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [path for path in ignored if "__pycache__" not in path and "/." not in path] == []
