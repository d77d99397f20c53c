"""`convert_foreign`: a config file of another system → a config, and notes on everything that is not the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

CONVERTERS = ("mygym.config.toolkit", "mygym.config.zoo")
"""Modules with `recognises(data) -> bool` and `convert(data, path, env_id) -> Conversion`, tried in this order."""


@dataclass(frozen=True)
class Conversion:
    """Config that replaces a file of another system."""

    config: dict[str, Any]
    """Keys of `RunConfig`."""
    notes: list[str]
    """A line for each key of the file without a meaning here, and for each value that is only approximated."""


def convert_foreign(data: Mapping[str, Any], path: str | Path, env_id: str | None = None) -> Conversion | None:
    """Return the conversion of a file's content; None if no converter recognises it.

    Args:
        data: Content of the file.
        path: The file, whose name may state the algorithm.
        env_id: Environment to choose, from a file that has several.

    Raises:
        ConfigError: A value has no counterpart here, such as a robot that mygym does not have.
    """
    for name in CONVERTERS:
        converter = import_module(name)
        if converter.recognises(data):
            conversion: Conversion = converter.convert(data, path, env_id)
            return conversion
    return None
