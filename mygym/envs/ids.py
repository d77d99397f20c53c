"""Gymnasium ids of the tasks. Imports neither pybullet nor torch."""

from __future__ import annotations

import gymnasium

from mygym.registry import registry

ANY_TASK = "mygym/Gym-v0"
ENTRY_POINT = "mygym.envs.robot_env:RobotEnv"


def env_id(task: str) -> str:
    """`pick_and_place` → `mygym/PickAndPlace-v0`."""
    return f"mygym/{''.join(word.capitalize() for word in task.split('_'))}-v0"


def register_id(task: str) -> None:
    """Register the Gymnasium id of a task, unless it is registered."""
    if env_id(task) not in gymnasium.registry:
        gymnasium.register(env_id(task), ENTRY_POINT, kwargs={"task": task})


def register_ids() -> None:
    """Register an id for each task, now or when it is registered, and `mygym/Gym-v0`, which takes `task=`."""
    registry("task").watch(lambda entry: register_id(entry.name))
    if ANY_TASK not in gymnasium.registry:
        gymnasium.register(ANY_TASK, ENTRY_POINT)
