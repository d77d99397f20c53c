"""A batch of episodes on the fused worlds: goals, progress and automatic resets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mygym.fused.arm import BatchArm
from mygym.fused.arrays import Arrays, Rows, to_numpy
from mygym.fused.placement import Placed, PlacementModel, place
from mygym.fused.randomization import BatchRandomization, Table
from mygym.fused.world import BatchWorld, WorldModel
from mygym.tasks.episode import act, advance, is_success
from mygym.tasks.episode_context import EpisodeContext
from mygym.tasks.progress import Progress
from mygym.tasks.state import State
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
        self._bounds = tuple(arrays.floats(corner)[:, None] for corner in task.bounds)
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
        self._state: State | None = None
        self.goals = arrays.zeros(count, task.task.goal_count, 3)
        """`(N, G, 3)` m: goal points."""
        self.progress = Progress.at_reset(self.state)
        self._place(arrays.zeros(count) == 0.0)

    @property
    def arm(self) -> BatchArm:
        """The arms."""
        return self.world.arm

    @property
    def state(self) -> State:
        """The current states."""
        if self._state is None:
            self._state = self.world.state()
        return self._state

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

    def begin_at(self, goals: Array, position: Array | None = None, yaw: Array | None = None) -> None:
        """Begin all episodes with given goals `(N, G, 3)` m, and boxes at positions `(3, N)` m and yaws `(N,)` rad."""
        self.world.reset(self.elapsed >= 0, position, yaw)
        self._state, self.goals = None, goals
        self.progress = Progress.at_reset(self.state)

    def step(self, action: Array) -> None:
        """Advance all episodes by a control step, with actions `(A, N)`."""
        if self._randomization is not None:
            action = self._randomization.act(action, *self._moment)
        self.world.step(action)
        self._state = None
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
        low, high = self._bounds
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
        rows = Rows.of_mask(mask)
        placed = place(self._drawn.placement, rows.of(self.seeds), rows.of(self.numbers), self.arm.home_position)
        if self._randomization is not None:
            self._randomization.begin(rows, self.seeds, self.numbers)
            self.world.randomize(self._randomization.values)
        position = rows.replaced(self.arrays.zeros(3, self.count), placed.position)
        self.world.reset(mask, position, rows.replaced(self.arrays.zeros(self.count), placed.yaw))
        self._state = None
        self.goals = rows.replaced(self.goals, placed.goal.T[:, None], axis=0)
        self.progress = self.progress.restarted(mask, self.state)
        self._start_later(rows, placed)

    def _start_later(self, rows: Rows, placed: Placed) -> None:
        """Let the share of the episodes of `rows` that begin later continue snapshots, see `Task.starts`."""
        if not self._pools:
            return
        xp, (number, picked) = self.arrays.xp, placed.choice
        no_flags, zeros = self.arrays.zeros(self.count, dtype=xp.bool), self.arrays.zeros(self.count)
        picked = rows.replaced(zeros, picked)
        for pool in self._pools:
            chosen = Rows.of_mask(rows.replaced(no_flags, (number >= 0.0) & (number < pool.share)))
            if not chosen.is_empty:
                source = xp.astype(chosen.of(picked) * pool.snapshots.count, xp.int64)
                self.copy_from(pool.snapshots, source, chosen)
            number = number - pool.share

    def copy_from(self, other: BatchEpisodes, source: Array, rows: Rows) -> None:
        """Continue episodes of another batch with new seeds, numbers and counters of steps.

        Args:
            other: The other batch.
            source: Whole numbers `(n,)`: episodes of the other batch.
            rows: Environments of this batch whose episodes become those.
        """
        self.world.copy_from(other.world, source, rows)
        self.goals = rows.replaced(self.goals, other.goals[source], axis=0)
        self.progress = Progress(
            *(
                rows.replaced(getattr(self.progress, name), getattr(other.progress, name)[source], axis=0)
                for name in Progress.__slots__
            )
        )
        self._state = None

    def variables(self) -> list[Array]:
        """Return the arrays that a step reads and may replace, in the order of `set_variables`."""
        progress = [getattr(self.progress, name) for name in Progress.__slots__]
        whole = [getattr(self, name) for name in _INTEGERS]
        randomized = [] if self._randomization is None else self._randomization.variables()
        return [*self.world.variables(), *progress, *whole, self.goals, *randomized]

    def set_variables(self, arrays: Iterable[Array]) -> None:
        """Replace the arrays of `variables`."""
        rest = iter(arrays)
        self.world.set_variables(rest)
        self._state = None
        self.progress = Progress(*(next(rest) for _ in Progress.__slots__))
        for name in _INTEGERS:
            setattr(self, name, next(rest))
        self.goals = next(rest)
        if self._randomization is not None:
            self._randomization.set_variables(rest)
            self.world.randomize(self._randomization.values)

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
        self._state = None
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
