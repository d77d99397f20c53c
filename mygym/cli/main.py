"""The `mygym` program: selects the command and sets the exit code."""

from __future__ import annotations

import atexit
import contextlib
import errno
import io
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import mygym
from mygym.cli.start import INTERRUPTED
from mygym.errors import (
    ConfigError,
    DivergedError,
    InterruptedRunError,
    MygymError,
    bad_value,
    error_text,
    print_message,
)
from mygym.registry.user_files import located, place_of
from mygym.training.stop_request import StopRequest, ignore_signals

if TYPE_CHECKING:
    from mygym.cli.command import Parser

COMMANDS = {
    "train": ("train", "train a robot arm; save and evaluate the policy, with a video"),
    "evaluate": ("evaluate", "evaluate a run or a scripted policy"),
    "runs": ("runs", "list, delete and archive runs"),
    "compare": ("compare", "compare settings over their seeds"),
    "plot": ("plot", "draw learning curves, success by stage, profiles, sensitivity"),
    "report": ("plot", "write runs, curves and configs into one HTML file"),
    "judge": ("judge", "judge finished runs on fresh episodes, as rows of a leaderboard"),
    "leaderboard": ("judge", "print a leaderboard"),
    "certify": ("judge", "judge a finished run in two physics engines, with films side by side"),
    "doctor": ("runs", "find out why a run does not learn"),
    "sweep": ("sweep", "search for the values of a config whose runs are the best"),
    "benchmark": ("benchmark", "execute the runs of a suite, and write and verify their table"),
    "search": ("evaluate", "search the best path through the super-networks of a run"),
    "import": ("config_files", "convert a config file of another system"),
    "demos": ("demos", "record demonstrations of an expert or a policy"),
    "dataset": ("vision", "record images with masks, boxes and depth, in COCO's format"),
    "detector": ("vision", "train a network that finds objects in images"),
    "encoder": ("vision", "train a network that encodes images as a few numbers"),
    "replay": ("demos", "replay demonstrations, also as a video"),
    "export": ("export", "write the policy of a run as an ONNX file, or the run for RL Zoo or LeRobot"),
    "run": ("export", "play an exported policy, without torch"),
    "serve": ("runs", "start, watch and compare runs in a browser"),
    "list": ("describe", "list components: robots, tasks, algorithms …"),
    "describe": ("describe", "describe a component"),
    "schema": ("describe", "print the JSON schema of configs"),
    "view": ("view", "draw robots, workspaces, objects and tasks"),
    "new": ("new", "scaffold a component: an algorithm, a task, a robot …"),
    "parity": ("check", "compare the steps of an engine with those of Bullet"),
    "card": ("check", "measure how hard a task is"),
    "check": ("check", "validate a component"),
}
"""Command → its module in `mygym.cli`, and its help."""

STREAM_ERRORS = (errno.ENOSPC, errno.EIO, errno.EBADF, *((errno.EINVAL,) if sys.platform == "win32" else ()))
"""Errors of `print`: the disk of the output is full, or its terminal is closed (its pipe, on Windows).

Errors of files have a file name.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the `mygym` program and exit; `arguments` are by default those of the process."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] not in {"-h", "--help", "--version"}:
        run(words[0], words[1:])
    with _exiting():
        if words and words[0] == "--version":
            print(mygym.__version__)
        else:
            _print_help()


def run(command: str, arguments: Sequence[str] | None = None, **options: Any) -> None:
    """Run a command and exit: 0 done, 2 invalid input, 1 any other error, 130 interrupted.

    `train.py` and `evaluate.py` are commands, too. `arguments` are the words after the command, by default those of the
    process; `options` are further arguments of its function.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    with _exiting("--traceback" in words):
        _check_process()
        parser_of(command)(words, **options)


def parser_of(command: str) -> Parser:
    """Return the parser of a command, which runs it when called with the words after it; refuse an unknown command."""
    if command not in COMMANDS:
        raise ConfigError(bad_value("command", command, COMMANDS, "is not a command"))
    import_module(f"mygym.cli.{COMMANDS[command][0]}")
    from mygym.cli.command import PARSERS

    return PARSERS[command]


