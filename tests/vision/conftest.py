"""Fixtures of the tests of detectors and encoders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from mygym.cli.main import main

Refuses = Callable[[str, Sequence[str], Mapping[str, Path]], None]


@pytest.fixture
def refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refuses:
    """Function that demands exit code 2, words in the message, and no file from a command in an empty folder."""

    def demand(command: str, words: Sequence[str], places: Mapping[str, Path]) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SystemExit) as exit:
            main([str(places.get(word, word)) for word in command.split()])
        assert exit.value.code == 2
        message = capsys.readouterr().err
        assert all(word in message for word in words), message
        assert not list(tmp_path.iterdir())

    return demand
