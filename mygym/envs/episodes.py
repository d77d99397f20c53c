"""Episodes of `N` worlds side by side: goals, progress, failures and the scripted expert."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mygym.engines.arrays import Rows, to_numpy
from mygym.engines.world import BatchWorlds, World, Worlds
from mygym.envs.randomization import BatchRandomization, DomainRandomizer
from mygym.robotics.workspace import Area
from mygym.tasks.context import ArmCommand
from mygym.tasks.episode import EpisodeContext, act, advance, is_success
from mygym.tasks.rewards import Memory, potential
from mygym.tasks.stage import CLOSED
from mygym.tasks.state import Progress, State
from mygym.tasks.task import Task
from mygym.types import Array, FloatArray

LIMIT = 0.99
"""Size of an action component, in [0, 1], from which it counts as saturated."""

MOVED = 1e-3
"""Change of a part's joint position, m or rad, from which the part counts as touched."""


class Starts(Protocol):
    """Draws how episodes begin."""

    def begin(self, rows: Rows, episodes: Any) -> Array:
        """Put the worlds of `rows` at the start of their episodes; return the goals `(n, G, 3)` m, world frame."""

    def go_on(self, rows: Rows, episodes: Any) -> None:
        """Let those episodes of `rows` that begin later be at their first step."""


_NO, _YES = np.array([False]), np.array([True])

STATE = ("seeds", "numbers", "elapsed", "stages_done", "failed", "touched", "goals", "saturated")
"""Attributes of `Episodes` on which the next steps depend, besides `progress` and `memory`."""


