"""Which robot does which task in which workspace: what is listed as supported, and proved by its scripted expert."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mygym.registry import registry
from mygym.sim.robot import RobotSpec, load_robot
from mygym.sim.workspace import HomeSpec, load_workspace
from mygym.tasks.task import Task, find_task


class Combination(NamedTuple):
    """One of them."""

    task: str
    robot: str
    workspace: str


def combinations(tasks: tuple[str, ...] | None = None) -> Iterator[Combination]:
    """All that are supported, of these tasks (default: all): robots that can do it, where they are at home."""
    for name in tasks or registry("task").names():
        task = find_task(name)
        for workspace in (task.workspace, *task.also):
            spec = load_workspace(registry("workspace").get(workspace).load())
            for robot, home in spec.robots.items():
                unsuited = (home or HomeSpec()).unsuited
                if name not in unsuited and can_do(load_robot(registry("robot").get(robot).load()), task):
                    yield Combination(name, robot, workspace)


def can_do(robot: RobotSpec, task: Task) -> bool:
    """Whether a robot has what a task needs, and can do each of its stages."""
    if any(stage in robot.cannot for stage in task.stage_names):
        return False
    arms = robot.arms[: task.arms]
    return len(arms) == task.arms and (all(arm.gripper is not None for arm in arms) or not task.needs_gripper)
