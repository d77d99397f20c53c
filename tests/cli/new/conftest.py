"""Fixtures and helpers that scaffold components in an empty folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from mygym.cli.new import write_new
from mygym.cli.new.scaffolds import Request, new_files


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder; it is the current folder and the folder of the running script."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "train.py")])
    return tmp_path


def new(kind: str, name: str, **options: Any) -> list[Path]:
    """Scaffold a component in the current folder; return the paths of its files."""
    files = new_files(kind, Request(name, Path.cwd(), **options))
    write_new(files)
    return list(files)
