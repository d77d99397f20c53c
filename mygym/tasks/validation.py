"""Validation of tasks: numbers when a task is registered, objects when it is looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from mygym.config.schema import TaskParams
from mygym.config.validation_errors import dotted, first_mistake
from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.registry import registry
from mygym.tasks.subtask import SubTask, read_subtask

if TYPE_CHECKING:
    from mygym.tasks.task import Task


def check_numbers(name: str, subtasks: Sequence[SubTask], numbers: Mapping[str, Any]) -> None:
    """Check the numbers of a task against the ranges of `TaskParams` and `SubTask`, as for a config.

    Args:
        name: Name of the task.
        subtasks: Its sub-tasks.
        numbers: Its further fields.

    Raises:
        RegistryError: A number is out of its range.
    """
    params = {key: value for key, value in numbers.items() if key in TaskParams.model_fields}
    try:
        TaskParams.model_validate({**params, "distractors": list(params.get("distractors", ()))})
        for number, subtask in enumerate(subtasks):
            read_subtask(number, asdict(subtask))
    except ValidationError as error:
        path, given, allowed, _ = first_mistake(error)
        raise RegistryError(f"task {name}: {bad_value(dotted(path), given, allowed)}") from None
    except ConfigError as error:
        raise RegistryError(f"task {name}: {error}") from None


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
