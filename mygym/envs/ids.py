"""Gymnasium ids of the tasks; imports neither pybullet nor torch."""

from __future__ import annotations

from typing import Any

import gymnasium

from mygym.registry import registry

ANY_TASK = "mygym/Gym-v0"
FLAT = "mygym-flat"
"""Namespace of ids with flat observations, for code that passes no arguments to `gymnasium.make`."""

FUSED = "mygym-fused"
"""Namespace of ids for `gymnasium.make_vec` that stand for `engine="fused"`."""

ENTRY_POINT, VECTOR_ENTRY_POINT = (f"mygym.envs.entry_points:{name}" for name in ("make_env", "make_vector_env"))


def env_id(task: str) -> str:
    """Return the Gymnasium id of a task: `pick_and_place` → `mygym/PickAndPlace-v0`.

    Args:
        task: Name of the task.
    """
    return f"mygym/{''.join(word.capitalize() for word in task.split('_'))}-v0"


def register_ids() -> None:
    """Register ids for every task, now or when the task is registered, and `mygym/Gym-v0` with a `task` argument."""
    registry("task").watch(lambda entry: _register(env_id(entry.name), {"task": entry.name}))
    _register(ANY_TASK, {})


def _register(name: str, keywords: dict[str, Any]) -> None:
    """Register an id, and those with flat observations and of the fused engine, unless they are registered."""
    _, stem = name.split("/")
    flat, fused = f"{FLAT}/{stem}", f"{FUSED}/{stem}"
    for each, extra in ((name, {}), (flat, {"goal_env": False})):
        if each not in gymnasium.registry:
            gymnasium.register(each, ENTRY_POINT, vector_entry_point=VECTOR_ENTRY_POINT, kwargs={**keywords, **extra})
    if fused not in gymnasium.registry:
        gymnasium.register(fused, vector_entry_point=VECTOR_ENTRY_POINT, kwargs={**keywords, "engine": "fused"})


def use_time_limit(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Set the horizon to the `max_episode_steps` of the spec; a wrapper in specs that version 0.2 has stored."""
    robot_env: Any = env.unwrapped
    assert env.spec is not None
    robot_env.set_horizon(env.spec.max_episode_steps)
    return env
