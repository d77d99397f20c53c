"""Shared spaces: they depend on the robot and the controller only, so the same network serves many tasks.

Objects, parts and sub-tasks have slots; slots that a task does not use are zeros. A number has the same meaning in
every task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mygym.errors import ConfigError, bad_value
from mygym.tasks.goals import GoalSpace, goal_space
from mygym.tasks.task import Task

SLOTS: Mapping[str, int] = {
    "objects": 4,
    "parts": 2,
    "distractors": 4,
    "sub-tasks": 3,
    "objects or parts": 1,
    "waypoints": 1,
}
"""Subject of components (see `Component.of`) → number of slots."""

_TERMS = {"end_effector": 3, "object": 3, "end_effector_from_object": 3, "part": 1, "yaw": 2}
_FLAGS = (
    *("free", "near", "held", "placed", "turned", "clear"),
    *("offered", "handed", "traced", "followed", "launched", "touched", "hit"),
)

GOAL_SIZES: Mapping[str, int] = {**_TERMS, **dict.fromkeys(_FLAGS, 1)}
"""Name of a section of goal vectors → its size, in the order of the sections in the slot of a sub-task."""


def shared_components(*, cartesian: bool, remembers_command: bool, arms: int, gripper: bool) -> tuple[str, ...]:
    """Return the names of all components that any task of a robot needs.

    Args:
        cartesian: Whether the controller commands the end effector; else joints, whose states are then observed.
        remembers_command: Whether the controller's next command depends on its last command.
        arms: Number of arms of the robot.
        gripper: Whether the robot has a gripper.
    """
    has_second_arm = arms > 1
    names = ["ee_position", "ee_velocity", "tool_yaw"]
    names += ["second_ee_position", "second_ee_velocity"] if has_second_arm else []
    names += [] if cartesian else ["joint_position", "joint_velocity"]
    names += ["command_offset", "tool_yaw_offset"] if remembers_command else []
    names += ["gripper_width"] if gripper else []
    names += ["second_gripper_width"] if gripper and has_second_arm else []
    names += ["object_present", "object_active", "object_position", "object_from_ee", "object_orientation"]
    names += ["object_velocity", "object_angular_velocity"]
    names += ["part_present", "part_active", "part_position", "part_velocity", "handle_from_ee"]
    return (*names, "subtask", "stage_name", "waypoint")


def shared_goal_space(task: Task) -> GoalSpace:
    """Return the layout of goal vectors in which every section has the same offset in all tasks.

    Sections of user-defined predicates have no such offset: they use the room of flags that their sub-task lacks.

    Raises:
        ConfigError: The task has more sub-tasks than slots, or more user-defined sections than unused flags.
    """
    if len(task.subtasks) > SLOTS["sub-tasks"]:
        raise ConfigError(no_room("sub-tasks", len(task.subtasks), task.name))
    offsets, size = {}, 0
    for name, section_size in GOAL_SIZES.items():
        offsets[name] = size
        size += section_size
    offsets["struck"] = offsets["object"]
    placed = [
        replace(section, first=section.bound.subtask * size + offsets.get(section.name, -1))
        for section in goal_space(task).sections
    ]
    used = {
        n for section in placed if section.name in offsets for n in range(section.first, section.first + section.size)
    }
    sections = []
    for section in placed:
        if section.name not in offsets:
            start = section.bound.subtask * size
            flags = range(start + size - section.size, start + offsets[_FLAGS[0]] - 1, -1)
            first = next((n for n in flags if used.isdisjoint(range(n, n + section.size))), None)
            if first is None:
                why = f"has no room for the goal term {section.name!r} of {task.name}"
                raise ConfigError(bad_value("spaces", "shared", "own", why))
            used |= set(range(first, first + section.size))
            section = replace(section, first=first)
        sections.append(section)
    return GoalSpace(tuple(sections), SLOTS["sub-tasks"] * size)


def no_room(of: str, count: int, task: str) -> str:
    """Return the message for a task that needs more slots of a subject than shared spaces have."""
    allowed = f"own; or a task with at most {SLOTS[of]} {of}"
    return bad_value("spaces", "shared", allowed, f"has no room for {count} {of}, which {task} has")
