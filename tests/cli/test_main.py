"""The `mygym` program: help, version, exit codes, closed streams."""

from __future__ import annotations

import re

import pytest

from mygym.cli.main import COMMANDS
from tests.cli.conftest import Command


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_usage_options_and_examples(command: str, mygym_command: Command) -> None:
    outcome = mygym_command(*command.split(), "--help")
    assert outcome.code == 0
    assert "usage:" in outcome.out
    assert outcome.err == ""
    assert "examples:\n" in outcome.out
    if command:
        assert "\noptions:\n" in outcome.out
        assert "--import MODULE" in outcome.out
    else:
        assert all(name in outcome.out for name in COMMANDS)


def test_no_command_prints_the_help(mygym_command: Command) -> None:
    assert mygym_command() == mygym_command("--help")


def test_version(mygym_command: Command) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", mygym_command("--version").out)


@pytest.mark.parametrize("module", ["mygym", "mygym.cli.main"])
def test_the_program_runs_as_a_module(module: str, python) -> None:
    done = python("-m", module, "list", "robot")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "robot"


def test_a_closed_pipe_causes_no_traceback(python) -> None:
    code = (
        "import subprocess, sys;"
        "p = subprocess.Popen([sys.executable, '-m', 'mygym', 'list'], stdout=subprocess.PIPE, stderr=subprocess.PIPE);"
        "p.stdout.close(); sys.exit('Traceback' in p.stderr.read().decode())"
    )
    assert python("-c", code).returncode == 0
