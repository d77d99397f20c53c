"""`Finding`: a reason why a run does not learn, with its evidence and its remedy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mygym.reporting.doctor.logs import RunLogs


@dataclass(frozen=True)
class Finding:
    """Evidence of a rule that applies."""

    evidence: str
    """Numbers of the config or of the logs."""
    remedy: str
    """Flag that would change it, or another action."""


Rule = Callable[[RunLogs], Finding | None]
"""Function of the logs whose name is that of its finding; None if the rule does not apply."""
