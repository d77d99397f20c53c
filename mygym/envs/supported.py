"""Which tasks, robots, workspaces and objects fit together; tests prove supported combinations with the expert."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from mygym.config import RunConfig
from mygym.config.schema import ControlParams
from mygym.envs.placement import boxes, check_distances
from mygym.errors import AssetError, ConfigError, bad_value
from mygym.registry import registry
from mygym.robotics.assets import asset_names, read_asset, read_mapping
from mygym.robotics.controllers.controller import YAW_RANGE
from mygym.robotics.fixtures import ArticulatedPart
from mygym.robotics.inference.base_placement import DIRECTIONS, freedom
from mygym.robotics.objects import ROOM, ObjectSpec, load_object, object_names, objects_for_hand
from mygym.robotics.robot import find_robot, lacks_sections
from mygym.robotics.robot_spec import RobotSpec
from mygym.robotics.workspace import HomeSpec, WorkspaceSpec, find_workspace, load_workspace
from mygym.tasks.grammar import as_typed
from mygym.tasks.lookup import find_task, named_objects
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


def check_robot(task: Task, robot: RobotSpec, name: str, control: ControlParams, grips: bool) -> None:
    """Check that a robot, by the name that the user gave, has the grippers and arms that task and control need.

    `grips` says whether actions include the robot's grippers.

    Raises:
        ConfigError: A gripper or an arm is missing, or `control.gripper` is binary and no action moves a gripper.
    """
    if why := lack(robot, task):
        raise ConfigError(bad_value("robot", name, robots_for(task), why))
    if control.gripper == "binary" and not (grips and any(arm.gripper for arm in robot.arms)):
        why = f"has no effect, because no action of {task.name} on {robot.name} moves a gripper"
        raise ConfigError(bad_value("control.gripper", "binary", "continuous", why))


def load_objects(task: Task, params: Mapping[str, Any]) -> list[list[ObjectSpec]]:
    """Load the alternatives of each slot: objects of a task's roles, in their colours, then of distractors.

    The config's `task_params` are applied to the task; messages name the key that gives each object.

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


def _check_rotation(task: Task, number: int) -> None:
    """Refuse a range of rotations to goals where no stage rotates, or that turns objects out of the tool's range."""
    key, lowest_and_highest = f"task.{number}.to", list(task.subtasks[number].to or ())
    if task.goal_slots[number].yaw is None:
        why = f"has no effect: no stage of {as_typed(task.subtasks[number].stages)} turns an object or moves a part"
        raise ConfigError(
            bad_value(key, lowest_and_highest, "none, or a stage that turns an object, such as rotate", why)
        )
    low, high = task.rotation
    least = 0.0 if low <= 0.0 <= high else min(abs(low), abs(high))  # an object may turn to either side
    if (most := YAW_RANGE + least) <= max(map(abs, lowest_and_highest)):
        raise ConfigError(bad_value(key, lowest_and_highest, f"above -{most:.2f} and below {most:.2f} rad"))


def bind_to_workspace(task: Task, workspace: WorkspaceSpec, parts: Mapping[str, ArticulatedPart]) -> Task:
    """Return the task with the parts and paths of a workspace.

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
        if subtask.to and not subtask.part:
            _check_rotation(task, number)
        if subtask.path and subtask.path not in workspace.paths:
            raise ConfigError(missing_in_workspace(task, workspace, "path", subtask.path, number))
    return replace(
        task, parts=tuple(parts), path_points={name: len(path) - 1 for name, path in workspace.paths.items()}
    )


def missing_in_workspace(task: Task, workspace: WorkspaceSpec, kind: str, name: str, number: int | None) -> str:
    """Return the message for a `part`, `path` or `area` that a workspace lacks.

    `number` is that of the sub-task that names it; None if it follows from the stages.
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
    return {"part": [*workspace.parts], "path": [*workspace.paths], "area": [*workspace.areas]}[kind]


def _readable_workspaces() -> Iterator[WorkspaceSpec]:
    for entry in registry("workspace"):
        with contextlib.suppress(AssetError):
            yield load_workspace(entry.load())


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

    The objects to draw from are in the order of the task's roles; their sizes are multiplied by up to `largest_size`.
    Messages name the key of the config's `task_params` that gives each object.

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
        width = max(top.grasp_width for top in tops)
        specs = map(load_object, object_names())
        blocks = (spec.name for spec in specs if spec.flat_top and len(spec.geoms) == 1 and spec.grasp_width >= width)
        allowed = f"an object with a flat top, e.g. {', '.join(itertools.islice(blocks, EXAMPLES))}"
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
