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


def lower_learning_rate(logs: RunLogs, factor: float = 3.0) -> str:
    """Return the flag that divides the learning rate by a factor; for schedules and unknown rates, sets 1e-4."""
    rate = logs.number("algo_params.learning_rate")
    return f"--set algo_params.learning_rate={rate / factor if rate else 1e-4:.1g}"


def normalized(logs: RunLogs) -> str:
    """Return the flag that brings observations to an equal scale; if they are, the flag of smaller updates."""
    return lower_learning_rate(logs) if logs.setting("normalize") else "--set normalize=true"
