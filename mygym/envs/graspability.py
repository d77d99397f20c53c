"""Checks that hands can grasp a task's objects, and that bases can carry them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mygym.errors import ConfigError, bad_value
from mygym.models.objects import ROOM, ObjectSpec, load_object, object_names, objects_for_hand
from mygym.models.robot_spec import RobotSpec
from mygym.tasks.task import Task
from mygym.tasks.task_objects import named_objects

EXAMPLES = 6
"""Number of suitable objects in a message."""


def check_objects(
    task: Task,
    objects: Sequence[Sequence[ObjectSpec]],
    robot: RobotSpec,
    largest_size: float,
    params: Mapping[str, Any],
) -> None:
    """Check that the hand closes around objects that are grasped, and that bases have a flat top.

    Args:
        task: The task.
        objects: The objects to draw from, in the order of the task's roles.
        robot: The robot.
        largest_size: Largest factor of an object's size in any episode.
        params: The config's `task_params`; messages name the key that gives each object.

    Raises:
        ConfigError: An object is too wide, or a base is round.
    """
    hands = [arm.gripper.width for arm in robot.arms[: task.arms] if arm.gripper]
    keys = dict(zip(task.roles, (key for key, _ in named_objects(task, params)), strict=False))
    specs = dict(zip(task.roles, objects, strict=False))  # distractors follow the objects of the roles
    for subtask, stages, held in zip(task.subtasks, task.composed, task.held_after, strict=True):
        if subtask.part or subtask.object not in specs:
            continue
        if hands and any(stage.needs_gripper for stage in stages) and not any(subtask.grip):
            key = keys[subtask.object]
            first = subtask.object == task.subtasks[0].object
            remedy = "task_params.object" if first else f"task_params.objects.{subtask.object}"
            remedy = key if key.startswith("task_params") else remedy
            for spec in specs[subtask.object]:
                _check_width(key, remedy, spec, robot.name, min(hands), largest_size)
        if subtask.onto and any(before and not after for before, after in itertools.pairwise(held)):
            for base in specs[subtask.onto]:
                _check_base(keys[subtask.onto], base, subtask.object, specs[subtask.object])


def _check_base(key: str, base: ObjectSpec, role: str, tops: Sequence[ObjectSpec]) -> None:
    """Check that a base has a flat top."""
    if not base.flat_top:
        widest = max(tops, key=lambda spec: spec.grasp_width)
        allowed = f"an object with a flat top, e.g. {_examples(_is_base_for(widest))}"
        raise ConfigError(bad_value(key, base.name, allowed, f"is round on top: {role} would roll off"))


def _check_width(key: str, remedy: str, spec: ObjectSpec, robot: str, opening: float, largest_size: float) -> None:
    """Check that an object in its largest size fits into a hand; `remedy` is the key that takes another object."""
    needed = spec.needed_opening
    opens, needs = (f"{100 * width:.1f} cm" for width in (opening, needed))
    why = f"too wide: {robot}'s hand opens by {opens}, {spec.name} needs {needs}"
    if needed >= opening:
        fitting = objects_for_hand(opening, spec)[:EXAMPLES]
        allowed = f"a narrower object, e.g. --set {remedy}={fitting[0]}" if fitting else "a narrower object of your own"
        allowed += f", or {', '.join(fitting[1:])}" if fitting[1:] else ""
        raise ConfigError(bad_value(key, spec.name, allowed, f"is {why}"))
    if (needed - ROOM) * largest_size >= opening - ROOM:
        allowed = f"at most {math.floor(99 * (opening - ROOM) / (needed - ROOM)) / 100:g}, or a narrower object"
        why = f"makes {spec.name} {why} in its original size"
        raise ConfigError(bad_value("randomize.object_size", largest_size, allowed, why))


def _examples(is_suitable: Callable[[ObjectSpec], bool]) -> str:
    """Return the names of a few suitable objects."""
    names = (name for name in object_names() if is_suitable(load_object(name)))
    return ", ".join(itertools.islice(names, EXAMPLES))


def _is_base_for(top: ObjectSpec) -> Callable[[ObjectSpec], bool]:
    """Return a predicate: whether an object is a block large enough to carry `top`."""
    return lambda spec: spec.flat_top and len(spec.geoms) == 1 and spec.grasp_width >= top.grasp_width
