"""`find_task`: a name, letters, stage names or sub-tasks → `Task`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.registry import registry
from mygym.tasks.grammar import is_letters, parse
from mygym.tasks.language import is_sentence, read_sentence
from mygym.tasks.predicates import Predicate
from mygym.tasks.stage import Stage, SubTask, read_subtask
from mygym.tasks.task import Task, change_task


def check_subgoals(
    subtasks: Sequence[SubTask], composed: Sequence[Sequence[Stage]], predicates: Mapping[str, Predicate]
) -> None:
    """Check that an object which was put onto another stays on it, and that each base carries one object.

    An object that was put down in an area may be moved again, and so may parts.

    Raises:
        ConfigError: A sub-task moves an object that an earlier sub-task put onto another object, or the base of such an
            object; or it puts a second object onto a base.
    """
    bases: dict[str, tuple[str, int]] = {}  # object → its base, and the sub-task that put it there
    for number, (subtask, stages) in enumerate(zip(subtasks, composed, strict=True)):
        given = [predicates[name] for stage in stages for name in stage.gives]
        if subtask.part or not any(predicate.moves_object for predicate in given):
            continue
        tops = {base: (top, by) for top, (base, by) in bases.items()}
        if subtask.object in bases:
            base, by = bases[subtask.object]
            why = f"is put onto {base} by sub-task {by}, which this sub-task would undo"
            allowed = "another object, or a single sub-task that puts it to its final position"
            raise ConfigError(bad_value(f"task.{number}.object", subtask.object, allowed, why))
        if subtask.object in tops:
            top, by = tops[subtask.object]
            why = f"has {top} on it by sub-task {by}, which this sub-task would undo"
            allowed = f"this sub-task before sub-task {by}"
            raise ConfigError(bad_value(f"task.{number}.object", subtask.object, allowed, why))
        if subtask.onto in tops:
            top, by = tops[subtask.onto]
            why = f"has {top} on it by sub-task {by}, and room for one object"
            allowed = f"another object, such as {top} for a tower, or an area"
            raise ConfigError(bad_value(f"task.{number}.onto", subtask.onto, allowed, why))
        if subtask.onto and any(predicate.places_object for predicate in given):
            bases[subtask.object] = subtask.onto, number


def check_objects(task: Task) -> None:
    """Refuse objects of a registered task that do not exist; at look-up, as objects may be registered after tasks."""
    for role in task.roles:
        try:
            for name in task.assets(role):
                registry("object").get(name, f"task {task.name}: object")
        except RegistryError as error:
            raise ConfigError(str(error)) from None


def named_objects(task: Task, params: Mapping[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    """Return `(config key, objects to draw from)` for each slot in `State`: roles, then distractors.

    `task` has the changes of `params`, the config's `task_params`.
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


def find_task(composition: str | Sequence[Any]) -> Task:
    """Return the checked task for a name, letters, plain words, a list of stage names, or a list of sub-tasks.

    Args:
        composition: Sub-tasks are mappings with the fields of `SubTask`; for plain words see `mygym.tasks.language`.

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
        entry = tasks.get(composition)
        task: Task = entry.load()
        try:
            check_objects(task)
            _ = task.sequence
        except ConfigError as error:
            raise ConfigError(f"{error} ({entry.origin})") from error
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
    """Return a task of one sub-task; a built-in task of the same stages gives its numbers.

    The task does not take its algorithm, which learns by the values that recipes have for the name of the task.
    """
    composed = parse(stages)
    name = stages if isinstance(stages, str) else "_".join(stages)
    # Built-in tasks only: the meaning of letters must not depend on the user's files.
    builtin: list[Task] = [entry.target for entry in registry("task").registered() if entry.built_in]
    known = next((task for task in builtin if _is_just(task, composed)), None)
    if known is None:
        return Task(name, (SubTask(stages),), horizon=_default_horizon(len(composed)))
    run_defaults = {key: value for key, value in known.run_defaults.items() if key != "algo"}
    return replace(known, name=name, run_defaults=run_defaults)


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
