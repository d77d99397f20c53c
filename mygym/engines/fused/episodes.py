"""A batch of episodes on the fused worlds: placement, goals, randomization, progress and automatic resets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from mygym.engines.fused.arm import BatchArm
from mygym.engines.fused.arrays import Arrays, Rows, normal, to_numpy, uniform
from mygym.engines.fused.world import BatchWorld, WorldModel
from mygym.tasks.episode import EpisodeContext, act, advance, is_success, potential
from mygym.tasks.sampling import Area, sample_batch
from mygym.tasks.state import Progress, State, namespace
from mygym.tasks.task import Task
from mygym.types import Array, FloatArray

CANDIDATES = 8
"""Points that are drawn for a goal; the first that is far enough from the start is taken."""


@dataclass(frozen=True)
class PlacementModel:
    """Areas from which an episode is drawn."""

    goals: tuple[Area, ...]
    """Boxes of the goals, m; each episode has one of them, or of two, see `second_share`."""
    distance: float
    """m: least distance of a goal from the start of the tool or of the object."""
    second_share: float = 0.5
    """Share of the episodes whose goal is in the second of two boxes."""
    object: Area | None = None
    """Box of the object's lowest points, m; None without an object."""
    lift: float = 0.0
    """m from the lowest point of the object up to its centre."""
    yaw: tuple[float, float] = (0.0, 0.0)
    """rad: lowest and highest yaw of the object."""


@dataclass(frozen=True)
class Placed:
    """Goals and objects at the start of the episodes of a batch."""

    goal: Array
    """`(3, N)` m."""
    position: Array
    """`(3, N)` m: centre of the object; the start of the tool without an object."""
    yaw: Array
    """`(N,)` rad."""
    choice: Array
    """`(2, N)` in [0, 1): random numbers that decide how the episode begins, see `mygym.engines.fused.episodes`."""


def place(model: PlacementModel, seeds: Array, numbers: Array, home: FloatArray) -> Placed:
    """Return the starts of episodes.

    Args:
        model: The areas.
        seeds: `(N,)` int64, see `uniform`.
        numbers: `(N,)` int64: numbers of the episodes.
        home: `(3,)` m: start of the tool.
    """
    xp, count = namespace(seeds), seeds.shape[0]
    goals = 3 * CANDIDATES
    drawn = uniform(seeds, numbers, goals if model.object is None else goals + 7)
    candidates = xp.reshape(drawn[:goals], (CANDIDATES, 3, count))
    if model.object is None:
        zeros = xp.zeros_like(drawn[:2])
        goal = sample_batch(candidates, model.goals[0], home, model.distance)
        return Placed(goal, goal, zeros[0], zeros)
    low, high = (corner.tolist() for corner in model.object)
    low[2], high[2] = low[2] + model.lift, high[2] + model.lift
    position = xp.stack([low[i] + drawn[goals + i] * (high[i] - low[i]) for i in range(3)])
    goal = sample_batch(candidates, _lifted(model.goals[0], model.lift), position, model.distance)
    if len(model.goals) > 1:
        second = sample_batch(candidates, _lifted(model.goals[1], model.lift), position, model.distance)
        goal = xp.where(drawn[goals + 3] < model.second_share, second, goal)
    yaw = model.yaw[0] + drawn[goals + 4] * (model.yaw[1] - model.yaw[0])
    return Placed(goal, position, yaw, drawn[goals + 5 :])


def _lifted(area: Area, by: float) -> Area:
    """Return an area moved up by `by` m."""
    return area[0] + (0.0, 0.0, by), area[1] + (0.0, 0.0, by)


Table = Mapping[str, FloatArray]
"""Field of `EpisodeRandomization` → `(K,)` values, or `(J, K)` for values of each joint; only the fields that vary."""

FIELDS = ("object_friction", "object_damping", "joint_gain", "action_delay", "action_noise", "observation_noise")
"""Fields that the engine represents."""

ROW = 0
"""Stream of the random number that selects the row. In a step, actions and observations have the next two."""


