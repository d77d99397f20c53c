"""What a task remembers between steps, batched like `State`."""

from __future__ import annotations

from dataclasses import dataclass

from mygym.tasks.state import State, namespace
from mygym.types import Array


@dataclass(frozen=True, slots=True)
class Progress:
    """How far `N` episodes are."""

    stage: Array
    """`(N,)` int: index of the active stage; the number of stages when all are done."""
    held: Array
    """`(N,)` int: consecutive steps for which all stages have been done."""
    start_ee_position: Array
    """`(N, 3)` m: the end effector when the active stage began."""
    start_object_position: Array
    """`(N, k, 3)` m: the objects when the active stage began."""
    start_part_position: Array
    """`(N, p)` m or rad: drawers, doors, levers when the active stage began."""
    count: Array
    """`(N,)` int: what the active stage has counted since it began, such as points passed or steps on target."""

    @classmethod
    def at_reset(cls, state: State) -> Progress:
        """Progress of an episode that starts in `state`."""
        xp = namespace(state.time)
        n = state.time.shape[0]
        return cls(
            stage=xp.zeros(n, dtype=xp.int64),
            held=xp.zeros(n, dtype=xp.int64),
            start_ee_position=xp.asarray(state.ee_position, copy=True),
            start_object_position=xp.asarray(state.object_position, copy=True),
            start_part_position=xp.asarray(state.part_position, copy=True),
            count=xp.zeros(n, dtype=xp.int64),
        )
