"""Demonstrations: recorded episodes; how they are recorded, stored, loaded, checked and replayed."""

from mygym.demonstrations.compatibility import check_fits, played_as
from mygym.demonstrations.episodes import Demonstration, Demonstrations, Transitions
from mygym.demonstrations.loading import load_demonstrations

__all__ = ["Demonstration", "Demonstrations", "Transitions", "check_fits", "load_demonstrations", "played_as"]
