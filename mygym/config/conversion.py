"""`Conversion`: the config that the file of another program becomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Conversion:
    """A config converted from the file of another program."""

    config: dict[str, Any]
    """Values by config key."""
    notes: list[str]
    """A line for each key of the file that has no meaning here, or is approximated."""
