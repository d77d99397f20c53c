"""Gymnasium ids of the tasks; imports neither pybullet nor torch."""

from __future__ import annotations

import gymnasium

from mygym.registry import registry

ANY_TASK = "mygym/Gym-v0"
ENTRY_POINT = "mygym.envs.robot_env:RobotEnv"


def env_id(task: str) -> str:
    """Return the Gymnasium id of a task: `pick_and_place` → `mygym/PickAndPlace-v0`."""
    return f"mygym/{''.join(word.capitalize() for word in task.split('_'))}-v0"


def register_id(task: str) -> None:
    """Register the Gymnasium id of a task, unless it is registered."""
    if env_id(task) not in gymnasium.registry:
        gymnasium.register(env_id(task), ENTRY_POINT, kwargs={"task": task})


def register_ids() -> None:
    """Register an id for every task, now or when the task is registered, and `mygym/Gym-v0` with a `task` argument."""
    registry("task").watch(lambda entry: register_id(entry.name))
    if ANY_TASK not in gymnasium.registry:
        gymnasium.register(ANY_TASK, ENTRY_POINT)
