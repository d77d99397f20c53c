"""Whether a task, a robot, a workspace and areas fit each other; what is said when they do not."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mygym.envs.areas import check_room
from mygym.envs.supported import robots_for
from mygym.errors import AssetError, ConfigError, bad_value
from mygym.models.fixtures import Movable
from mygym.models.objects import ObjectSpec, load_object
from mygym.models.robot import RobotSpec
from mygym.models.workspace import Area, WorkspaceSpec, load_workspace
from mygym.registry import registry
from mygym.sim.inspection import reached
from mygym.sim.world import World
from mygym.tasks.grammar import as_typed
from mygym.tasks.sampling import Area as Box
from mygym.tasks.task import Task
from mygym.tasks.validation import named_objects


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


def load_objects(task: Task, params: Mapping[str, Any]) -> list[ObjectSpec]:
    """Those of the task's roles, in their colours, then its distractors.

    Args:
        task: The task, with `params` in it.
        params: The config's `task_params`: by these, mistakes are told by the key under which they were made.

    Raises:
        RegistryError: There is none of a name.
    """
    found = [load_object(registry("object").get(name, key).load()) for key, name in named_objects(task, params)]
    for slot, role in enumerate(task.roles):
        if role in task.colors:
            found[slot] = found[slot].in_color(task.colors[role])
    return found


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
            raise ConfigError(
                bad_value("task", as_typed(one.stages), allowed, f"does not say which part to {partless}")
            )
        if one.part and one.part not in parts:
            raise ConfigError(_lacks(task, workspace, "part", one.part, number))
        if one.part and one.to and not parts[one.part].lower <= one.to[0] <= one.to[1] <= parts[one.part].upper:
            allowed = f"within {parts[one.part].lower:g} to {parts[one.part].upper:g}, the range of {one.part}"
            raise ConfigError(bad_value(f"task.{number}.to", list(one.to), allowed))
        if one.path and one.path not in workspace.paths:
            raise ConfigError(_lacks(task, workspace, "path", one.path, number))
    return replace(
        task, parts=tuple(parts), path_points={name: len(path) - 1 for name, path in workspace.paths.items()}
    )


def areas_of(task: Task, workspace: WorkspaceSpec, own: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, Box]:
    """The workspace's areas, with the user's own in their place: name → `low` and `high`, or one of them, m.

    Raises:
        ConfigError: An area that nothing is drawn from, one without a corner, or with its corners the wrong way round.
    """
    areas = {name: _box(area.low, area.high) for name, area in workspace.areas.items()}
    starts = [f"{role}_start" for role in (*task.roles, "distractor")]
    known = list(dict.fromkeys((*areas, *_drawn_from(task), *starts)))
    for name, corners in own.items():
        if name not in known:
            why = f"is no area of workspace {workspace.name}, nor one that {task.name} draws from"
            raise ConfigError(bad_value("task_params.areas", name, known, why))
        key = f"task_params.areas.{name}"
        here = workspace.areas.get(name)
        both = {**({"low": here.low, "high": here.high} if here else {}), **corners}
        for corner in ("low", "high"):
            if corner not in both:
                why = f"is missing: workspace {workspace.name} has no {name} to take it from"
                raise ConfigError(bad_value(f"{key}.{corner}", None, "both corners, low and high", why))
        if any(low > high for low, high in zip(both["low"], both["high"], strict=True)):
            allowed = f"must not be below low {list(both['low'])}"
            raise ConfigError(bad_value(f"{key}.high", list(both["high"]), allowed))
        areas[name] = _box(both["low"], both["high"])
    return areas


def check_areas(task: Task, world: World, areas: Mapping[str, Box], given: Collection[str]) -> None:
    """Refuse areas that are missing, and of the user's own those that the arm cannot reach or nothing can be in.

    The shipped ones are checked by the tests.

    Args:
        task: The task.
        world: Robot, workspace and objects of the environment.
        areas: All by name, the user's own among them.
        given: Names of the user's own.

    Raises:
        ConfigError: An area is missing, out of the robot's reach, or in something.
    """
    robot, workspace = world.robot, world.workspace
    for name, number in _drawn_from(task).items():
        if name not in areas:
            raise ConfigError(_lacks_area(task, robot, workspace, name, number))
    for name in given:
        low, high = (corner.tolist() for corner in areas[name])
        share, worst = reached(world, Area(tuple(low), tuple(high)))
        if worst is not None:
            base = list(robot.base_position)
            allowed = f"a smaller box, or one nearer to the base at {base}"
            why = f"is to {1 - share:.0%} out of {robot.name}'s reach, e.g. at {worst}"
            raise ConfigError(bad_value(f"task_params.areas.{name}", {"low": low, "high": high}, allowed, why))
        check_room(task, world, areas, name)


def _drawn_from(task: Task) -> dict[str, int | None]:
    """Area that a task draws from → the number of the sub-task that names it, None where it follows from the stages."""
    found: dict[str, int | None] = {"object": None} if task.roles or task.distractors else {}
    for number, one in enumerate(task.subtasks):
        named = (one.area,) if isinstance(one.area, str) else one.area
        for name in task.goal_areas(number):
            found.setdefault(name, number if name in named else None)
        if one.via:
            found.setdefault(one.via, number)
    return found


def _lacks_area(task: Task, robot: RobotSpec, workspace: WorkspaceSpec, name: str, number: int | None) -> str:
    """The message for an area that is not there."""
    has_it = [own for own, home in workspace.robots.items() if home and name in home.areas]
    if has_it:
        why = f"has no area {name} in workspace {workspace.name}, from which {task.name} draws"
        message = bad_value("robot", robot.name, has_it, why)
    else:
        message = _lacks(task, workspace, "area", name, number)
    return message if message.endswith("?") else f"{message}; or give its box, task_params.areas.{name}"


def _lacks(task: Task, workspace: WorkspaceSpec, what: str, name: str, number: int | None) -> str:
    """The message for a part, path or area that a workspace lacks: where it is, or, if nowhere, what there is here."""
    if task.name in registry("task"):
        others = [home for home in (task.workspace, *task.also) if home != workspace.name]
    else:
        others = [one.name for one in _workspaces() if name in _all_of(what, one)]
    if others or number is None:
        return bad_value("workspace", workspace.name, others, f"has no {what} {name}, which {task.name} needs")
    why = f"is no {what} of workspace {workspace.name}"
    anywhere = dict.fromkeys(known for one in _workspaces() for known in _all_of(what, one))
    return bad_value(f"task.{number}.{what}", name, _all_of(what, workspace) or anywhere, why)


def _all_of(what: str, workspace: WorkspaceSpec) -> list[str]:
    """Names of the parts, paths or areas of a workspace."""
    return list({"part": workspace.part_names, "path": workspace.paths, "area": workspace.areas}[what])


def _workspaces() -> Iterator[WorkspaceSpec]:
    """All that can be read."""
    for entry in registry("workspace"):
        with contextlib.suppress(AssetError):
            yield load_workspace(entry.load())


def _box(low: Sequence[float], high: Sequence[float]) -> Box:
    return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
