"""Fixtures that build worlds."""

from tests.worlds import make_world, world_in

__all__ = ["make_world", "world_in"]
