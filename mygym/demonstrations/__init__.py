"""Demonstrations: recording, storage, loading, checks and replay of episodes; images of episodes."""

from mygym.demonstrations.episodes import Demonstration, Demonstrations, Transitions
from mygym.demonstrations.storage import check_compatible, load_demonstrations, variant_indices

__all__ = [
    "Demonstration",
    "Demonstrations",
    "Transitions",
    "check_compatible",
    "load_demonstrations",
    "variant_indices",
]
