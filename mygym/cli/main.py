"""`mygym COMMAND …`, and the exit codes of every command."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from mygym.errors import MygymError, bad_value

if TYPE_CHECKING:
    from mygym.runs.result import Result

COMMANDS = {
    "train": "train a robot arm and save, evaluate and film it",
    "evaluate": "judge a run, or a scripted policy",
    "search": "the best path through the experts of a run",
    "demos": "record episodes of an expert or a policy, to learn from",
    "replay": "play such episodes again, and film them",
    "list": "what can be named: robots, tasks, algorithms …",
    "describe": "everything about one of them",
    "schema": "of configs, for editors",
    "view": "pictures of robots, workspaces and objects",
    "new": "files for one of your own: an algorithm, a task, a robot …",
    "card": "how hard a task is: for chance, idleness and its expert",
    "check": "whether one does all that it must",
}


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The `mygym` program."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in {"-h", "--help"}:
        print("usage: mygym COMMAND [options]\n\ncommands:")
        print("\n".join(f"  {name:<10}{help}" for name, help in COMMANDS.items()))
        print("\n`mygym COMMAND --help` has the options and examples.")
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
    """The program `evaluate.py`."""
    run("evaluate", sys.argv[1:])


def run(command: str, arguments: Sequence[str], **options: Any) -> NoReturn:
    """Run one command and end the process: 0 done, 2 wrong input, 1 anything else, 130 interrupted."""
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
        sys.stderr.close()  # whoever read our output has gone, e.g. `mygym list | head -1`
        sys.exit(1)
    _leave(0)


def say(message: str) -> None:
    """Tell something on standard error, if anybody listens."""
    with contextlib.suppress(OSError):
        print(message, file=sys.stderr, flush=True)


def _fail(message: str, code: int) -> NoReturn:
    say(message if code == 130 else f"error: {message}")
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End the process with `code`: with words left for a reader who has gone, Python would make 120 of it."""
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sys.exit(code)


def _open_streams() -> None:
    """Give a process that was started without standard streams (`2>&-`) some: files would take their numbers."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
