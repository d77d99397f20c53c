"""Random states, progress and goals in which stages begin and end, as NumPy arrays or PyTorch tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch

from mygym.registry import registry
from mygym.tasks.context import ArmCommand, StageBinding, StageContext
from mygym.tasks.lookup import find_task
from mygym.tasks.predicates import Predicate
from mygym.tasks.state import Progress, State
from mygym.tasks.task import Task
from tests.components import EVERY_TASK, TASKS_OF_EACH_STAGE, tower

PREDICATES: dict[str, Predicate] = {entry.name: entry.load() for entry in registry("predicate") if entry.built_in}
EXCLUDES = {name: predicate.excludes for name, predicate in PREDICATES.items() if predicate.excludes}
INITIAL = tuple(name for name, predicate in PREDICATES.items() if predicate.initial)

JOINTS, FINGERS = 7, 2
PARTS = ("cabinet.drawer", "fridge.door")

STACK = tower("cube", "die")
PUSH_THEN_REACH = [{"stages": ["approach", "push", "withdraw"], "object": "ball"}, {"stages": "A"}]
SAME_AGAIN = [{"stages": "AGMDW", "object": "cube"}, {"stages": "AGM", "object": "cube"}]
HANDLE = [{"stages": "A", "part": PARTS[1]}]
OPEN = [{"stages": ["approach", "shift", "withdraw"], "part": PARTS[0]}, {"stages": "AGM", "object": "cube"}]
"""The stage `shift` is registered by the tests, e.g. by the fixture `shift` of test_subtasks.py."""
LISTED = {"stack": STACK, "push, reach": PUSH_THEN_REACH, "same again": SAME_AGAIN, "handle": HANDLE}
"""Tasks of several sub-tasks, and a task on a part."""
of_compositions = pytest.mark.parametrize(
    "compositions",
    [[*TASKS_OF_EACH_STAGE, *LISTED], pytest.param([*EVERY_TASK, *LISTED], marks=pytest.mark.slow)],
    ids=["of each stage", "all"],
)
"""Runs a test with the names of tasks for a loop: a failure shows the name, among the local variables."""


def the_task(composition: Any) -> Task:
    """Return a task in a workspace that has `PARTS`; `composition` may be a key of `LISTED`."""
    return replace(
        find_task(LISTED.get(composition, composition) if isinstance(composition, str) else composition), parts=PARTS
    )


def stage_binding(object: int | None = 0, part: int | None = None, **how: Any) -> StageBinding:
    """Return the binding of a stage on the first object, with the first goal."""
    return StageBinding(0, object, part, goal_slot=0, **how)


def random_goals(rng: np.random.Generator, n: int, points: int = 1) -> Any:
    return rng.uniform(-0.2, 0.2, (n, points, 3))


def random_state(
    rng: np.random.Generator, n: int, objects: int = 1, parts: int = 0, goals: Any = None, arms: int = 1
) -> State:
    """Return the states of `n` worlds.

    End effector, objects, handles and goals are often within the tolerances of a task from each other.
    """

    def near(point: Any) -> Any:
        scale = rng.choice([0.0, 0.01, 0.03, 0.1, 0.3], size=(n, 1))
        return point + scale * rng.normal(size=(n, 3))

    state = State.zeros(n, JOINTS, FINGERS, objects, parts, arms, FINGERS * (arms > 1))
    for field in fields(state):
        array = getattr(state, field.name)
        array[...] = rng.random(array.shape) < 0.6 if array.dtype == bool else rng.normal(size=array.shape)
    goals = random_goals(rng, n) if goals is None else goals
    for k in range(objects):
        state.object_position[:, k] = near(goals[:, k % goals.shape[1]])
    for p in range(parts):
        state.part_position[:, p] = near(goals[:, p % goals.shape[1]])[:, 0]
        state.part_handle_position[:, p] = near(goals[:, 0])
    targets = [*state.object_position.swapaxes(0, 1), *state.part_handle_position.swapaxes(0, 1)] or [goals[:, 0]]
    state.ee_position[:] = near(np.stack(targets)[rng.integers(0, len(targets), n), np.arange(n)])
    state.object_velocity *= rng.choice([0.0, 0.02, 1.0], size=(n, objects, 1))
    state.object_depth[:] = rng.choice([0.0, 0.005, 0.02], size=(n, objects), p=[0.8, 0.1, 0.1])
    state.time[:] = rng.uniform(0, 4, n)
    state.gripper_width[:], state.gripper_command[:] = rng.uniform(0, 0.08, n), rng.uniform(0, 1, n)
    for array in (state.ee_orientation, state.object_orientation):
        array /= np.linalg.norm(array, axis=-1, keepdims=True)
    return state


def random_progress(rng: np.random.Generator, state: State, stages: int) -> Progress:
    n = len(state.time)
    stage = rng.integers(0, stages + 1, n)

    def shifted(array: Any) -> Any:
        return array + 0.1 * rng.normal(size=array.shape)

    return Progress(
        stage=stage,
        held=np.where(stage == stages, rng.integers(1, 5, n), 0),
        start_ee_position=shifted(state.ee_position),
        start_object_position=shifted(state.object_position),
        start_part_position=shifted(state.part_position),
        count=rng.integers(0, 20, n),
    )


def random_view(rng: np.random.Generator, n: int, step: StageBinding | None = None) -> StageContext:
    """Return the context of a stage, by default of a stage on the first of two objects."""
    goals = random_goals(rng, n, 2)
    state = random_state(rng, n, 2, 2, goals)
    return StageContext(state, random_progress(rng, state, 3), goals, step or stage_binding())


def worlds(composition: Any, seed: int, n: int) -> tuple[Task, Progress, State, Any]:
    """Return a task with the progress, states and goals of `n` episodes, each in the middle of an episode."""
    task, rng = the_task(composition), np.random.default_rng(seed)
    goals = random_goals(rng, n, task.goal_count)
    state = random_state(rng, n, len(task.roles), len(task.parts), goals, task.arms)
    return task, random_progress(rng, state, len(task.stage_bindings)), state, goals


def each(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return `value` with `change` applied to every array in it."""
    if isinstance(value, State | Progress | StageContext | ArmCommand):
        return type(value)(**{field.name: each(getattr(value, field.name), change) for field in fields(value)})
    return value if value is None or isinstance(value, float | StageBinding) else change(value)


def single(value: Any, index: int) -> Any:
    """Return the batch that has only the row `index`."""
    return each(value, lambda array: array[index : index + 1].copy())


def as_torch(value: Any) -> Any:
    return each(value, lambda array: torch.from_numpy(np.ascontiguousarray(array)))


def arrays_of(value: Any) -> list[Any]:
    """Return the arrays in a result, as NumPy arrays."""
    if isinstance(value, State | Progress | StageContext | ArmCommand):
        return [array for field in fields(value) for array in arrays_of(getattr(value, field.name))]
    return [] if value is None or isinstance(value, StageBinding) else [np.asarray(value)]


def whole(motion: ArmCommand, state: State) -> ArmCommand:
    """Return the command with its defaults filled in."""
    zero = 0.0 * motion.target[:, 0]
    turn = zero if motion.yaw_change is None else motion.yaw_change
    second = motion.second_target
    if second is None and state.second_ee_position.shape[1]:
        second = motion.target * math.nan
    return ArmCommand(motion.target, motion.gripper + zero, turn, second, motion.second_gripper + zero)
