"""The command line in process: fast, with its exit code, output and what it left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from mygym.cli.main import main


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def mygym_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    """Runs `mygym WORDS …` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            main(words)
        out, err = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), out, err)

    return run
