"""Built-in levels of a curriculum: end segments or initial segments of a task, as partial configs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mygym.tasks.lookup import find_task
from mygym.tasks.subtask import SubTask
from mygym.tasks.task import Task
from mygym.tasks.task_params import change_task

if TYPE_CHECKING:
    from mygym.config import RunConfig

LEVELS_PER_STAGE = 3
"""Levels of `backward` per stage: a whole stage is too large a step between first contact and a firm grasp."""


def backward(task: Task, config: RunConfig) -> Sequence[Mapping[str, Any]]:
    """Return the end segments of a task, each longer by a third of a stage, with a proportional horizon."""
    horizon, hold = config.task_params.horizon or task.horizon, config.task_params.hold or task.hold
    count = LEVELS_PER_STAGE * len(task.stage_names)
    return tuple(
        {
            "task_params": {
                "stages_done": round((count - left) / LEVELS_PER_STAGE, 3),
                "horizon": max(math.ceil(horizon * left / count), hold + 1),
            }
        }
        for left in range(LEVELS_PER_STAGE, count)
    )


def forward(task: Task, config: RunConfig) -> Sequence[Mapping[str, Any]]:
    """Return the initial segments of a task with several stages, with the changes that `config` makes to the task."""
    beginnings: list[list[dict[str, Any]]] = []
    for number, subtask in enumerate(task.subtasks):
        before = [_plain(earlier) for earlier in task.subtasks[:number]]
        names = [stage.name for stage in task.composed[number]]
        subject = {key: value for key, value in _plain(subtask).items() if key in ("object", "part")}
        beginnings += [[*before, {**subject, "stages": names[:end]}] for end in range(1, len(names))]
        if number < len(task.subtasks) - 1:
            beginnings.append([*before, _plain(subtask)])
    return tuple(
        {"task": beginning, "task_params": _task_params(task, find_task(beginning), config)} for beginning in beginnings
    )


def _plain(subtask: SubTask) -> dict[str, Any]:
    """Return a sub-task as plain config data, without defaults."""
    values = {key: value for key, value in asdict(subtask).items() if value != getattr(SubTask, key, None)}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def _task_params(task: Task, beginning: Task, config: RunConfig) -> dict[str, Any]:
    """Return `task_params` of an initial segment of `task`: the objects of its roles, and the config's changes."""
    params = config.task_params.model_dump(mode="json", exclude_none=True)
    areas = params.pop("areas")
    changed = change_task(task, params)
    keys = ("tolerance", "hold", "distractors", "rotation")
    values: dict[str, Any] = {key: params[key] for key in keys if getattr(changed, key) != getattr(task, key)}
    if changed.horizon != task.horizon:
        share = len(beginning.stage_names) / len(task.stage_names)
        values["horizon"] = max(math.ceil(changed.horizon * share), changed.hold + 1)
    unused_areas = _areas(task) - _areas(beginning)
    by_role = {
        "objects": {role: _names(changed, role) for role in beginning.roles if changed.assets(role) != (role,)},
        "colors": {role: color for role, color in params["colors"].items() if role in beginning.roles},
        "areas": {name: area for name, area in areas.items() if name not in unused_areas},
    }
    return {**values, **{key: mapping for key, mapping in by_role.items() if mapping}}


def _names(task: Task, role: str) -> str | list[str]:
    """Return the object of a role, or the objects to draw from, as plain config data."""
    names = list(task.assets(role))
    return names if len(names) > 1 else names[0]


def _areas(task: Task) -> set[str]:
    """Return the names of the areas from which goals and objects are drawn."""
    goals = {name for number in range(len(task.subtasks)) for name in task.goal_areas(number)}
    return goals | {f"{role}_start" for role in task.roles}
