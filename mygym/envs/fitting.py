"""Whether a task, a robot, a workspace and areas fit each other; what is said when they do not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mygym.envs.proved import robots_for
from mygym.errors import ConfigError, bad_value
from mygym.sim.fixtures import Movable
from mygym.sim.objects import ObjectSpec, load_object, object_names
from mygym.sim.robot import RobotSpec
from mygym.sim.workspace import WorkspaceSpec
from mygym.tasks.task import Task

BALL_SHARE = 0.8
"""Of a ball's width that a hand must open: it takes the ball above its middle."""

EXAMPLES = 6
"""Objects that are named in place of one that does not fit."""


def check_robot(task: Task, robot: RobotSpec, said: str) -> None:
    """Refuse a robot, called `said` by the user, that lacks a gripper or an arm which the task needs.

    Raises:
        ConfigError: It does.
    """
    if task.needs_gripper and robot.gripper is None:
        why = f"has no gripper, which {task.name} needs"
        raise ConfigError(bad_value("robot", said, robots_for(task), why))
    if task.arms > len(robot.arms):
        why = f"has {len(robot.arms)} arm, and {task.name} takes {task.arms}"
        raise ConfigError(bad_value("robot", said, robots_for(task), why))


def check_objects(task: Task, objects: Sequence[ObjectSpec], robot: RobotSpec, largest: float) -> None:
    """Refuse objects that the hand cannot close around, and those on which nothing stays.

    Args:
        task: The task.
        objects: In the order of its roles.
        robot: Whose hand it is.
        largest: Times its own size that an object may have in an episode.

    Raises:
        ConfigError: There is one.
    """
    hands = [arm.gripper.width for arm in robot.arms[: task.arms] if arm.gripper]
    specs = dict(zip(task.roles, objects, strict=False))  # distractors come after those of the roles
    for one, stages in zip(task.subtasks, task.composed, strict=True):
        if one.part or one.object not in specs:
            continue
        if hands and any(stage.needs_gripper for stage in stages) and not any(one.grip):
            _check_width(_object_key(task, one.object), specs[one.object], robot.name, min(hands), largest)
        if one.onto and any("free" in stage.gives for stage in stages) and not specs[one.onto].flat_top:
            why = f"is round on top: {one.object} would not stay there"
            allowed = f"what has a flat top, e.g. {_examples(_base_for(specs[one.object]))}"
            raise ConfigError(bad_value(_object_key(task, one.onto), specs[one.onto].name, allowed, why))


def _check_width(key: str, spec: ObjectSpec, robot: str, hand: float, largest: float) -> None:
    """Refuse an object that does not fit between fingers that open by `hand` m, or not in its largest size."""
    width = _width(spec)
    why = f"too wide: {robot}'s hand opens by {100 * hand:.1f} cm, {spec.name} takes {100 * width:.1f} cm"
    if width >= hand:
        allowed = f"what is narrower, e.g. {_examples(lambda other: _width(other) < hand)}"
        raise ConfigError(bad_value(key, spec.name, allowed, f"is {why}"))
    if width * largest >= hand:
        allowed = f"at most {math.floor(99 * hand / width) / 100:g}, or a narrower object"
        raise ConfigError(bad_value("randomize.object_size", largest, allowed, f"makes {spec.name} {why} as it is"))


def _width(spec: ObjectSpec) -> float:
    """By how much a hand must open to take an object, m."""
    solid = [part.shape for part in spec.parts if part.collides]
    return (BALL_SHARE if solid == ["sphere"] else 1.0) * spec.grasp_width


def _examples(fits: Callable[[ObjectSpec], bool]) -> str:
    """Names of a few objects that fit."""
    fitting = (name for name in object_names() if fits(load_object(name)))
    return ", ".join(itertools.islice(fitting, EXAMPLES))


def _base_for(thing: ObjectSpec) -> Callable[[ObjectSpec], bool]:
    """Whether an object is a block on which a thing has room."""
    return lambda spec: spec.flat_top and len(spec.parts) == 1 and spec.grasp_width >= thing.grasp_width


def _object_key(task: Task, role: str) -> str:
    """How the user says which object plays a role."""
    return "task_params.object" if role == task.subtasks[0].object else f"task_params.objects.{role}"


def in_workspace(task: Task, workspace: WorkspaceSpec, parts: Mapping[str, Movable]) -> Task:
    """The task with the workspace's parts, by name, and its paths.

    Raises:
        ConfigError: The workspace lacks a part or a path, a stage is told no part to act on, or a part is to go where
            it cannot.
    """
    for number, (one, stages) in enumerate(zip(task.subtasks, task.composed, strict=True)):
        partless = "" if one.part else next((stage.name for stage in stages if stage.needs_part), "")
        if partless:
            allowed = "a task with a part, such as open_drawer, or sub-tasks that say theirs"
            raise ConfigError(bad_value("task", one.stages, allowed, f"does not say which part to {partless}"))
        if one.part and one.part not in parts:
            why = f"has no {one.part}, which {task.name} acts on"
            raise ConfigError(bad_value("workspace", workspace.name, f"{task.workspace}, or one that has it", why))
        if one.part and one.to and not parts[one.part].lower <= one.to[0] <= one.to[1] <= parts[one.part].upper:
            allowed = f"within {parts[one.part].lower:g} to {parts[one.part].upper:g}, the range of {one.part}"
            raise ConfigError(bad_value(f"task.{number}.to", list(one.to), allowed))
        if one.path and one.path not in workspace.paths:
            why = f"has no path {one.path}, along which {task.name} goes"
            raise ConfigError(bad_value("workspace", workspace.name, f"{task.workspace}, or one that has it", why))
    return replace(
        task, parts=tuple(parts), path_points={name: len(path) - 1 for name, path in workspace.paths.items()}
    )
