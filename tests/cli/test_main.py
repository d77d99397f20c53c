"""The `mygym` program: help, version, exit codes, closed streams."""

from __future__ import annotations

import functools
import os
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mygym.cli.main import COMMANDS, parser_of
from mygym.envs.robot_env import RobotEnv
from mygym.training.stop_request import SIGNALS
from tests.command import Command
from tests.components import slow_except
from tests.conftest import ROOT

LOG_DIRECTORIES = {
    "runs": "runs",
    "serve": "runs",
    "compare": ["runs"],
    "plot -o curves.svg": ["runs"],
    "report -o page.html": ["runs"],
    "judge": [],
}
"""Command that reads a log directory → the default."""


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


@pytest.mark.parametrize(("command", "default"), LOG_DIRECTORIES.items(), ids=LOG_DIRECTORIES)
def test_commands_that_read_a_log_directory_spell_it_as_train_does(command: str, default: object) -> None:
    name, *words = command.split()
    parser = parser_of(name)
    known = vars(parser.parse(words))
    assert default in known.values()
    wanted = "elsewhere" if isinstance(default, str) else ["elsewhere"]
    for given in (["--logdir", "elsewhere"], ["--logdir=elsewhere"], ["elsewhere"]):
        for line in ([*given, *words], [*words, *given]):
            parsed = vars(parser.parse(line))
            assert [parsed[key] for key in parsed if parsed[key] != known[key]] == [wanted]
    if wanted != "elsewhere":
        for line in (["--logdir", "a", "b"], ["--logdir", "a", "--logdir", "b"], ["a", "b"]):
            assert ["a", "b"] in vars(parser.parse([*words, *line])).values()
    assert "--logdir DIR" in parser.format_help()


def test_a_sweep_takes_its_folder_as_train_does() -> None:
    parser = parser_of("sweep")
    assert parser.parse(["--logdir", "new"]) == parser.parse(["--out", "new"]) != parser.parse([])


def test_no_command_prints_the_help(mygym_command: Command) -> None:
    assert mygym_command() == mygym_command("--help")


def test_version(mygym_command: Command) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", mygym_command("--version").out)


@pytest.mark.parametrize("module", ["mygym", pytest.param("mygym.cli.main", marks=pytest.mark.slow)])
def test_the_program_runs_as_a_module(module: str, python) -> None:
    done = python("-m", module, "list", "robot")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "robot"


def test_the_module_of_the_program_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As `python -m mygym.cli.main`, in this process."""
    monkeypatch.setattr(sys, "argv", ["mygym", "--version"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(ROOT / "mygym" / "cli" / "main.py"), run_name="__main__")
    assert not end.value.code
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_a_closed_pipe_causes_no_traceback(python) -> None:
    code = (
        "import subprocess, sys;"
        "p = subprocess.Popen([sys.executable, '-m', 'mygym', 'list'], stdout=subprocess.PIPE, stderr=subprocess.PIPE);"
        "p.stdout.close(); sys.exit('Traceback' in p.stderr.read().decode())"
    )
    assert python("-c", code).returncode == 0


COMMANDS_THAT_PLAY = [
    "evaluate --policy zero --episodes 99",
    "card reach --episodes 99",
    "check task reach",
    "view task reach --image reach.png",
    "demos reach --policy zero --episodes 99 --out dataset --keep-failures",
    "train --dry-run",
]


@pytest.mark.parametrize(
    ("line", "number"),
    [
        *((COMMANDS_THAT_PLAY[0], number) for number in SIGNALS),
        *((line, signal.SIGTERM) for line in COMMANDS_THAT_PLAY[1:]),
    ],
)
def test_every_command_ends_with_one_line_at_a_signal(
    line: str, number: signal.Signals, mygym_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, calls = RobotEnv.reset, [0]

    @functools.wraps(usual)
    def reset(*arguments: object, **options: object) -> object:
        calls[0] += 1
        for _ in range(2 if calls[0] == 2 or line.startswith(("view", "train")) else 0):
            os.kill(os.getpid(), number)
        return usual(*arguments, **options)

    monkeypatch.setattr(RobotEnv, "reset", reset)
    before = signal.getsignal(number)
    outcome = mygym_command(*line.split())
    assert outcome.code == 130
    assert outcome.err.splitlines()[-1] == "interrupted"
    assert "Traceback" not in outcome.err
    assert signal.getsignal(number) == before


START = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits it as ignored
class Interruption:
    def find_spec(name, *_):
        if name == os.environ["INTERRUPT_AT"]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interruption)
"""


@pytest.mark.parametrize(
    ("program", "module"),
    [
        *((["train.py"], module) for module in ("mygym.envs", "numpy", "mygym.cli.train", "torch")),
        (["evaluate.py"], "gymnasium"),
        (["-m", "mygym", "list"], "numpy"),
        ([Path(sys.executable).with_name("mygym"), "list"], "yaml"),
    ],
    ids=str,
)
def test_ctrl_c_while_python_imports_is_one_line(program: list[str], module: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(START)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "INTERRUPT_AT": module}
    command = [sys.executable, *program, "--dry-run"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_ctrl_c_in_a_program_of_the_user_is_a_keyboard_interrupt(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(START)
    (tmp_path / "mine.py").write_text("try:\n    import mygym\nexcept KeyboardInterrupt:\n    print('caught')")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "INTERRUPT_AT": "gymnasium"}
    command = [sys.executable, str(tmp_path / "mine.py")]
    assert subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout == "caught\n"


@pytest.mark.parametrize(
    ("words", "unbuffered"),
    slow_except(
        [(words, unbuffered) for words in (["--version"], ["list", "robot"]) for unbuffered in ("", "1")],
        [(["--version"], ""), (["list", "robot"], "1")].__contains__,
    ),
)
def test_a_full_disk_of_the_output_is_one_message(words: list[str], unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered}
        command = [sys.executable, "-m", "mygym", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    assert done.returncode == 1
    assert done.stderr == "error: standard output: cannot be written: No space left on device\n"


def test_any_text_is_printed_in_ascii(python, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    done = python("-m", "mygym", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u2026" in done.stdout


def test_a_removed_current_folder_is_one_message(tmp_path: Path, python) -> None:
    folder = tmp_path / "removed"
    code = (
        "import os, sys; os.rmdir(os.getcwd()); from mygym.cli.main import main; main(['evaluate', '--policy', 'zero'])"
    )
    folder.mkdir()
    done = python("-c", code, cwd=folder)
    assert done.returncode == 2
    assert done.stderr == "error: the current folder does not exist any more; allowed: `cd` to a folder that exists\n"


def test_python_without_docstrings_is_refused(python) -> None:
    done = python("-OO", "-m", "mygym", "describe", "algo", "sac")
    assert done.returncode == 2
    assert done.stderr.startswith("error: PYTHONOPTIMIZE: 2 removes the docstrings")