def _print_help() -> None:
    print("usage: mygym COMMAND [options]\n\ncommands:")
    print("\n".join(f"  {name:<13}{help}" for name, (_, help) in COMMANDS.items()))
    print("\nexamples:\n  mygym train --task push --steps 300000\n  mygym list robot")
    print("\n`mygym COMMAND --help` prints the options and examples of a command; `mygym --version` the version.")


def _check_process() -> None:
    """Refuse conditions under which libraries would crash."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise ConfigError("the current folder does not exist any more; allowed: `cd` to a folder that exists") from None
    if sys.flags.optimize > 1:
        why = "removes the docstrings that libraries and the help need"
        raise ConfigError(bad_value("PYTHONOPTIMIZE", sys.flags.optimize, "0 or 1", why))


@contextlib.contextmanager
def _exiting(with_traceback: bool = False) -> Iterator[None]:
    """Exit the program at the end of the block; an error is one message, if wanted after its traceback."""
    _open_streams()
    message, code = "", 0
    with StopRequest(immediate=True) as stop:
        try:
            try:
                yield
                sys.stdout.flush()
            except Exception as error:  # noqa: BLE001 - mistakes of this program are raised again
                message, code = _outcome(error, with_traceback)
        except KeyboardInterrupt:
            message, code = INTERRUPTED
        except Exception:
            if not stop.received:
                raise
            message, code = INTERRUPTED  # a library has replaced the KeyboardInterrupt, e.g. by an ImportError
        stop.ending = True
        _end(message, code)


def _outcome(error: Exception, with_traceback: bool) -> tuple[str, int]:
    """Return the message for standard error, and the exit code.

    An error that is neither ours nor raised by the user's code is raised again: it is a mistake in this program.
    """
    if isinstance(error, InterruptedRunError):
        return str(error), error.exit_code
    if isinstance(error, MygymError):
        return _message(error, str(error), with_traceback), error.exit_code
    if isinstance(error, BrokenPipeError):
        return "", 1  # the reader has closed the pipe, e.g. `mygym list | head -1`
    if isinstance(error, OSError) and error.filename is None and error.errno in STREAM_ERRORS:
        return f"error: standard output: cannot be written: {error.strerror}", 1

    if isinstance(error, OSError) or not place_of(error):
        raise error
    return _message(error, error_text(error), with_traceback), 1


def _message(error: Exception, text: str, with_traceback: bool) -> str:
    """Return the message of an error: its text, the line of the user's code that raised it, and its traceback."""
    diverged = isinstance(error, DivergedError)  # no mistake of the line that met the number
    message, run = f"error: {text if diverged else located(text, error)}", getattr(error, "run", None)
    if with_traceback:
        return "".join((*traceback.format_exception(error), message))
    if diverged:
        return message
    if run is not None and (run / "traceback.txt").is_file():
        return f"{message}; traceback: {run / 'traceback.txt'}"
    return f"{message}; --traceback prints the traceback" if place_of(error) and not _is_mygym_error(error) else message


def _is_mygym_error(error: BaseException) -> bool:
    """Return whether an error and all its causes are `MygymError`, so that a traceback adds nothing."""
    causes = (error.__cause__, None if error.__suppress_context__ else error.__context__)
    return isinstance(error, MygymError) and all(cause is None or _is_mygym_error(cause) for cause in causes)


def _end(message: str, code: int) -> NoReturn:
    """Print the message and exit with `code`, also if a stream is closed: Python would exit with 120 then."""
    if message:
        print_message(message)
    for number, stream in enumerate((sys.stdout, sys.stderr), start=1):
        try:
            stream.flush()
        except OSError:  # the text that the stream still holds cannot be written
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    atexit.register(ignore_signals)  # libraries clean up at exit: Ctrl-C would cause a traceback
    sys.exit(code)


def _open_streams() -> None:
    """Open missing standard streams (`2>&-`), whose file numbers other files would get; let any text be printed."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")  # e.g. of `…` in ASCII


if __name__ == "__main__":
    main()
