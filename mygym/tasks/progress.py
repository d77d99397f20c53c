"""`Progress`: the state of a task between control steps, batched like `State`."""

from __future__ import annotations

from dataclasses import dataclass

from mygym.tasks.state import State, namespace
from mygym.types import Array


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of `N` episodes through the stages of a task."""

    stage: Array
    """`(N,)` int: index of the active stage; the number of stages when all are complete."""
    held: Array
    """`(N,)` int: consecutive control steps for which all stages have been complete."""
    start_ee_position: Array
    """`(N, 3)` m: end effector when the active stage began."""
    start_object_position: Array
    """`(N, k, 3)` m: objects when the active stage began."""
    start_part_position: Array
    """`(N, p)` m or rad: articulated parts when the active stage began."""
    count: Array
    """`(N,)` int: counter of the active stage since it began, such as points passed or control steps on target."""

    @classmethod
    def at_reset(cls, state: State) -> Progress:
        """Progress of episodes that start in `state`."""
        xp = namespace(state.time)
        zeros = xp.zeros_like(state.time, dtype=xp.int64)
        return cls(
            stage=zeros,
            held=xp.zeros_like(zeros),
            start_ee_position=xp.asarray(state.ee_position, copy=True),
            start_object_position=xp.asarray(state.object_position, copy=True),
            start_part_position=xp.asarray(state.part_position, copy=True),
            count=xp.zeros_like(zeros),
        )

    def restarted(self, mask: Array, state: State) -> Progress:
        """Return the progress in which the episodes of `mask` `(N,)` bool start in `state`; the others continue."""
        xp = namespace(state.time)
        points, objects = mask[:, None], mask[:, None, None]
        return Progress(
            stage=self.stage * ~mask,
            held=self.held * ~mask,
            start_ee_position=xp.where(points, state.ee_position, self.start_ee_position),
            start_object_position=xp.where(objects, state.object_position, self.start_object_position),
            start_part_position=xp.where(points, state.part_position, self.start_part_position),
            count=self.count * ~mask,
        )
