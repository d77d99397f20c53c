"""Which robot does which task in which workspace: what is listed as supported, and proved by its scripted expert."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from mygym.config import RunConfig
from mygym.registry import registry
from mygym.sim.inference import is_installed
from mygym.sim.robot import RobotSpec, load_robot
from mygym.sim.workspace import HomeSpec, load_workspace
from mygym.tasks.task import Task, find_task


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


def can_do(robot: RobotSpec, task: Task) -> bool:
    """Whether a robot has what a task needs, and can do each of its stages."""
    if any(stage in robot.cannot for stage in task.stage_names):
        return False
    arms = robot.arms[: task.arms]
    return len(arms) == task.arms and (all(arm.gripper is not None for arm in arms) or not task.needs_gripper)
