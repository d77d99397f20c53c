"""Spaces that depend on the robot and the controller only, so that one network serves many tasks.

Whatever a task has none of is zeros: objects, parts and sub-tasks have slots, of which a task fills as many as it
needs. A number means the same in every task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mygym.errors import ConfigError, bad_value
from mygym.tasks.goals import SIZES, GoalSpace, goal_space
from mygym.tasks.observations import has_memory
from mygym.tasks.predicates import PREDICATES
from mygym.tasks.task import Task

SLOTS: Mapping[str, int] = {
    "objects": 4,
    "parts": 2,
    "distractors": 4,
    "sub-tasks": 3,
    "objects or parts": 1,
    "waypoints": 1,
}
"""What components tell about → for how many of them there is room."""

POSITIONS = ("end_effector", "object", "end_effector_from_object", "part", "yaw")
"""Kinds of goals in the order of their places among those of a sub-task, before the flags."""


def shared_components(control: str, arms: int, gripper: bool) -> tuple[str, ...]:
    """Names of the components of a robot of `arms` arms under a controller: all that any task needs."""
    other = arms > 1
    names = ["ee_position", "ee_velocity", "tool_yaw"]
    names += ["second_ee_position", "second_ee_velocity"] if other else []
    names += ["joint_position", "joint_velocity"] if control.startswith("joint") else []
    names += ["command_offset", "tool_yaw_offset"] if has_memory(control) else []
    names += ["gripper_width"] if gripper else []
    names += ["second_gripper_width"] if gripper and other else []
    names += ["object_present", "object_active", "object_position", "object_from_ee", "object_orientation"]
    names += ["object_velocity", "object_angular_velocity"]
    names += ["part_present", "part_active", "part_position", "part_velocity", "handle_from_ee"]
    return (*names, "subtask", "stage_name", "waypoint")


def shared_goal_space(task: Task) -> GoalSpace:
    """The goal vectors of `task` with every part at the place that it has in all tasks.

    Raises:
        ConfigError: The task has more sub-tasks than there is room for.
    """
    if len(task.subtasks) > SLOTS["sub-tasks"]:
        raise ConfigError(no_room("sub-tasks", len(task.subtasks), task.name))
    places, first = {}, 0
    for kind in (*POSITIONS, *(fact for fact in PREDICATES if fact not in SIZES)):
        places[kind] = first
        first += SIZES.get(kind, 1)
    places["struck"] = places["object"]
    parts = tuple(
        replace(part, first=part.bound.subtask * first + places[part.kind]) for part in goal_space(task).parts
    )
    return GoalSpace(parts, SLOTS["sub-tasks"] * first)


def no_room(of: str, count: int, task: str) -> str:
    """The message for a task that has more of something than the shared spaces."""
    allowed = f"own; or a task with at most {SLOTS[of]} {of}"
    return bad_value("spaces", "shared", allowed, f"has no room for {count} {of}, which {task} has")
