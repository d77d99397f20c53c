"""Fixture that runs a command in process, with its exit code and output."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from mygym.cli.main import main

SHORT_RUN = [
    word
    for override in (
        "steps=60",
        "n_envs=1",
        "task_params.horizon=10",
        "eval={episodes: 2, final_episodes: 3}",
        "video={episodes: 1, width: 64, height: 48}",
        "algo_params.policy_kwargs.net_arch=[16]",
    )
    for word in ("--set", override)
]
"""Flags of a run that takes a quarter of a second."""


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Outcome]
"""Function that runs `mygym` with its arguments."""


@pytest.fixture
def mygym_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs `mygym` with its arguments in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mygym.cli.train.TIMED_STEPS", 20)

    def run(*words: str) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            main(words)
        out, err = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), out, err)

    return run
