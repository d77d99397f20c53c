"""A batch of episodes on the fused arms: goals, progress and automatic resets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mygym.fused.arm import ArmModel, BatchArm
from mygym.fused.arrays import Arrays, to_numpy
from mygym.fused.random_numbers import uniform
from mygym.tasks.episode import act, advance, is_success
from mygym.tasks.episode_context import EpisodeContext
from mygym.tasks.progress import Progress
from mygym.tasks.sampling import Area, sample_batch
from mygym.tasks.task import Task
from mygym.types import Array

CANDIDATES = 8
"""Points that are drawn for a goal; the first that is far enough from the start is taken."""


@dataclass(frozen=True)
class BatchTask:
    """A task that the engine can represent: `approach` to a point, without an object."""

    task: Task
    area: Area
    """Box of the goals, m."""
    distance: float
    """m: least distance of a goal from the start of the tool."""


class BatchEpisodes:
    """`N` episodes side by side; each is decided by the seed of its environment and the number of the episode.

    Args:
        model: The arm.
        task: The task.
        count: `N`.
        arrays: Array library.
    """

    def __init__(self, model: ArmModel, task: BatchTask, count: int, arrays: Arrays) -> None:
        self.task, self.count, self.arrays = task.task, count, arrays
        self._drawn = task
        self.arm = BatchArm(model, count, arrays)
        self.seeds = arrays.integers(range(count))
        """`(N,)` seeds of the environments."""
        self.numbers = arrays.zeros(count, dtype=arrays.xp.int64)
        """`(N,)` numbers of the current episodes since the seeds were set."""
        self.elapsed = arrays.zeros(count, dtype=arrays.xp.int64)
        """`(N,)` control steps since the reset."""
        self.state = self.arm.state()
        self.goals = self._draw_goals()
        """`(N, 1, 3)` m: goal points."""
        self.progress = Progress.at_reset(self.state)

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
        xp = self.arrays.xp
        self.arm.reset(mask)
        self.state = self.arm.state()
        self.numbers = self.numbers + mask
        self.elapsed = self.elapsed * ~mask
        self.goals = xp.where(mask[:, None, None], self._draw_goals(), self.goals)
        self.progress = self.progress.restarted(mask, self.state)

    def step(self, action: Array) -> None:
        """Advance all episodes by a control step, with actions `(3, N)`."""
        self.arm.step(action)
        self.state = self.arm.state()
        self.elapsed = self.elapsed + 1
        self.progress = advance(self.task, self.progress, self.state, self.goals)

    def succeeded(self) -> Array:
        """Return `(N,)` bool: success has held for the task's `hold` steps."""
        return is_success(self.task, self.progress)

    def expert_action(self) -> Array:
        """Return the actions `(3, N)` of the scripted expert."""
        command = act(self.task, self.progress, self.state, self.goals)
        action = self.arm.controller.action_towards(command.target.T, self.arm.ee_command)
        return self.arrays.xp.clip(action, -1.0, 1.0)

    def _draw_goals(self) -> Array:
        """Return goals `(N, 1, 3)` m of the current episodes."""
        numbers = uniform(self.seeds, self.numbers, 3 * CANDIDATES)
        numbers = self.arrays.xp.reshape(numbers, (CANDIDATES, 3, self.count))
        drawn = self._drawn
        return sample_batch(numbers, drawn.area, self.arm.home_position, drawn.distance).T[:, None, :]

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next steps depend on, as numpy arrays."""
        progress = {name: to_numpy(getattr(self.progress, name)).copy() for name in Progress.__slots__}
        whole = {name: to_numpy(getattr(self, name)).copy() for name in _INTEGERS}
        return {"arm": self.arm.state_dict(), "goals": to_numpy(self.goals).copy(), "progress": progress, **whole}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a `state_dict`, to the bit."""
        arrays = self.arrays
        self.arm.load_state_dict(state["arm"])
        self.state = self.arm.state()
        self.goals = arrays.floats(state["goals"])
        for name in _INTEGERS:
            setattr(self, name, arrays.integers(state[name]))
        values = {
            name: (arrays.integers if name in _COUNTERS else arrays.floats)(value)
            for name, value in state["progress"].items()
        }
        self.progress = Progress(**values)


_INTEGERS = ("seeds", "numbers", "elapsed")
_COUNTERS = ("stage", "held", "count")
