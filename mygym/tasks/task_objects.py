"""Objects of a task: check that they exist, and the config keys that name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mygym.errors import ConfigError, RegistryError
from mygym.registry import registry
from mygym.tasks.task import Task


def check_objects(task: Task) -> None:
    """Check that the objects of a registered task exist; at look-up, as objects may be registered after tasks.

    Raises:
        ConfigError: An object is not registered.
    """
    for role in task.roles:
        try:
            for name in task.assets(role):
                registry("object").get(name, f"task {task.name}: object")
        except RegistryError as error:
            raise ConfigError(str(error)) from None


def named_objects(task: Task, params: Mapping[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    """Return `(config key, objects to draw from)` for each slot in `State`: roles, then distractors.

    Args:
        task: The task, changed by `params`.
        params: The config's `task_params`.
    """
    objects = []
    for role in task.roles:
        number = next(n for n, subtask in enumerate(task.subtasks) if role in (subtask.object, subtask.onto))
        key = f"task.{number}.{'object' if role == task.subtasks[number].object else 'onto'}"
        if role == task.subtasks[0].object and "object" in params:
            key = "task_params.object"
        if role in params.get("objects", {}):
            key = f"task_params.objects.{role}"
        objects.append((key, task.assets(role)))
    for number, distractor in enumerate(task.distractors):
        objects += [(f"task_params.distractors.{number}", distractor.objects)] * distractor.counts[1]
    return objects
