"""Supported combinations of task, robot and workspace, which tests prove with the scripted expert."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from mygym.config import RunConfig
from mygym.engines.robots import find_robot
from mygym.envs.placement import boxes, check_distances
from mygym.errors import AssetError, ConfigError
from mygym.registry import registry
from mygym.robotics.assets import asset_names, read_asset, read_mapping
from mygym.robotics.inference.base_placement import DIRECTIONS, freedom
from mygym.robotics.robot import lacks_sections
from mygym.robotics.robots import RobotSpec
from mygym.robotics.workspace import HomeSpec, find_workspace, load_workspace
from mygym.tasks.lookup import find_task
from mygym.tasks.task import Task


class Combination(NamedTuple):
    """A task with a robot in a workspace."""

    task: str
    robot: str
    workspace: str


def combinations(tasks: tuple[str, ...] | None = None) -> Iterator[Combination]:
    """Yield the supported combinations of tasks, all by default.

    A combination is supported if the workspace lists the robot and the robot can do the task. Robots of an extra
    that is not installed are omitted.

    Args:
        tasks: Names of tasks; None: all registered tasks.
    """
    for name in tasks or registry("task").names():
        task = find_task(name)
        for workspace in (task.workspace, *task.also):
            for robot in _supported_robots(task, workspace):
                yield Combination(name, robot, workspace)


def a_robot_for(task: Task, workspace: str | None = None) -> str:
    """Return a supported robot of a task in a workspace, by default the task's.

    The result is the default robot if it is supported or if no robot is supported, else the first supported robot.
    """
    default = str(RunConfig().robot)
    robots = list(_supported_robots(task, workspace or task.workspace))
    return default if default in robots or not robots else robots[0]


def _supported_robots(task: Task, workspace: str) -> Iterator[str]:
    """Yield the installed robots of a workspace that can do a task."""
    spec = find_workspace(workspace)
    for robot, home in spec.robots.items():
        unsuited = (home or HomeSpec()).unsuited
        installed = not registry("robot").get(robot).missing_extras
        if installed and task.name not in unsuited and not _obstacle(_spec(robot), task):
            with contextlib.suppress(ConfigError):  # its areas are too small for the task
                check_distances(task, boxes(spec.fit(_spec(robot))))
                yield robot


@cache
def _spec(robot: str) -> RobotSpec:
    """Load a robot, which takes 10 ms, once."""
    return find_robot(robot)


def robots_for(task: Task) -> list[str]:
    """Return the registered robots that can do a task, installed or not."""
    names = []
    for entry in registry("robot"):
        path = Path(entry.load())
        with contextlib.suppress(AssetError):  # of another user's file
            spec = find_robot(entry.name) if lacks_sections(read_mapping(path)) else read_asset(RobotSpec, path)
            names += [] if _obstacle(spec, task) else [entry.name]
    return names


def support_warning(config: RunConfig) -> str:
    """Return a warning if a config's robot, task and workspace are not supported, with the supported robots.

    Empty for supported combinations, and for a user's robot or workspace, which no test covers, unless its arm has too
    few joints.
    """
    task, robot = find_task(config.task), find_robot(config.robot)
    entry = registry("workspace").get(config.workspace or task.workspace)
    workspace = load_workspace(entry.load())
    if obstacle := _obstacle(robot, task):
        why = f"{robot.name} {obstacle}"
    elif task.name in (workspace.robots.get(robot.name) or HomeSpec()).unsuited:
        why = f"{robot.name} does not do {task.name} well enough in workspace {workspace.name}"
    elif (
        entry.name in asset_names("workspaces")
        and robot.name in asset_names("robots")
        and robot.name not in workspace.robots
    ):
        why = f"{robot.name} is not at home in workspace {workspace.name}"
    elif shortcoming := _shortcoming(robot, task):
        why = f"{robot.name} {shortcoming}"
    else:
        return ""
    return f"{why}; supported robots: {', '.join(_supported_robots(task, entry.name)) or 'none'}"


def supported_tasks(robot: str) -> dict[str, str]:
    """Return each registered task with the reason why a robot cannot do it; the reason is empty if it can.

    Args:
        robot: Registered name or file.
    """
    spec, reasons = find_robot(robot), dict[str, str]()
    for name in registry("task").names():
        task = find_task(name)
        home = find_workspace(task.workspace).robots.get(spec.name) or HomeSpec()
        reasons[name] = _obstacle(spec, task) or _shortcoming(spec, task)
        if not reasons[name] and name in home.unsuited:
            reasons[name] = f"does not do {name} well enough in workspace {task.workspace}"
    return reasons


def _obstacle(robot: RobotSpec, task: Task) -> str:
    """Return the reason why a robot cannot do a task; empty if it can."""
    if cannot := [stage for stage in dict.fromkeys(task.stage_names) if stage in robot.cannot]:
        return f"cannot {' or '.join(cannot)}"
    return lack(robot, task)


def lack(robot: RobotSpec, task: Task) -> str:
    """Return the need of a task for arms and grippers that a robot does not meet; empty if it meets all."""
    if task.arms > len(robot.arms):
        return f"has {len(robot.arms)} arm, and {task.name} needs {task.arms}"
    if task.needs_gripper and any(arm.gripper is None for arm in robot.arms[: task.arms]):
        return f"has no gripper, which {task.name} needs"
    return ""


def _shortcoming(robot: RobotSpec, task: Task) -> str:
    """Return the need of a task that a robot's arm of few joints does not meet; empty if it meets all."""
    limits = freedom(robot)
    if limits.moves:
        return f"{limits.moves}, and {task.name} needs {DIRECTIONS}"
    if limits.leans and (task.needs_gripper or task.needs_tool_yaw):
        return f"{limits.leans}, and {task.name} needs it upright"
    return ""
