"""Which robot does which task in which workspace: what is listed as supported, and proved by its scripted expert."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from mygym.config import RunConfig
from mygym.models.assets import read_asset
from mygym.models.robot import RobotSpec, load_robot, robot_names
from mygym.models.workspace import HomeSpec, load_workspace, workspace_names
from mygym.registry import registry
from mygym.sim.inference import find_robot, is_installed
from mygym.tasks.lookup import find_task
from mygym.tasks.task import Task


class Combination(NamedTuple):
    """One of them."""

    task: str
    robot: str
    workspace: str


def combinations(tasks: tuple[str, ...] | None = None) -> Iterator[Combination]:
    """All that are supported, of these tasks (default: all): robots that can do it, where they are at home.

    Robots of an extra that is not installed are left out.
    """
    for name in tasks or registry("task").names():
        task = find_task(name)
        for workspace in (task.workspace, *task.also):
            for robot in _suited(task, workspace):
                yield Combination(name, robot, workspace)


def a_robot_for(task: Task, workspace: str | None = None) -> str:
    """One that is at home in a workspace (the task's by default), can do the task, and whose model is installed.

    The default robot if it is among them or if there are none, else the first.
    """
    default = str(RunConfig().robot)
    suited = list(_suited(task, workspace or task.workspace))
    return default if default in suited or not suited else suited[0]


def _suited(task: Task, workspace: str) -> Iterator[str]:
    for robot, home in load_workspace(registry("workspace").get(workspace).load()).robots.items():
        unsuited = (home or HomeSpec()).unsuited
        if is_installed(robot) and task.name not in unsuited and can_do(_spec(robot), task):
            yield robot


@cache
def _spec(robot: str) -> RobotSpec:
    """Reading a robot takes 10 ms, and it is asked for again for each task."""
    return load_robot(registry("robot").get(robot).load())


def robots_for(task: Task) -> list[str]:
    """Names of the registered robots that can do a task; of those whose models are not installed too."""
    described = {entry.name: read_asset(RobotSpec, Path(entry.load())) for entry in registry("robot")}
    return [name for name, spec in described.items() if can_do(spec, task)]


def support_warning(config: RunConfig) -> str:
    """Why success is not to be expected of a robot, task and workspace, in words, and which robots are supported.

    Empty of those that are supported, and where nothing is known: of a robot or a workspace of the user's own.

    Args:
        config: Complete, and not refused.
    """
    task, robot = find_task(config.task), find_robot(config.robot)
    place = registry("workspace").get(config.workspace or task.workspace)
    workspace = load_workspace(place.load())
    cannot = [stage for stage in dict.fromkeys(task.stage_names) if stage in robot.cannot]
    if cannot:
        why = f"{robot.name} is not made to {' or '.join(cannot)}"
    elif task.name in (workspace.robots.get(robot.name) or HomeSpec()).unsuited:
        why = f"{robot.name} does not do {task.name} well enough in workspace {workspace.name}"
    elif place.name in workspace_names() and robot.name in robot_names() and robot.name not in workspace.robots:
        why = f"{robot.name} is not at home in workspace {workspace.name}"
    else:
        return ""
    return f"{why}; supported robots: {', '.join(_suited(task, place.name)) or 'none'}"


def can_do(robot: RobotSpec, task: Task) -> bool:
    """Whether a robot has what a task needs, and can do each of its stages."""
    if any(stage in robot.cannot for stage in task.stage_names):
        return False
    arms = robot.arms[: task.arms]
    return len(arms) == task.arms and (all(arm.gripper is not None for arm in arms) or not task.needs_gripper)
