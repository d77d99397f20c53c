"""Whether a task, a robot, a workspace and areas fit each other; what is said when they do not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from mygym.errors import ConfigError, bad_value
from mygym.sim.inference import robots_with_grippers
from mygym.sim.inspection import reached
from mygym.sim.robot import RobotSpec
from mygym.sim.workspace import Area, WorkspaceSpec
from mygym.sim.world import World
from mygym.tasks.sampling import Area as Box
from mygym.tasks.task import Task


def check_robot(task: Task, robot: RobotSpec, said: str) -> None:
    """Refuse a robot, called `said` by the user, that lacks a gripper or an arm which the task needs.

    Raises:
        ConfigError: It does.
    """
    if task.needs_gripper and robot.gripper is None:
        why = f"has no gripper, which {task.name} needs"
        raise ConfigError(bad_value("robot", said, robots_with_grippers(), why))
    if task.arms > len(robot.arms):
        why = f"has {len(robot.arms)} arm, and {task.name} takes {task.arms}"
        raise ConfigError(bad_value("robot", said, "a robot with two arms", why))


def in_workspace(task: Task, workspace: WorkspaceSpec, parts: tuple[str, ...]) -> Task:
    """The task with the workspace's parts and paths.

    Raises:
        ConfigError: The workspace lacks a part or a path, or a stage is told no part to act on.
    """
    for one, stages in zip(task.subtasks, task.composed, strict=True):
        partless = "" if one.part else next((stage.name for stage in stages if stage.needs_part), "")
        if partless:
            allowed = "a task with a part, such as open_drawer, or sub-tasks that say theirs"
            raise ConfigError(bad_value("task", one.stages, allowed, f"does not say which part to {partless}"))
        if one.part and one.part not in parts:
            why = f"has no {one.part}, which {task.name} acts on"
            raise ConfigError(bad_value("workspace", workspace.name, f"{task.workspace}, or one that has it", why))
        if one.path and one.path not in workspace.paths:
            why = f"has no path {one.path}, along which {task.name} goes"
            raise ConfigError(bad_value("workspace", workspace.name, f"{task.workspace}, or one that has it", why))
    return replace(task, parts=parts, path_points={name: len(path) - 1 for name, path in workspace.paths.items()})


def check_areas(task: Task, world: World, areas: Mapping[str, Box], given: Collection[str]) -> None:
    """Refuse areas that are missing, and of the user's own those that nothing is drawn from or the arm cannot reach.

    That it reaches the shipped ones is checked by the tests.

    Args:
        task: The task.
        world: Robot, workspace and objects of the environment.
        areas: All by name, the user's own among them.
        given: Names of the user's own.

    Raises:
        ConfigError: An area is missing, unknown, or out of the robot's reach.
    """
    robot, workspace = world.robot, world.workspace
    needed = ["object"] if world.objects else []
    needed += [name for number in range(len(task.subtasks)) for name in task.goal_areas(number)]
    starts = [f"{role}_start" for role in (*task.roles, "distractor")]
    known = dict.fromkeys((*workspace.areas, *needed, *starts))
    for name in given:
        if name not in known:
            why = f"is no area of workspace {workspace.name}, nor one that {task.name} draws from"
            raise ConfigError(bad_value("task_params.areas", name, known, why))
    for name in needed:
        key = f"task_params.areas.{name}"
        if name not in areas:
            why = f"is missing: workspace {workspace.name} has no such area, from which {task.name} draws"
            raise ConfigError(bad_value(key, None, "a box of yours, or another workspace", why))
    for name in given:
        low, high = (corner.tolist() for corner in areas[name])
        share, worst = reached(world, Area(tuple(low), tuple(high)))
        if worst is not None:
            base = list(robot.base_position)
            allowed = f"a smaller box, or one nearer to the base at {base}"
            why = f"is to {1 - share:.0%} out of {robot.name}'s reach, e.g. at {worst}"
            raise ConfigError(bad_value(f"task_params.areas.{name}", {"low": low, "high": high}, allowed, why))
