"""Observations as goal dictionaries or flat vectors; and of the same state in another composition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mygym.envs.observing import Observer, Vector
from mygym.tasks import goals
from mygym.tasks.context import EpisodeContext
from mygym.tasks.goals import GoalSpace
from mygym.tasks.shared import shared_goal_space
from mygym.tasks.task import Task

Observation = dict[str, NDArray[np.float32]] | NDArray[np.float32]


@dataclass(frozen=True)
class Composition:
    """What an environment's observations are made of."""

    components: tuple[str, ...]
    """Names, in order."""
    spaces: str
    """`own` or `shared`."""
    goal_env: bool
    """Whether they are goal dictionaries, not flat vectors."""


class Composer:
    """Makes observations of situations, all of one task; exact ones, whatever noise the environment adds to its own.

    Args:
        composition: What they are made of.
        context: Any of the environment's.

    Raises:
        ConfigError: A component that the task cannot have, or one that has no room.
        RegistryError: There is none of a name.
    """

    def __init__(self, composition: Composition, context: EpisodeContext) -> None:
        shared = composition.spaces == "shared"
        self._observer = Observer(composition.components, context, shared)
        self._goal_space = goal_space_of(context.task, shared)
        self._goal_env = composition.goal_env
        self.space = space_of(self._observer, self._goal_space, composition.goal_env)
        """Where they lie."""

    def __call__(self, context: EpisodeContext) -> Observation:
        """Fresh arrays, of the first episode."""
        achieved = goals.achieved_goal(self._goal_space, context.progress, context.state, context.goals)
        desired = goals.desired_goal(self._goal_space, context.goals)
        parts = achieved[0].astype(np.float32), desired[0].astype(np.float32)
        return arranged(self._observer(context), *parts, self._goal_env)


def goal_space_of(task: Task, shared: bool) -> GoalSpace:
    """The goal vectors of a task, in its own spaces or in those that tasks share."""
    return shared_goal_space(task) if shared else goals.goal_space(task)


def arranged(observation: Vector, achieved: Vector, desired: Vector, goal_env: bool) -> Observation:
    """The three as a goal dictionary of these very arrays, or in one flat vector."""
    if goal_env:
        return {"observation": observation, "achieved_goal": achieved, "desired_goal": desired}
    return np.concatenate([observation, achieved, desired])


def space_of(observer: Observer, goal_space: GoalSpace, goal_env: bool) -> gymnasium.Space[Any]:
    """Where observations lie."""
    goal = np.full(goal_space.size, goals.BOUND, dtype=np.float32)
    if not goal_env:
        bound = np.concatenate([observer.bound, goal, goal])
        return gymnasium.spaces.Box(-bound, bound, dtype=np.float32)
    parts = {"observation": observer.bound, "achieved_goal": goal, "desired_goal": goal}
    return gymnasium.spaces.Dict(
        {key: gymnasium.spaces.Box(-bound, bound, dtype=np.float32) for key, bound in parts.items()}
    )
