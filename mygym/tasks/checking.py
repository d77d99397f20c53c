"""Whether what a task says can be: numbers when it is registered, objects when it is looked up."""

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
    """Refuse what a config could not say either: by the ranges of `TaskParams` and of `SubTask`.

    Raises:
        RegistryError: A number of a task that is to be registered is out of its range.
    """
    params = {key: value for key, value in numbers.items() if key in TaskParams.model_fields}
    try:
        TaskParams.model_validate({**params, "distractors": list(params.get("distractors", ()))})
        for number, one in enumerate(subtasks):
            read_subtask(number, asdict(one))
    except ValidationError as error:
        path, given, allowed, _ = first_mistake(error)
        raise RegistryError(f"task {name}: {bad_value(dotted(path), given, allowed)}") from None
    except ConfigError as error:
        raise RegistryError(f"task {name}: {error}") from None


def check_objects(task: Task) -> None:
    """Refuse a registered task with an object that there is not: known only now, as objects may come after tasks.

    Raises:
        ConfigError: It has one.
    """
    for role in task.roles:
        try:
            registry("object").get(task.asset(role), f"task {task.name}: object")
        except RegistryError as error:
            raise ConfigError(str(error)) from None


def named_objects(task: Task, params: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Of each role, then of each distractor: the key under which its object is said, and the object.

    Args:
        task: The task, with `params` in it.
        params: What `change_task` was given.
    """
    found = []
    for role in task.roles:
        number = next(number for number, one in enumerate(task.subtasks) if role in (one.object, one.onto))
        key = f"task.{number}.{'object' if role == task.subtasks[number].object else 'onto'}"
        if role == task.subtasks[0].object and "object" in params:
            key = "task_params.object"
        if role in params.get("objects", {}):
            key = f"task_params.objects.{role}"
        found.append((key, task.asset(role)))
    found += [(f"task_params.distractors.{number}", one.object) for number, one in enumerate(task.distractors)]
    return found