class BatchRandomization:
    """The randomization of `N` episodes; `begin` must precede every other use.

    Args:
        table: The draws.
        action_size: `A`.
        count: `N`.
        arrays: Array library.
    """

    def __init__(self, table: Table, action_size: int, count: int, arrays: Arrays) -> None:
        self._arrays, self._table = arrays, {name: arrays.floats(values) for name, values in table.items()}
        self._rows = len(next(iter(table.values())).T)
        self.values = {name: values[..., :1] + arrays.zeros(count) for name, values in self._table.items()}
        """Field → `(N,)`, or `(J, N)` for values of each joint."""
        steps = int(table["action_delay"].max()) if "action_delay" in table else 0
        self._hold = arrays.zeros(action_size, 1)
        self._hold[3:] = 1.0  # the action that DomainRandomizer.start gives: stay, with open fingers
        self.delayed = self._hold + arrays.zeros(steps, 1, count)
        """`(D, A, N)`: the last actions, the newest first."""

    def begin(self, rows: Rows, seeds: Array, numbers: Array) -> None:
        """Draw the parameters of episodes that begin.

        Args:
            rows: Their environments.
            seeds: `(N,)` int64 of all environments, see `uniform`.
            numbers: `(N,)` int64 of all environments: numbers of the episodes.
        """
        xp = self._arrays.xp
        row = xp.astype(uniform(rows.of(seeds), rows.of(numbers), 1, ROW)[0] * self._rows, xp.int64)
        for name, values in self._table.items():
            self.values[name] = rows.replaced(self.values[name], values[..., row])
        self.delayed = rows.replaced(self.delayed, self._hold)

    def act(self, action: Array, seeds: Array, numbers: Array, elapsed: Array) -> Array:
        """Return the actions `(A, N)` that take effect in the step of the actions `action` `(A, N)`.

        Args:
            action: The actions.
            seeds: `(N,)` int64.
            numbers: `(N,)` int64: numbers of the episodes.
            elapsed: `(N,)` int64: control steps before this step.
        """
        xp, delay = self._arrays.xp, self.values.get("action_delay")
        if (deviation := self.values.get("action_noise")) is not None:
            action = action + deviation * normal(seeds, numbers, action.shape[0], 2 * elapsed + 1)
        if delay is None or not self.delayed.shape[0]:
            return action
        taken = action
        for steps in range(1, self.delayed.shape[0] + 1):
            taken = xp.where(delay == steps, self.delayed[steps - 1], taken)
        self.delayed = xp.concat([action[None], self.delayed[:-1]])
        return taken

    def noise(self, measured: Array, seeds: Array, numbers: Array, elapsed: Array) -> Array | None:
        """Return the noise `(N, d)` of observations, or None.

        Args:
            measured: `(d,)`: 1 for values with noise, else 0.
            seeds: `(N,)` int64.
            numbers: `(N,)` int64: numbers of the episodes.
            elapsed: `(N,)` int64: control steps before the observation.
        """
        deviation = self.values.get("observation_noise")
        if deviation is None:
            return None
        noise: Array = deviation * normal(seeds, numbers, measured.shape[0], 2 * elapsed + 2)
        return noise.T * measured

    def variables(self) -> list[Array]:
        """Return the arrays that a step reads and may replace, in the order of `set_variables`."""
        return [*self.values.values(), self.delayed]

    def set_variables(self, arrays: Iterator[Array]) -> None:
        """Replace the arrays of `variables` by the next of `arrays`."""
        self.values = {name: next(arrays) for name in self.values}
        self.delayed = next(arrays)

    def state_dict(self) -> dict[str, Array]:
        """Return all that does not follow from seeds, numbers and steps."""
        return {"delayed": to_numpy(self.delayed).copy()}

    def load_state_dict(self, state: Mapping[str, Array], seeds: Array, numbers: Array) -> None:
        """Restore a `state_dict` of episodes `(N,)`."""
        self.begin(Rows.of_mask(numbers < math.inf), seeds, numbers)
        self.delayed = self._arrays.floats(state["delayed"])


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


POOL = 1024
"""Episodes of the expert for each kind of start; their seeds are constant, so that runs can be repeated."""

FIRST_SEED = 1 << 40
"""Seed of the first of these episodes: no environment of a run has it."""


def make_pools(model: WorldModel, task: BatchTask, arrays: Arrays) -> list[Pool]:
    """Let the scripted expert begin episodes, and return snapshots for each kind of start.

    Args:
        model: Arm, gripper and object.
        task: The task; `starts` of its `task` has the shares, see `Task.start_stages`.
        arrays: Array library.
    """
    pools = []
    plain = replace(task, task=replace(task.task, starts={}))
    for kind, (name, share) in enumerate(task.task.starts.items()):
        low, high = task.task.start_stages[name]
        lead_in = low + (high - low) * (np.arange(POOL) + 0.5) / POOL
        episodes = BatchEpisodes(model, plain, POOL, arrays)
        first = FIRST_SEED + kind * POOL
        episodes.seed(range(first, first + POOL))
        reached = lead(episodes, lead_in, task.lead_in_steps)
        if not reached.any():
            continue  # the expert does not get there: episodes begin at the reset
        snapshots = BatchEpisodes(model, plain, int(reached.sum()), arrays)
        snapshots.copy_from(episodes, arrays.integers(np.flatnonzero(reached)), Rows.of_mask(snapshots.elapsed >= 0))
        pools.append(Pool(share, snapshots))
    return pools


def lead(episodes: BatchEpisodes, lead_in: FloatArray, steps: int) -> Array:
    """Let the expert complete stages; return `(N,)` bool: whether the expert has completed them.

    Args:
        episodes: Episodes, each left at the step at which its stages are complete.
        lead_in: `(N,)` stages; a share of a stage is a share of the potential that was missing when the stage began.
        steps: Most control steps.
    """
    task = episodes.task
    count = len(task.stage_bindings)
    stages = np.floor(lead_in)
    share, end = lead_in - stages, stages + 1.0 - count
    begin = np.full(len(lead_in), math.nan)
    done = np.zeros(len(lead_in), dtype=bool)
    kept = episodes.state_dict()
    for step in range(steps):
        stage = to_numpy(episodes.progress.stage)
        value = to_numpy(potential(task, episodes.progress, episodes.state, episodes.goals))
        begin = np.where(np.isnan(begin) & (stage >= stages), value, begin)
        arrives = ~done & ((stage > stages) | ((stage == stages) & (value >= begin + share * (end - begin))))
        if arrives.any():
            kept = _merged(kept, episodes.state_dict(), arrives, len(lead_in))
            done |= arrives
        if done.all() or step == steps - 1:
            break
        episodes.step(episodes.expert_action())
    episodes.load_state_dict(kept)
    return done


def _merged(old: dict[str, Any], new: dict[str, Any], rows: Array, count: int) -> dict[str, Any]:
    """Return nested arrays with the episodes `rows` `(N,)` bool of `new`, the others of `old`."""
    merged: dict[str, Any] = {}
    for key, value in new.items():
        if isinstance(value, dict):
            merged[key] = _merged(old[key], value, rows, count)
        else:
            mask = rows.reshape((-1,) + (1,) * (value.ndim - 1)) if value.shape[0] == count else rows
            merged[key] = np.where(mask, value, old[key])
    return merged
