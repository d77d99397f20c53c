"""How episodes begin: drawn one by one, or rows of a table that the same draws have filled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mygym.engines.arrays import Arrays, Rows, uniform
from mygym.envs.episode_seeds import make_generator
from mygym.envs.episodes import BatchEpisodes, Episodes, lead
from mygym.envs.placement import draw_choice, draw_goals, draw_poses
from mygym.envs.randomization import BatchRandomization, DomainRandomizer
from mygym.envs.task_world import TaskWorld
from mygym.tasks.task import Task
from mygym.types import Array, FloatArray


class DrawnStarts:
    """Draws each episode of a single world from `rng`."""

    def __init__(self, task_world: TaskWorld, randomizer: DomainRandomizer) -> None:
        self._world, self._areas, self._randomizer = task_world.world, task_world.areas, randomizer
        self.rng = np.random.default_rng(0)
        """Generator of the next episode."""
        self.lead_in = 0.0
        """Stages that the scripted expert completes before the episode, see `Task.stages_done` and `Task.starts`."""

    def begin(self, rows: Rows, episodes: Episodes) -> Array:
        """Reset the world; draw randomization, objects and goals, which are returned."""
        task, world, rng = episodes.task, self._world, self.rng
        choice = draw_choice(rng, task, world.alternatives)
        if self._randomizer.is_on or choice:
            self._randomizer.begin(rng, world, choice)
        world.reset(draw_poses(rng, task, world.objects, self._areas, world.present))
        if self._randomizer.is_on:
            self._randomizer.start(world)
        goals = draw_goals(rng, task, world, self._areas)
        self.lead_in = _draw_start(rng, episodes) if task.starts else task.stages_done
        return goals[None]

    def go_on(self, rows: Rows, episodes: Episodes) -> None:
        """Do nothing: `play` lets the expert begin, once the environment is complete."""

    def play(self, episodes: Episodes, steps: int) -> bool:
        """Let the scripted expert complete the first stages, in at most `steps` steps; return whether there are any."""
        if not self.lead_in:
            return False
        lead(episodes, np.array([self.lead_in]), steps)
        episodes.elapsed = episodes.elapsed * 0
        return True


def _draw_start(rng: np.random.Generator, episodes: Episodes) -> float:
    """Draw a start; return the stages that the scripted expert completes before the episode."""
    task, number = episodes.task, rng.random()
    for name, share in task.starts.items():
        if number < share:
            low, high = task.start_stages[name]
            return max(task.stages_done, low if low == high else rng.uniform(low, high))
        number -= share
    return task.stages_done


ROWS = 4096
"""Starts in a table; their seeds are constant, so that runs can be repeated."""

FIRST_SEED = 1 << 40
"""Seed of the first start of a table, and of the first episode of a pool: no environment of a run has it."""


@dataclass(frozen=True)
class StartTable:
    """Starts of episodes, as a single world would draw them."""

    poses: FloatArray
    """`(K, k, 7)` m and quaternions: centres of mass of the objects."""
    goals: FloatArray
    """`(K, G, 3)` m."""
    parts: FloatArray
    """`(K, P)` m or rad: articulated parts, at rest."""

    @classmethod
    def draw(cls, task_world: TaskWorld) -> StartTable:
        """Draw the starts of a task; the state of its world has the last start afterwards, and needs a reset."""
        task, world, areas = task_world.task, task_world.world, task_world.areas
        state, poses, goals = world.state, [], []
        for number in range(ROWS):
            rng = make_generator(np.random.SeedSequence(FIRST_SEED + number))
            poses.append(draw_poses(rng, task, world.objects, areas, world.present))
            state.object_position[0], state.object_orientation[0] = poses[-1][:, :3], poses[-1][:, 3:]
            goals.append(draw_goals(rng, task, world, areas))
        rest = np.array([part.rest for part in world.parts], dtype=float)
        return cls(np.array(poses), np.array(goals), np.tile(rest, (ROWS, 1)))


@dataclass(frozen=True)
class Pool:
    """Snapshots of one kind of later start."""

    share: float
    """Share of the episodes with this start."""
    snapshots: BatchEpisodes
    """Episodes in their snapshots."""


class TableStarts:
    """Begins the episodes of a batch by rows of a table; seed and number of an episode select the row.

    A share of the episodes begins in the snapshots of `pools`, see `make_pools`.
    """

    def __init__(
        self,
        table: StartTable,
        arrays: Arrays,
        randomization: BatchRandomization | None = None,
        pools: Sequence[Pool] = (),
    ) -> None:
        self._poses, self._goals = arrays.floats(table.poses), arrays.floats(table.goals)
        self._parts = arrays.floats(table.parts)
        self._randomization, self._pools = randomization, pools
        self._choice = arrays.zeros(2, 0)
        """`(2, n)`: random numbers of the episodes that begin, for `go_on`."""

    def begin(self, rows: Rows, episodes: BatchEpisodes) -> Array:
        """Put the worlds of `rows` at the start of their episodes; return the goals `(n, G, 3)` m."""
        xp = episodes.worlds.arrays.xp
        drawn = uniform(rows.of(episodes.seeds), rows.of(episodes.numbers), 3)
        row = xp.astype(drawn[0] * self._poses.shape[0], xp.int64)
        self._choice = drawn[1:]
        if self._randomization is not None:
            self._randomization.begin(rows, episodes)
        episodes.worlds.reset(rows, self._poses[row], self._parts[row])
        return self._goals[row]

    def go_on(self, rows: Rows, episodes: BatchEpisodes) -> None:
        """Let the share of the episodes of `rows` that begin later continue snapshots, see `Task.starts`."""
        if self._pools:
            self._continue(rows, episodes)
        if self._randomization is not None:
            self._randomization.start(rows)

    def _continue(self, rows: Rows, episodes: BatchEpisodes) -> None:
        arrays, xp = episodes.worlds.arrays, episodes.worlds.arrays.xp
        number, picked = self._choice
        none, zeros = arrays.zeros(episodes.count, dtype=xp.bool), arrays.zeros(episodes.count)
        picked = rows.replaced(zeros, picked)
        for pool in self._pools:
            chosen = Rows.of_mask(rows.replaced(none, (number >= 0.0) & (number < pool.share)))
            if not chosen.is_empty:
                source = xp.astype(chosen.of(picked) * pool.snapshots.count, xp.int64)
                episodes.copy_from(pool.snapshots, source, chosen)
            number = number - pool.share


POOL = 1024
"""Most episodes of the expert for each kind of later start; their seeds are constant, so that runs can be repeated."""


def make_pools(batch: Callable[[Task, int], BatchEpisodes], task: Task, steps: int, size: int = POOL) -> list[Pool]:
    """Let the scripted expert begin episodes, and return snapshots for each kind of later start.

    Args:
        batch: Returns a batch of a task and a number of episodes, without later starts.
        task: The task; its `starts` has the shares, see `Task.start_stages`, and all other episodes begin after its
            `stages_done`.
        steps: Most control steps of the expert.
        size: Number of the expert's episodes for each kind.
    """
    pools, done = [], task.stages_done
    plain = replace(task, starts={}, stages_done=0.0)
    kinds = [(share, *(max(done, stage) for stage in task.start_stages[name])) for name, share in task.starts.items()]
    for kind, (share, low, high) in enumerate([*kinds, *([(1.0, done, done)] if done else [])]):
        lead_in = low + (high - low) * (np.arange(size) + 0.5) / size
        episodes, kept = batch(plain, size), batch(plain, size)
        first = FIRST_SEED + kind * POOL
        episodes.seed(range(first, first + size))
        reached = lead(episodes, lead_in, steps - 1, partial(_keep, episodes, kept))
        if not reached.any():
            continue  # the expert does not get there: episodes begin at the reset
        snapshots = batch(plain, int(reached.sum()))
        arrays = snapshots.worlds.arrays
        snapshots.copy_from(kept, arrays.integers(np.flatnonzero(reached)), Rows.all(snapshots.count, arrays))
        pools.append(Pool(share, snapshots))
    return pools


def _keep(episodes: BatchEpisodes, kept: BatchEpisodes, rows: Array) -> None:
    """Copy the episodes `rows` `(N,)` bool as they are now."""
    arrays = episodes.worlds.arrays
    index = arrays.integers(np.flatnonzero(rows))
    kept.copy_from(episodes, index, Rows(arrays.flags(rows), index))
