"""The stages' experts joined into an oracle, and the policies that need no training."""

from mygym.experts.oracle import Expert, make_expert

__all__ = ["Expert", "make_expert"]
