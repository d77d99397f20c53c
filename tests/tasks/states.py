"""Random states in which stages begin and end, as numpy or torch, whole or one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import torch

from mygym.tasks.progress import Progress
from mygym.tasks.state import State

JOINTS, FINGERS = 7, 2


def random_state(rng: np.random.Generator, n: int, objects: int = 1, goal: Any = None) -> State:
    """`n` worlds; end effector, object and goal are often within a task's distances of each other."""

    def near(point: Any) -> Any:
        scale = rng.choice([0.0, 0.01, 0.03, 0.1, 0.3], size=(n, 1))
        return point + scale * rng.normal(size=(n, 3))

    state = State.zeros(n, JOINTS, FINGERS, objects)
    state.time[:] = rng.uniform(0, 4, n)
    anchor = goal if goal is not None else rng.uniform(-0.2, 0.2, (n, 3))
    if objects:
        state.object_position[:, 0] = near(anchor)
        state.ee_position[:] = near(state.object_position[:, 0])
    else:
        state.ee_position[:] = near(anchor)
    state.finger_contact[...] = rng.random((n, objects, FINGERS)) < 0.6
    state.gripper_width[:] = rng.uniform(0, 0.08, n)
    for array in (state.ee_orientation, state.object_orientation):
        array[...] = rng.normal(size=array.shape)
        array /= np.linalg.norm(array, axis=-1, keepdims=True)
    for array in (state.ee_velocity, state.joint_position, state.joint_velocity):
        array[...] = rng.normal(size=array.shape)
    state.object_velocity[...] = rng.normal(size=state.object_velocity.shape)
    state.object_angular_velocity[...] = rng.normal(size=state.object_angular_velocity.shape)
    return state


def random_progress(rng: np.random.Generator, state: State, stages: int) -> Progress:
    n = len(state.time)
    stage = rng.integers(0, stages + 1, n)
    held = np.where(stage == stages, rng.integers(1, 5, n), 0)
    start_ee = state.ee_position + 0.1 * rng.normal(size=(n, 3))
    return Progress(stage, held, start_ee, state.object_position + 0.1 * rng.normal(size=state.object_position.shape))


def each(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with every array in it changed."""
    if isinstance(value, State | Progress):
        return type(value)(**{field.name: change(getattr(value, field.name)) for field in fields(value)})
    return change(value)


def one(value: Any, index: int) -> Any:
    """The batch of one at `index`."""
    return each(value, lambda array: array[index : index + 1].copy())


def as_torch(value: Any) -> Any:
    return each(value, lambda array: torch.from_numpy(np.ascontiguousarray(array)))


def arrays_of(value: Any) -> list[Any]:
    """The arrays in a result, as numpy."""
    if isinstance(value, State | Progress):
        return [np.asarray(getattr(value, field.name)) for field in fields(value)]
    return [np.asarray(value)]