class Episodes:
    """`N` episodes, advanced together with their worlds.

    All attributes are arrays of the worlds' library that a step replaces; it changes none in place.

    Args:
        task: The task.
        worlds: The worlds.
        starts: Draws how episodes begin.
        bounds: Box in which objects of the task are not lost, m.
        disturbances: Delay and noise of actions; None: neither.
    """

    def __init__(
        self,
        task: Task,
        worlds: Worlds,
        starts: Starts,
        bounds: Area,
        disturbances: DomainRandomizer | BatchRandomization | None = None,
    ) -> None:
        self.task, self.worlds, self.starts, self.disturbances = task, worlds, starts, disturbances
        self.count, arrays = worlds.count, worlds.arrays
        self._xp, self._real, self._roles = arrays.xp, arrays.real, len(task.roles)
        self._is_world = isinstance(worlds, World)
        """Whether a few lines of plain Python replace array code, which would take 3 % of a step in Bullet."""
        self._bounds = bounds.low, bounds.high
        self._low, self._high = arrays.floats(bounds.low), arrays.floats(bounds.high)
        self._parts = [stage.part for stage in task.stage_bindings if stage.part is not None]
        self.seeds = arrays.integers(range(self.count))
        """`(N,)` seeds of the environments."""
        self.numbers = arrays.integers([0] * self.count)
        """`(N,)` numbers of the current episodes since the seeds were set."""
        self.elapsed = arrays.integers([0] * self.count)
        """`(N,)` control steps since the reset."""
        self.stages_done = arrays.integers([0] * self.count)
        """`(N,)`: most stages done in the episode."""
        self.failed = arrays.flags([False] * self.count)
        """`(N,)` bool: an object of the task has left the workspace."""
        self.touched = arrays.flags([False] * self.count)
        """`(N,)` bool: the robot has pressed on an object of the task, or moved a part of it, in the episode."""
        self.saturated = arrays.zeros(self.count)
        """`(N,)`: sum over the actions of the share of components at a limit."""
        self.goals = arrays.zeros(self.count, task.goal_count, 3)
        """`(N, G, 3)` m: goal points of the task."""
        self.memory: Memory = {}
        """Inputs of the reward before the next step, see `Reward.begin`."""
        self.progress = Progress.at_reset(worlds.state)
        self._part_start = worlds.state.part_position[:, self._parts]

    @property
    def context(self) -> EpisodeContext:
        """Input of observation components and rewards."""
        worlds = self.worlds
        return EpisodeContext(self.task, self.progress, worlds.state, self.goals, self.elapsed, worlds.action_repeat)

    def seed(self, seeds: Iterable[int]) -> None:
        """Set the seeds of the environments and begin the first episode of each."""
        arrays = self.worlds.arrays
        self.seeds = arrays.integers(list(seeds))
        self.numbers = arrays.integers([-1] * self.count)
        self.begin(Rows.all(self.count, arrays))

    def begin(self, rows: Rows) -> None:
        """Begin the next episode of some environments."""
        others = ~rows.mask
        self.numbers = self.numbers + rows.mask
        self.elapsed, self.stages_done = self.elapsed * others, self.stages_done * others
        self.failed, self.touched = self.failed & others, self.touched & others
        self.saturated = self.saturated * others
        self.goals = rows.replaced(self.goals, self.starts.begin(rows, self), axis=0)
        state = self.worlds.state
        self.progress = self.progress.restarted(rows.mask, state)
        if self._parts:
            moved = state.part_position[:, self._parts]
            self._part_start = self._xp.where(rows.mask[:, None], moved, self._part_start)
        self.starts.go_on(rows, self)

    def begin_at(self, goals: Array) -> None:
        """Let all episodes begin with goals `(N, G, 3)` m, in the current states of the worlds."""
        self.goals = goals
        self.progress = Progress.at_reset(self.worlds.state)

    def advance(self, actions: Array) -> None:
        """Advance all episodes by an action `(N, A)`, which is repeated unless an episode ends."""
        xp, at_limit = self._xp, abs(actions) >= LIMIT
        if self._is_world:  # a third of the time
            self.saturated = self.saturated + np.count_nonzero(at_limit) / actions.shape[1]
        else:
            self.saturated = self.saturated + xp.sum(xp.astype(at_limit, self._real), axis=1) / actions.shape[1]
        self.step(actions)
        for _ in range(self.worlds.action_repeat - 1):
            if self.failed[0] or self.elapsed[0] >= self.task.limit or self.succeeded()[0]:
                break
            self.step(actions)

    def step(self, actions: Array) -> None:
        """Advance all episodes by a control step, with actions `(N, A)`."""
        if self.disturbances is not None:
            actions = self.disturbances.act(actions, self)
        self.worlds.step_all(actions)
        state = self.worlds.state
        self.elapsed = self.elapsed + 1
        self.progress = advance(self.task, self.progress, state, self.goals)
        self.stages_done = self._xp.maximum(self.stages_done, self.progress.stage)
        if self._is_world:
            self._judge_one(state)
        else:
            self._judge(state)

    def _judge(self, state: State) -> None:
        """Update what has happened to the objects and parts of the task."""
        xp = self._xp
        if self._roles:
            self.touched = self.touched | xp.any(state.touch[:, : self._roles], axis=1)
            self.failed = self.has_left(state.object_position[:, : self._roles])
        if self._parts:
            change = abs(state.part_position[:, self._parts] - self._part_start)
            self.touched = self.touched | xp.any(change > MOVED, axis=1)

    def _judge_one(self, state: State) -> None:
        """Do as `_judge` in plain Python."""
        if self._roles:
            low, high = self._bounds
            positions = state.object_position[0, : self._roles].tolist()
            inside = all(a <= x <= b for position in positions for a, x, b in zip(low, position, high, strict=True))
            self.failed = _NO if inside else _YES
            if not self.touched[0] and state.touch[0, : self._roles].any():
                self.touched = _YES
        if self._parts and not self.touched[0]:
            change = np.abs(state.part_position[0, self._parts] - self._part_start[0])
            self.touched = _YES if change.max() > MOVED else _NO

    def has_left(self, positions: Array) -> Array:
        """Return `(N,)` bool: whether any of positions `(N, k, 3)` m is outside the workspace, or not a number."""
        xp = self._xp
        inside = (positions >= self._low) & (positions <= self._high)
        return ~xp.all(xp.reshape(inside, (positions.shape[0], -1)), axis=1)

    def succeeded(self) -> Array:
        """Return `(N,)` bool: success has held for the task's `hold` steps."""
        return is_success(self.task, self.progress)

    def expert_action(self) -> Array:
        """Return the actions `(N, A)` of the scripted experts of the active stages."""
        motion = act(self.task, self.progress, self.worlds.state, self.goals)
        # With shared spaces the fingers can move and the tool can turn in every task. If a task needs neither, keep
        # the fingers closed, and the tool as it is.
        gripper = motion.gripper if self.task.uses_gripper else CLOSED
        turn = motion.yaw_change if self.task.needs_tool_yaw else None
        return self.worlds.actions_towards(
            ArmCommand(motion.target, gripper, turn, motion.second_target, motion.second_gripper)
        )

    def visible_goal(self) -> FloatArray | None:
        """Return the goal `(3,)` m of the first episode's active sub-task, as a view; None if it is not a point."""
        stages = self.task.stage_bindings
        bound = stages[min(int(self.progress.stage[0]), len(stages) - 1)]
        return None if bound.part is not None else self.goals[0, bound.goal_slot]


