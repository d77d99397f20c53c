"""Errors a user can cause and mend: one type per kind of mistake, one message with key, value, allowed and nearest."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class MygymError(Exception):
    """Base of every error that the command line prints as one message and ends with `exit_code`."""

    exit_code = 2
    run: Path | None = None
    """The run directory, when there is one already."""


class ConfigError(MygymError):
    """A value of a config file, a flag or an argument is wrong."""


class RegistryError(MygymError):
    """A name is not registered, or registered twice."""


class AssetError(MygymError):
    """The description of a robot, workspace or object is wrong or incomplete."""


class DivergedError(MygymError):
    """Training produced a number that is not finite."""

    exit_code = 1


class InterruptedRunError(MygymError):
    """Training was interrupted; a checkpoint is saved."""

    exit_code = 130


class RunError(MygymError):
    """A run could not go on or could not be written, through no fault of the config."""

    exit_code = 1


def bad_value(key: str, value: object, allowed: Iterable[object] | str, why: str = "") -> str:
    """The one form of our messages: `key: value …; allowed: …; did you mean …?`.

    Args:
        key: Dotted name of the setting, as the user would type it.
        value: What was given.
        allowed: A range in words, or the names to choose from (these give the nearest one as well).
        why: What is wrong, when the value alone does not tell.
    """
    text = f"{key}: {value!r} {why or 'is not allowed'}"
    if isinstance(allowed, str):
        return f"{text}; allowed: {allowed}"
    names = [str(name) for name in allowed]
    return f"{text}; allowed: {', '.join(names) if names else 'nothing'}{did_you_mean(value, names)}"


def did_you_mean(value: object, names: Iterable[str], most: int = 1, cutoff: float = 0.6) -> str:
    """`; did you mean …?` with up to `most` of the names that are alike by at least `cutoff`; empty if none is."""
    near = difflib.get_close_matches(str(value), list(names), n=most, cutoff=cutoff)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
