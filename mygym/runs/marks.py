"""Marks: the env-step numbers at which callbacks act."""

from __future__ import annotations


class Marks:
    """Env-step numbers `first`, then each multiple of `every`.

    Args:
        every: Env steps between marks.
        first: The first mark.
    """

    def __init__(self, every: int, first: int = 0) -> None:
        self.every = every
        self.next = first

    def passed(self, steps: int) -> bool:
        """Return whether `steps` has reached a mark since the last call."""
        if steps < self.next:
            return False
        self.next = (steps // self.every + 1) * self.every
        return True
