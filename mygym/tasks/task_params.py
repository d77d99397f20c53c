"""`change_task`: a task with the numbers of `task_params`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mygym.config.schema import Distractor
from mygym.errors import ConfigError, bad_value
from mygym.tasks.task import STARTS, Task

CHANGEABLE = (
    *("tolerance", "hold", "horizon", "stages_done", "starts", "goals_on_surface"),
    *("object", "objects", "distractors", "rotation", "colors"),
)
"""Keys that `change_task` accepts."""


def change_task(task: Task, numbers: Mapping[str, Any]) -> Task:
    """Return `task` with other numbers.

    Args:
        task: The task.
        numbers: Values of the keys in `CHANGEABLE`; `object` is the object that the first sub-task acts on.

    Raises:
        ConfigError: An unknown key, a role that the task does not have, a `hold` as long as the `horizon`,
            `stages_done` beyond the last stage, a start that no episode of the task passes, or goals on the surface of
            a task without goals in the air.
    """
    for key in numbers:
        if key not in CHANGEABLE:
            raise ConfigError(bad_value("task_params", key, CHANGEABLE, "is not a number of a task"))
    changes = dict(numbers)
    if "distractors" in changes:
        changes["distractors"] = tuple(map(Distractor.model_validate, changes["distractors"]))
    if "rotation" in changes:
        changes["rotation"] = tuple(changes["rotation"])
    objects = dict(task.objects)
    if "object" in changes:
        objects[task.subtasks[0].object] = changes.pop("object")
    by_role = changes.pop("objects", {})  # more specific than `object`
    objects |= {role: names if isinstance(names, str) else tuple(names) for role, names in by_role.items()}
    for key, roles in (("objects", objects), ("colors", changes.get("colors", {}))):
        for role in roles:
            if role not in task.roles and role not in task.objects and role != task.subtasks[0].object:
                raise ConfigError(bad_value(f"task_params.{key}", role, task.roles, f"is not a role of {task.name}"))
    changed = replace(task, objects=objects, **changes)
    if changes.keys() & {"hold", "horizon"} and changed.hold >= changed.horizon:
        why = f"is too long: success must hold for {changed.hold} of {changed.horizon} control steps"
        raise ConfigError(bad_value("task_params.hold", changed.hold, f"less than the horizon, {changed.horizon}", why))
    for name in changed.starts:
        if name not in changed.start_stages:
            why = f"is no start of {task.name}: no stage before the last gives {STARTS[name]}"
            raise ConfigError(bad_value("task_params.starts", name, list(changed.start_stages), why))
    if changed.goals_on_surface and not task.has_goals_in_air:
        why = f"is only for tasks whose goals are in the air, which those of {task.name} are not"
        raise ConfigError(bad_value("task_params.goals_on_surface", changed.goals_on_surface, ["0"], why))
    if changed.stages_done >= len(task.stage_names):
        allowed = f"less than the number of stages, {len(task.stage_names)}"
        raise ConfigError(bad_value("task_params.stages_done", changed.stages_done, allowed))
    return changed
