"""`find_task`: a name, letters, stage names or sub-tasks → `Task`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mygym.errors import ConfigError, bad_value
from mygym.registry import registry
from mygym.tasks.grammar import is_letters, parse
from mygym.tasks.sentences import is_sentence, read_sentence
from mygym.tasks.stage import Stage
from mygym.tasks.subgoal_conflicts import check_subgoals
from mygym.tasks.subtask import SubTask, read_subtask
from mygym.tasks.task import Task
from mygym.tasks.task_objects import check_objects
from mygym.tasks.task_params import change_task


def find_task(composition: str | Sequence[Any]) -> Task:
    """Return the checked task for a name, letters, plain words, a list of stage names, or a list of sub-tasks.

    Args:
        composition: Sub-tasks are mappings with the fields of `SubTask`; for plain words see `mygym.tasks.sentences`.

    Raises:
        ConfigError: Not a task, an invalid composition, or sub-goals that collide.
    """
    _check_types(composition)
    if isinstance(composition, str) and is_sentence(composition):
        reading = read_sentence(composition)
        named = find_task(reading.named or reading.subtasks)
        return change_task(named, {"objects": reading.objects})
    tasks = registry("task")
    # Letters are no reason to scan the user's folders for new files, as every unknown name is: it takes milliseconds.
    if isinstance(composition, str) and composition in (tasks.names() if is_letters(composition) else tasks):
        task: Task = tasks.get(composition).load()
        check_objects(task)
    elif not isinstance(composition, str) and any(isinstance(item, Mapping) for item in composition):
        task = _task_of_subtasks(tuple(read_subtask(number, item) for number, item in enumerate(composition)))
    else:
        task = _task_of_stages(composition if isinstance(composition, str) else tuple(composition))
    predicates = task.sequence.predicates  # `sequence` checks the grammar
    check_subgoals(task.subtasks, task.composed, predicates)
    return task


def _task_of_subtasks(subtasks: tuple[SubTask, ...]) -> Task:
    names = ["".join(item.stages) if isinstance(item.stages, str) else "_".join(item.stages) for item in subtasks]
    count = sum(len(parse(item.stages, f"task.{number}")) for number, item in enumerate(subtasks))
    return Task("-".join(names), subtasks, horizon=_default_horizon(count))


def _task_of_stages(stages: str | tuple[str, ...]) -> Task:
    """Return a task of one sub-task; a built-in task of the same stages gives its numbers."""
    composed = parse(stages)
    name = stages if isinstance(stages, str) else "_".join(stages)
    # Built-in tasks only: the meaning of letters must not depend on the user's files.
    builtin = [entry.target for entry in registry("task") if entry.built_in]
    known = next((task for task in builtin if _is_just(task, composed)), None)
    return (
        replace(known, name=name) if known else Task(name, (SubTask(stages),), horizon=_default_horizon(len(composed)))
    )


def _default_horizon(stages: int) -> int:
    """Return the control steps of an episode with this number of stages."""
    return 50 + 25 * stages


def _check_types(composition: object) -> None:
    """Check that a composition is text, a list of names or a list of mappings."""
    if isinstance(composition, str):
        return
    if not isinstance(composition, Sequence):
        allowed = "a name, letters, or a list of stage names or of sub-tasks"
        raise ConfigError(bad_value("task", composition, allowed))
    has_mappings = any(isinstance(item, Mapping) for item in composition)
    type_, allowed = (
        (Mapping, "a mapping, as the other sub-tasks are") if has_mappings else (str, "the name of a stage")
    )
    for number, item in enumerate(composition):
        if not isinstance(item, type_):
            raise ConfigError(bad_value(f"task.{number}", item, allowed))


def _is_just(task: Task, composed: tuple[Stage, ...]) -> bool:
    """Return whether a task has only these stages and a default sub-task, so that its numbers apply."""
    (first, *further) = task.subtasks
    return not further and first == SubTask(first.stages, first.object) and task.composed[0] == composed
