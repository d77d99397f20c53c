"""Validation of the numbers of a task when it is registered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pydantic import ValidationError

from mygym.config.schema import TaskParams
from mygym.config.validation_errors import dotted, first_mistake
from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.tasks.subtask import SubTask, read_subtask


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
        path, given, allowed, *_ = first_mistake(error)
        raise RegistryError(f"task {name}: {bad_value(dotted(path), given, allowed)}") from None
    except ConfigError as error:
        raise RegistryError(f"task {name}: {error}") from None
