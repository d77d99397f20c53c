"""Demonstrations: recorded episodes; how they are recorded, stored, loaded, checked and replayed."""

from mygym.demonstrations.compatibility import check_compatible, variant_indices
from mygym.demonstrations.episodes import Demonstration, Demonstrations, Transitions
from mygym.demonstrations.loading import load_demonstrations

__all__ = [
    "Demonstration",
    "Demonstrations",
    "Transitions",
    "check_compatible",
    "load_demonstrations",
    "variant_indices",
]
