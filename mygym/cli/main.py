"""The `mygym` program: selects the command and sets the exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from mygym.cli.output import print_note
from mygym.errors import MygymError, bad_value

if TYPE_CHECKING:
    from mygym.runs.result import Result

COMMANDS = {
    "train": "train a robot arm; save, evaluate and film the policy",
    "evaluate": "evaluate a run or a scripted policy",
    "runs": "list, delete and archive runs",
    "compare": "compare settings over their seeds",
    "search": "search the best path through the super-networks of a run",
    "demos": "record demonstrations of an expert or a policy",
    "replay": "replay and film demonstrations",
    "list": "list components: robots, tasks, algorithms …",
    "describe": "describe a component",
    "schema": "print the JSON schema of configs",
    "view": "draw robots, workspaces, objects and tasks",
    "new": "scaffold a component: an algorithm, a task, a robot …",
    "card": "measure how hard a task is",
    "check": "validate a component",
}
"""Command → help; the command `NAME` is `mygym.cli.NAME.main`."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the `mygym` program and exit.

    Args:
        arguments: Words of the command line; None: the arguments of the process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in {"-h", "--help"}:
        print("usage: mygym COMMAND [options]\n\ncommands:")
        print("\n".join(f"  {name:<10}{help}" for name, help in COMMANDS.items()))
        print("\nexamples:\n  mygym train --task push --steps 300000\n  mygym list robot")
        print("\n`mygym COMMAND --help` prints the options and examples of a command; `mygym --version` the version.")
        sys.exit(0)
    if words[0] == "--version":
        from mygym import __version__

        print(__version__)
        sys.exit(0)
    if words[0] not in COMMANDS:
        _fail(bad_value("command", words[0], COMMANDS, "is not a command"), 2)
    run(words[0], words[1:])


def train(train: Callable[..., Result]) -> NoReturn:
    """Run the program `train.py`.

    Args:
        train: Trains a run, with the signature of `mygym.train`.
    """
    run("train", sys.argv[1:], train=train)


def evaluate() -> NoReturn:
    """Run the program `evaluate.py`."""
    run("evaluate", sys.argv[1:])


def run(command: str, arguments: Sequence[str], **options: Any) -> NoReturn:
    """Run a command and exit: 0 done, 2 invalid input, 1 any other error, 130 interrupted."""
    _open_streams()
    perform: Callable[..., None] = import_module(f"mygym.cli.{command}").main
    try:
        perform(arguments, **options)
        sys.stdout.flush()
    except MygymError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader has closed the pipe, e.g. `mygym list | head -1`
        sys.exit(1)
    _exit(0)


def _fail(message: str, code: int) -> NoReturn:
    print_note(message if code == 130 else f"error: {message}")
    _exit(code)


def _exit(code: int) -> NoReturn:
    """Exit with `code`, even if standard error is closed; Python would exit with 120 if it cannot flush the stream."""
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sys.exit(code)


def _open_streams() -> None:
    """Open missing standard streams (`2>&-`); otherwise the next opened files would get their file numbers."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")


if __name__ == "__main__":
    main()
