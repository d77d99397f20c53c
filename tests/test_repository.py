"""Every file is tracked by git, and every package is in the wheel."""

from __future__ import annotations

import shutil
import subprocess
import tomllib

import pytest

from tests.conftest import ROOT


@pytest.mark.skipif(not (ROOT / ".git").exists() or shutil.which("git") is None, reason="not in a clone")
def test_git_ignores_no_source_file() -> None:
    folders = ["mygym", "tests", "algos", "envs", "configs", "notebooks", "benchmarks"]
    command = ["git", "ls-files", "--others", "--ignored", "--exclude-standard", "--", *folders]
    ignored = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [path for path in ignored if "__pycache__" not in path and "/." not in path] == []


def test_a_wheel_has_every_package() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    missing = [path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "mygym").rglob("__init__.py")]
    assert {name.replace("/", ".") for name in missing} <= set(listed)
