"""Checks that a task fits its robot and workspace."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from mygym.envs.supported import robots_for
from mygym.errors import AssetError, ConfigError, bad_value
from mygym.models.fixture_urdf import ArticulatedPart
from mygym.models.objects import ObjectSpec, load_object
from mygym.models.robot_spec import RobotSpec
from mygym.models.workspace import WorkspaceSpec, load_workspace
from mygym.registry import registry
from mygym.tasks.grammar import as_typed
from mygym.tasks.task import Task
from mygym.tasks.task_objects import named_objects


def check_robot(task: Task, robot: RobotSpec, name: str) -> None:
    """Check that a robot has the gripper and the arms that a task needs.

    Args:
        task: The task.
        robot: The robot.
        name: The robot as the user named it.

    Raises:
        ConfigError: A gripper or an arm is missing.
    """
    if task.needs_gripper and robot.gripper is None:
        why = f"has no gripper, which {task.name} needs"
        raise ConfigError(bad_value("robot", name, robots_for(task), why))
    if task.arms > len(robot.arms):
        why = f"has {len(robot.arms)} arm, and {task.name} needs {task.arms}"
        raise ConfigError(bad_value("robot", name, robots_for(task), why))


def load_objects(task: Task, params: Mapping[str, Any]) -> list[list[ObjectSpec]]:
    """Load the alternatives of each slot: objects of a task's roles, in their colours, then of distractors.

    Args:
        task: The task, with `params` applied.
        params: The config's `task_params`; messages name the key that gives each object.

    Raises:
        RegistryError: Unknown object.
    """
    slots = [
        [load_object(registry("object").get(name, key).load()) for name in names]
        for key, names in named_objects(task, params)
    ]
    for slot, role in enumerate(task.roles):
        if role in task.colors:
            slots[slot] = [spec.in_color(task.colors[role]) for spec in slots[slot]]
    return slots


def bind_to_workspace(task: Task, workspace: WorkspaceSpec, parts: Mapping[str, ArticulatedPart]) -> Task:
    """Return the task with the parts and paths of a workspace.

    Args:
        task: The task.
        workspace: The workspace.
        parts: The workspace's parts by name.

    Raises:
        ConfigError: The workspace lacks a part or path, a stage needs a part that its sub-task does not name, or a
            part's goal is out of its range.
    """
    for number, (subtask, stages) in enumerate(zip(task.subtasks, task.composed, strict=True)):
        partless = "" if subtask.part else next((stage.name for stage in stages if stage.needs_part), "")
        if partless:
            allowed = "a task with a part, such as open_drawer, or sub-tasks with a part"
            why = f"does not name the part to {partless}"
            raise ConfigError(bad_value("task", as_typed(subtask.stages), allowed, why))
        if subtask.part and subtask.part not in parts:
            raise ConfigError(missing_in_workspace(task, workspace, "part", subtask.part, number))
        if subtask.part and subtask.to:
            lower, upper = parts[subtask.part].lower, parts[subtask.part].upper
            if not lower <= subtask.to[0] <= subtask.to[1] <= upper:
                allowed = f"within {lower:g} to {upper:g}, the range of {subtask.part}"
                raise ConfigError(bad_value(f"task.{number}.to", list(subtask.to), allowed))
        if subtask.path and subtask.path not in workspace.paths:
            raise ConfigError(missing_in_workspace(task, workspace, "path", subtask.path, number))
    return replace(
        task, parts=tuple(parts), path_points={name: len(path) - 1 for name, path in workspace.paths.items()}
    )


def missing_in_workspace(task: Task, workspace: WorkspaceSpec, kind: str, name: str, number: int | None) -> str:
    """Return the message for a part, path or area that a workspace lacks.

    Args:
        task: The task.
        workspace: The workspace.
        kind: `part`, `path` or `area`.
        name: The missing name.
        number: Number of the sub-task that names it; None if it follows from the stages.
    """
    if task.name in registry("task"):
        suitable = [home for home in (task.workspace, *task.also) if home != workspace.name]
    else:
        suitable = [other.name for other in _readable_workspaces() if name in _names(kind, other)]
    if suitable or number is None:
        return bad_value("workspace", workspace.name, suitable, f"has no {kind} {name}, which {task.name} needs")
    why = f"is no {kind} of workspace {workspace.name}"
    anywhere = dict.fromkeys(known for other in _readable_workspaces() for known in _names(kind, other))
    return bad_value(f"task.{number}.{kind}", name, _names(kind, workspace) or anywhere, why)


def _names(kind: str, workspace: WorkspaceSpec) -> list[str]:
    """Return the names of the parts, paths or areas of a workspace."""
    return list({"part": workspace.part_names, "path": workspace.paths, "area": workspace.areas}[kind])


def _readable_workspaces() -> Iterator[WorkspaceSpec]:
    for entry in registry("workspace"):
        with contextlib.suppress(AssetError):
            yield load_workspace(entry.load())
