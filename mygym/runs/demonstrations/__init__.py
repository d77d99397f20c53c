"""Demonstrations: episodes that somebody has played, recorded, stored, loaded, checked and played again."""

from mygym.runs.demonstrations.episodes import Demonstration, Demonstrations, Transitions
from mygym.runs.demonstrations.fitting import check_fits, played_as
from mygym.runs.demonstrations.storing import load_demonstrations

__all__ = ["Demonstration", "Demonstrations", "Transitions", "check_fits", "load_demonstrations", "played_as"]
