"""`Finding`: an inferred property of a robot, with its certainty, its reason, and the key that corrects it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Certainty = Literal["certain", "likely", "guess"]
"""`certain`: stated by the file; `likely`: follows from shapes and joints; `guess`: assumed."""


@dataclass(frozen=True)
class Finding:
    """One inferred property, or one repair of the file."""

    text: str
    """E.g. `a gripper of left, right that opens 8.0 cm`."""
    key: str = ""
    """Key of the robot's YAML file that corrects it, e.g. `gripper`; empty for a repair of the file."""
    certainty: Certainty = "likely"
    reason: str = ""
    """E.g. `right mimics left`; empty if the text has it."""
