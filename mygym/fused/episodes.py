"""A batch of episodes on the fused worlds: goals, progress and automatic resets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from mygym.fused.arm import BatchArm
from mygym.fused.arrays import Arrays, to_numpy
from mygym.fused.placement import Placed, PlacementModel, place
from mygym.fused.randomization import BatchRandomization, Table
from mygym.fused.world import BatchWorld, WorldModel
from mygym.tasks.episode import act, advance, is_success
from mygym.tasks.episode_context import EpisodeContext
from mygym.tasks.progress import Progress
from mygym.tasks.task import Task
from mygym.types import Array, FloatArray


@dataclass(frozen=True)
class BatchTask:
    """A task that the engine can represent: a tool and a point, or a box on a table."""

    task: Task
    placement: PlacementModel
    bounds: tuple[FloatArray, FloatArray]
    """Lowest and highest corner `(3,)` m of the space in which an object is not lost."""
    lead_in_steps: int
    """Most control steps in which the scripted expert begins an episode, see `Task.starts`."""


@dataclass(frozen=True)
class Pool:
    """Snapshots of one kind of start."""

    share: float
    """Share of the episodes with this start."""
    snapshots: BatchEpisodes
    """Episodes in their snapshots."""


class BatchEpisodes:
    """`N` episodes side by side; each is decided by the seed of its environment and the number of the episode.

    Args:
        model: Arm, gripper and object.
        task: The task.
        count: `N`.
        arrays: Array library.
        pools: Snapshots in which a share of the episodes begins, see `starts.make_pools`.
        randomization: Draws of randomized parameters; empty: nothing is randomized.
    """

    def __init__(
        self,
        model: WorldModel,
        task: BatchTask,
        count: int,
        arrays: Arrays,
        pools: Sequence[Pool] = (),
        randomization: Table = MappingProxyType({}),
    ) -> None:
        self.task, self.count, self.arrays = task.task, count, arrays
        self._drawn = task
        self.world = BatchWorld(model, count, arrays)
        self.seeds = arrays.integers(range(count))
        """`(N,)` seeds of the environments."""
        self.numbers = arrays.zeros(count, dtype=arrays.xp.int64)
        """`(N,)` numbers of the current episodes since the seeds were set."""
        self.elapsed = arrays.zeros(count, dtype=arrays.xp.int64)
        """`(N,)` control steps since the reset."""
        self._pools = pools
        self._randomization: BatchRandomization | None = None
        if randomization:
            self._randomization = BatchRandomization(randomization, self.world.action_size, count, arrays)
        self.state = self.world.state()
        self.goals = arrays.zeros(count, task.task.goal_count, 3)
        """`(N, G, 3)` m: goal points."""
        self.progress = Progress.at_reset(self.state)
        self._place(arrays.zeros(count) == 0.0)

    @property
    def arm(self) -> BatchArm:
        """The arms."""
        return self.world.arm

    @property
    def context(self) -> EpisodeContext:
        """Input of observation components and rewards."""
        return EpisodeContext(self.task, self.progress, self.state, self.goals)

    def seed(self, seeds: Sequence[int]) -> None:
        """Set the seeds of the environments and begin the first episode of each."""
        self.seeds = self.arrays.integers(seeds)
        self.numbers = self.arrays.zeros(self.count, dtype=self.arrays.xp.int64) - 1
        self.begin(self.numbers < 0)

    def begin(self, mask: Array) -> None:
        """Begin the next episode of the environments of `mask` `(N,)` bool."""
        self.numbers = self.numbers + mask
        self.elapsed = self.elapsed * ~mask
        self._place(mask)

    def step(self, action: Array) -> None:
        """Advance all episodes by a control step, with actions `(A, N)`."""
        if self._randomization is not None:
            action = self._randomization.act(action, *self._moment)
        self.world.step(action)
        self.state = self.world.state()
        self.elapsed = self.elapsed + 1
        self.progress = advance(self.task, self.progress, self.state, self.goals)

    @property
    def _moment(self) -> tuple[Array, Array, Array]:
        """Seeds, numbers of episodes and steps `(N,)`, from which random numbers follow."""
        return self.seeds, self.numbers, self.elapsed

    def noise(self, measured: Array) -> Array | None:
        """Return the noise `(N, d)` of the current observations, or None; `measured` `(d,)`: 1 where values have it."""
        return None if self._randomization is None else self._randomization.noise(measured, *self._moment)

    def succeeded(self) -> Array:
        """Return `(N,)` bool: success has held for the task's `hold` steps."""
        return is_success(self.task, self.progress)

    def failed(self) -> Array:
        """Return `(N,)` bool: the object has left the workspace."""
        xp, box = self.arrays.xp, self.world.box
        if box is None:
            return self.arrays.zeros(self.count, dtype=xp.bool)
        low, high = (self.arrays.floats(corner)[:, None] for corner in self._drawn.bounds)
        return xp.any((box.position < low) | (box.position > high), axis=0)

    def expert_action(self) -> Array:
        """Return the actions `(A, N)` of the scripted expert."""
        xp = self.arrays.xp
        command = act(self.task, self.progress, self.state, self.goals)
        action = self.arm.controller.action_towards(command.target.T, self.arm.ee_command)
        if self.world.action_size > 3:
            action = xp.concat([action, (self.arm.time * 0.0 + command.gripper)[None]])
        return xp.clip(action, -1.0, 1.0)

    def _place(self, mask: Array) -> None:
        """Put the worlds of `mask` at the start of their episodes, and draw their goals."""
        xp = self.arrays.xp
        (rows,) = xp.nonzero(mask)
        placed = place(self._drawn.placement, self.seeds[rows], self.numbers[rows], self.arm.home_position)
        if self._randomization is not None:
            self._randomization.begin(rows, self.seeds[rows], self.numbers[rows])
            self.world.randomize(self._randomization.values)
        position, yaw = self.arrays.zeros(3, self.count), self.arrays.zeros(self.count)
        position[:, rows], yaw[rows] = placed.position, placed.yaw
        self.world.reset(mask, position, yaw)
        self.state = self.world.state()
        goals = xp.asarray(self.goals, copy=True)
        goals[rows] = placed.goal.T[:, None]
        self.goals = goals
        self.progress = self.progress.restarted(mask, self.state)
        self._start_later(rows, placed)

    def _start_later(self, rows: Array, placed: Placed) -> None:
        """Let the share of the episodes of `rows` that begin later continue snapshots, see `Task.starts`."""
        number, picked = placed.choice[0], placed.choice[1]
        for pool in self._pools:
            chosen = to_numpy((number >= 0.0) & (number < pool.share))
            if chosen.any():
                source = (to_numpy(picked)[chosen] * pool.snapshots.count).astype(np.int64)
                self.copy_from(pool.snapshots, source, to_numpy(rows)[chosen])
            number = number - pool.share

    def copy_from(self, other: BatchEpisodes, source: Array, target: Array | None = None) -> None:
        """Continue episodes of another batch with new seeds, numbers and counters of steps.

        Args:
            other: The other batch.
            source: Whole numbers `(n,)`: episodes of the other batch.
            target: Whole numbers `(n,)`: episodes of this batch that become those; None: all, in order.
        """
        rows = slice(None) if target is None else self.arrays.integers(target)
        taken = self.arrays.integers(source)
        self.world.copy_from(other.world, taken, rows)
        goals = self.arrays.xp.asarray(self.goals, copy=True)
        goals[rows] = other.goals[taken]
        values = {}
        for name in Progress.__slots__:
            value = self.arrays.xp.asarray(getattr(self.progress, name), copy=True)
            value[rows] = getattr(other.progress, name)[taken]
            values[name] = value
        self.goals, self.progress, self.state = goals, Progress(**values), self.world.state()

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next steps depend on, as numpy arrays."""
        progress = {name: to_numpy(getattr(self.progress, name)).copy() for name in Progress.__slots__}
        whole = {name: to_numpy(getattr(self, name)).copy() for name in _INTEGERS}
        state = {"world": self.world.state_dict(), "goals": to_numpy(self.goals).copy(), "progress": progress, **whole}
        if self._randomization is not None:
            state["randomization"] = self._randomization.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a `state_dict`, to the bit."""
        arrays = self.arrays
        self.world.load_state_dict(state["world"])
        self.state = self.world.state()
        self.goals = arrays.floats(state["goals"])
        for name in _INTEGERS:
            setattr(self, name, arrays.integers(state[name]))
        if self._randomization is not None:
            self._randomization.load_state_dict(state["randomization"], self.seeds, self.numbers)
            self.world.randomize(self._randomization.values)
        values = {
            name: (arrays.integers if name in _COUNTERS else arrays.floats)(value)
            for name, value in state["progress"].items()
        }
        self.progress = Progress(**values)


_INTEGERS = ("seeds", "numbers", "elapsed")
_COUNTERS = ("stage", "held", "count")