class BatchEpisodes(Episodes):
    """`N` episodes whose whole state is in arrays, so that they can be stored, continued, and repeated on a GPU."""

    worlds: BatchWorlds
    disturbances: BatchRandomization | None

    def copy_from(self, other: BatchEpisodes, source: Array, rows: Rows) -> None:
        """Let `rows` continue the episodes `source` `(n,)` of another batch, with new seeds and counters of steps."""
        self.worlds.copy_from(other.worlds, source, rows)
        self.goals = rows.replaced(self.goals, other.goals[source], axis=0)
        self.progress = Progress(
            *(
                rows.replaced(getattr(self.progress, name), getattr(other.progress, name)[source], axis=0)
                for name in Progress.__slots__
            )
        )
        for name in ("stages_done", "touched"):  # an episode's lead-in counts for both
            setattr(self, name, rows.replaced(getattr(self, name), getattr(other, name)[source], axis=0))

    def move_from(self, other: BatchEpisodes, source: Array, rows: Rows) -> None:
        """Continue episodes of another batch as they are, see `copy_from`."""
        self.copy_from(other, source, rows)
        for name in STATE:
            setattr(self, name, rows.replaced(getattr(self, name), getattr(other, name)[source], axis=0))
        self.memory = {
            name: rows.replaced(values, other.memory[name][source], axis=0) for name, values in self.memory.items()
        }
        if self.disturbances is not None and other.disturbances is not None:
            self.disturbances.move_from(other.disturbances, source, rows)
            self.load_state_dict(self.state_dict())  # the worlds take their parameters

    def variables(self) -> list[Array]:
        """Return the arrays that a step reads and may replace, in the order of `set_variables`."""
        disturbed = [] if self.disturbances is None else self.disturbances.variables()
        progress = [getattr(self.progress, name) for name in Progress.__slots__]
        mine = [getattr(self, name) for name in STATE]
        return [*self.worlds.variables(), *progress, *mine, *self.memory.values(), *disturbed]

    def set_variables(self, arrays: Iterable[Array]) -> None:
        """Replace the arrays of `variables`."""
        rest = iter(arrays)
        self.worlds.set_variables(rest)
        self.progress = Progress(*(next(rest) for _ in Progress.__slots__))
        for name in STATE:
            setattr(self, name, next(rest))
        self.memory = {name: next(rest) for name in self.memory}
        if self.disturbances is not None:
            self.disturbances.set_variables(rest)

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next steps depend on, as numpy arrays."""
        progress = {name: to_numpy(getattr(self.progress, name)).copy() for name in Progress.__slots__}
        mine = {name: to_numpy(getattr(self, name)).copy() for name in STATE}
        state = {"world": self.worlds.state_dict(), "progress": progress, **mine}
        return state if self.disturbances is None else {**state, "randomization": self.disturbances.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict`, to the bit."""
        arrays = self.worlds.arrays
        self.worlds.load_state_dict(state["world"])
        for name in STATE:
            setattr(self, name, arrays.like(getattr(self, name), state[name]))
        saved = state["progress"].items()
        self.progress = Progress(**{name: arrays.like(getattr(self.progress, name), value) for name, value in saved})
        if self.disturbances is not None:
            self.disturbances.load_state_dict(state["randomization"], self)


def lead(
    episodes: Episodes, lead_in: FloatArray, steps: int, keep: Callable[[NDArray[np.bool_]], None] | None = None
) -> NDArray[np.bool_]:
    """Let the expert complete stages; return `(N,)` bool: whether it has completed them.

    Args:
        episodes: Episodes. A single one is left at the step at which its stages are complete, or where it is.
        lead_in: `(N,)` stages; a share of a stage is a share of the potential that was missing when the stage began.
        steps: Most control steps.
        keep: Called when episodes have completed their stages, with `(N,)` bool: which; they go on with the others.
    """
    stages = np.floor(lead_in)
    share, end = lead_in - stages, stages + 1.0 - len(episodes.task.stage_bindings)
    begin = np.full(len(lead_in), math.nan)
    done = np.zeros(len(lead_in), dtype=bool)
    for step in range(steps + 1):
        stage, value = to_numpy(episodes.progress.stage), to_numpy(potential(episodes.context))
        begin = np.where(np.isnan(begin) & (stage >= stages), value, begin)
        arrives = ~done & ((stage > stages) | ((stage == stages) & (value >= begin + share * (end - begin))))
        done |= arrives
        if keep is not None and arrives.any():
            keep(arrives)
        if done.all() or step == steps:
            break
        episodes.step(episodes.worlds.arrays.floats(episodes.expert_action()))
    return done
