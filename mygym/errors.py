"""Errors that a user can correct, a type per kind; the text of messages: key, value, allowed and nearest; notes."""

from __future__ import annotations

import contextlib
import difflib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path


class MygymError(Exception):
    """Base class of all errors; the command line prints the message in one line and exits with `exit_code`."""

    exit_code = 2
    run: Path | None = None
    """The run directory, if it exists already."""


class ConfigError(MygymError):
    """A value of a config file, a flag or an argument is wrong."""

    parts: Sequence[str] = ()
    """The message of each mistake, if the error has several."""


class RegistryError(MygymError):
    """A name is not registered, or registered twice."""


class UnknownNameError(RegistryError, KeyError):
    """A name or framework is not registered; mappings such as `implemented_combos` raise it in place of KeyError."""

    __str__ = Exception.__str__  # KeyError would return the repr of the message


class AssetError(MygymError):
    """The description of a robot, workspace or object is wrong or incomplete."""


class DivergedError(MygymError):
    """Training or the physics produced a number that is not finite."""

    exit_code = 1


class InterruptedRunError(MygymError):
    """Training was interrupted; a checkpoint is saved."""

    exit_code = 130


class RunError(MygymError):
    """A run with a valid config cannot continue or cannot be written."""

    exit_code = 1


def bad_value(key: str, value: object, allowed: Iterable[object] | str, why: str = "") -> str:
    """Return a message in the form of all messages: `key: value …; allowed: …; did you mean …?`.

    Args:
        key: Dotted name of the setting, as the user would type it.
        value: The value that was given.
        allowed: A range in words, or the allowed names (the message then also has the nearest names).
        why: Reason in words; by default `is not allowed`.
    """
    text = f"{key}: {value!r} {why or 'is not allowed'}"
    if isinstance(allowed, str):
        return f"{text}; allowed: {allowed}"
    names = [str(name) for name in allowed]
    return f"{text}; allowed: {', '.join(names) if names else 'nothing'}{did_you_mean(value, names)}"


def counted(number: int, noun: str) -> str:
    """Return a number and its noun: `1 seed`, `5 seeds`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


MOST_CHARACTERS = 300
"""Maximum number of characters of an error of other code: libraries print whole tensors."""


def error_text(error: BaseException) -> str:
    """Return type and message of an error in one line, e.g. `ValueError: no such name`."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return text if isinstance(error, MygymError) or len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 2]} …"


def did_you_mean(value: object, names: Iterable[str], most: int = 1, cutoff: float = 0.6) -> str:
    """Return `; did you mean …?` with the `nearest` names; empty if no name is similar."""
    near = nearest(value, names, most, cutoff)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def nearest(value: object, names: Iterable[str], most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return up to `most` names whose similarity to `value` is at least `cutoff`, in [0, 1], the nearest first.

    The name of a class is nearest to the same name in lower case, with or without its last words: `PickAndPlaceTask` to
    `pick_and_place`, `FairSampler` to `fair`, `torch.nn.ReLU` to `relu`.
    """
    text, known = str(value), list(names)
    cls = text.rpartition(".")[2]
    of_class = sorted((name for name in known if _names_class(cls, name)), key=len, reverse=True)
    close = difflib.get_close_matches(text, known, n=most, cutoff=cutoff)
    return list(dict.fromkeys([*of_class, *close]))[:most]


def _names_class(text: str, name: str) -> bool:
    """Return whether `text` is the name of a class that a person would register as `name`."""
    words = name.replace("_", "").lower()
    rest = text[len(words) :]
    return text[:1].isupper() and text[: len(words)].lower() == words and (not rest or rest[0].isupper())


def print_message(message: str) -> None:
    """Print a message for the user on standard error; a closed stream is ignored."""
    with contextlib.suppress(OSError):
        print(message, file=sys.stderr, flush=True)  # noqa: T201


def print_note(message: str) -> None:
    """Print a note for the user on standard error."""
    print_message(f"note: {message}")
