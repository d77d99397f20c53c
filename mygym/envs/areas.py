"""Areas from which a task draws objects and goals: resolution, reachability and room."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mygym.engines.engine import inspection_of
from mygym.engines.inspection import Inspection
from mygym.engines.world import World
from mygym.envs.placement import Box, box, boxes, check_distances, object_area
from mygym.envs.supported import missing_in_workspace
from mygym.errors import ConfigError, bad_value
from mygym.robotics.objects import ObjectSpec
from mygym.robotics.robot_spec import RobotSpec
from mygym.robotics.workspace import Area, WorkspaceSpec
from mygym.tasks.task import Task
from mygym.types import FloatArray

ALLOWED_DEPTH = 0.005
"""m by which an object may start inside a fixture: the engine pushes it out."""

SUPPORT_SPACING = 0.02
"""Largest distance between the heights at which a support is searched, m: less than the thickness of supports."""


def resolve_areas(
    task: Task, workspace: WorkspaceSpec, given: Mapping[str, Mapping[str, Sequence[float]]]
) -> dict[str, Box]:
    """Return the workspace's areas, replaced by the user's: name → `low` and `high` corner in m, or a single corner.

    Raises:
        ConfigError: The task draws nothing from an area, or a corner is missing, or `high` is below `low`.
    """
    areas = boxes(workspace)
    starts = [f"{role}_start" for role in (*task.roles, "distractor")]
    known = list(dict.fromkeys((*areas, *_drawn_areas(task), *starts)))
    for name, corners in given.items():
        if name not in known:
            why = f"is no area of workspace {workspace.name}, and {task.name} draws nothing from it"
            raise ConfigError(bad_value("task_params.areas", name, known, why))
        key = f"task_params.areas.{name}"
        default = workspace.areas.get(name)
        both = {**({"low": default.low, "high": default.high} if default else {}), **corners}
        for corner in ("low", "high"):
            if corner not in both:
                why = f"is missing, and workspace {workspace.name} has no area {name} with a default"
                raise ConfigError(bad_value(f"{key}.{corner}", None, "both corners, low and high", why))
        if any(low > high for low, high in zip(both["low"], both["high"], strict=True)):
            allowed = f"must not be below low {list(both['low'])}"
            raise ConfigError(bad_value(f"{key}.high", list(both["high"]), allowed))
        areas[name] = box(both["low"], both["high"])
    return areas


def check_areas(task: Task, world: World, areas: Mapping[str, Box], given: Collection[str]) -> None:
    """Check that all areas exist, and that the user's areas, `given`, are reachable and have room.

    Tests check the areas of built-in workspaces.

    Raises:
        ConfigError: An area is missing, out of the robot's reach, or without room.
    """
    robot, workspace = world.robot, world.workspace
    for name, number in _drawn_areas(task).items():
        if name not in areas:
            raise ConfigError(_missing_area(task, robot, workspace, name, number))
    for name in given:
        low, high = (corner.tolist() for corner in areas[name])
        share, example = reached(world, Area(tuple(low), tuple(high)))
        if example is not None:
            base = list(robot.base_position)
            allowed = f"a smaller box, or a box nearer to the base at {base}"
            why = f"is {1 - share:.0%} out of {robot.name}'s reach, e.g. at {example}"
            raise ConfigError(bad_value(f"task_params.areas.{name}", {"low": low, "high": high}, allowed, why))
        check_room(task, world, areas, name)
    check_distances(task, areas)


def _drawn_areas(task: Task) -> dict[str, int | None]:
    """Return area of the task → number of the sub-task that names it, None if it follows from the stages."""
    numbers: dict[str, int | None] = {"object": None} if task.roles or task.distractors else {}
    for number, subtask in enumerate(task.subtasks):
        named = (subtask.area,) if isinstance(subtask.area, str) else subtask.area
        for name in task.goal_areas(number):
            numbers.setdefault(name, number if name in named else None)
        if subtask.via:
            numbers.setdefault(subtask.via, number)
    return numbers


def _missing_area(task: Task, robot: RobotSpec, workspace: WorkspaceSpec, name: str, number: int | None) -> str:
    """Return the message for a missing area."""
    robots = [other for other, home in workspace.robots.items() if home and name in home.areas]
    if robots:
        why = f"has no area {name} in workspace {workspace.name}, from which {task.name} draws"
        message = bad_value("robot", robot.name, robots, why)
    else:
        message = missing_in_workspace(task, workspace, "area", name, number)
    return message if message.endswith("?") else f"{message}; or give its box, task_params.areas.{name}"


@dataclass(frozen=True)
class AreaUse:
    """Point or object that a task draws from an area."""

    name: str
    """Name for messages."""
    spec: ObjectSpec | None = None
    """Object that is placed in the area; None: a point."""
    support: float | None = None
    """m below the object within which it must have a support; None: it may be in the air."""


def check_room(task: Task, world: World, areas: Mapping[str, Box], name: str) -> None:
    """Check that nothing drawn from the area `name` is outside the workspace, inside a fixture, or in the air.

    Reset the world before its next step.

    Raises:
        ConfigError: A position in the area is invalid.
    """
    with inspection_of(world) as shapes:
        for use in _uses(task, world, areas, name):
            lift = np.array((0.0, 0.0, use.spec.half_height if use.spec else 0.0))
            points = lattice(Area(*(tuple(corner.tolist()) for corner in areas[name]))) + lift
            low, high = np.array(world.workspace.bounds.low), np.array(world.workspace.bounds.high)
            faults = {"outside the workspace's bounds": ((points < low) | (points > high)).any(axis=1)}
            overlaps = shapes.fixtures_at(points, use.spec, ALLOWED_DEPTH)
            faults[f"inside {' and '.join(overlaps)}"] = _any(overlaps, len(points))
            if use.support is not None:
                faults["in the air, without a support"] = _unsupported(shapes, points, use.spec, use.support)
            for fault, invalid in faults.items():
                if invalid.any():
                    box = {"low": areas[name][0].tolist(), "high": areas[name][1].tolist()}
                    example = points[invalid][0].round(3).tolist()
                    share = f"{invalid.mean():.0%} of the points"
                    why = f"puts {use.name} at {share} {fault}, e.g. with its centre at {example}"
                    allowed = "a smaller box, or another position"
                    allowed += "; its z is the height of the underside of objects" if use.spec else ""
                    raise ConfigError(bad_value(f"task_params.areas.{name}", box, allowed, why))


def _uses(task: Task, world: World, areas: Mapping[str, Box], name: str) -> Iterator[AreaUse]:
    """Yield the uses of an area by a task: objects at the start, then goals of objects or of the tool.

    Goals after a sub-task on a part are omitted, because the part moves in that sub-task.
    """
    alternatives = world.alternatives
    for slot, specs in enumerate(alternatives):
        role = task.roles[slot] if slot < len(task.roles) else "distractor"
        if object_area(areas, role) is areas[name]:
            yield from (AreaUse(role, spec) for spec in specs)
    for number, (subtask, stages) in enumerate(zip(task.subtasks, task.composed, strict=True)):
        if subtask.part:
            return
        bound = task.stage_bindings[task.sequence.firsts[number]]
        given = [task.sequence.predicates[predicate] for stage in stages for predicate in stage.gives]
        strikes = any(predicate.strikes_goal for predicate in given)
        is_goal = name in task.goal_areas(number)
        if name == subtask.via or (is_goal and (bound.object is None or strikes)):
            yield AreaUse("the goal")
        elif is_goal and any(predicate.places_object for predicate in given):
            support = None if task.held_after[number][-1] else bound.thresholds.tolerance
            for spec in alternatives[bound.object or 0]:
                yield AreaUse(f"the goal of {subtask.object}", spec, support)


def _unsupported(shapes: Inspection, points: FloatArray, spec: ObjectSpec | None, support: float) -> NDArray[np.bool_]:
    """Return `(n,)`: whether an object at each point has no support within `support` m below it."""
    unsupported = np.ones(len(points), dtype=bool)
    for down in np.linspace(0.0, support, 1 + math.ceil(support / SUPPORT_SPACING))[1:]:
        if unsupported.any():
            lower = points[unsupported] - (0.0, 0.0, down)
            unsupported[unsupported] = ~_any(shapes.fixtures_at(lower, spec), len(lower))
    return unsupported


def _any(overlaps: Mapping[str, NDArray[np.bool_]], count: int) -> NDArray[np.bool_]:
    """Return `(count,)`: whether any fixture is overlapped at each point."""
    result: NDArray[np.bool_] = np.any([np.zeros(count, dtype=bool), *overlaps.values()], axis=0)
    return result


def lattice(area: Area) -> FloatArray:
    """Return `(n, 3)` m: up to 5 points along each edge of an area, with its corners."""
    edges = [np.unique(np.linspace(low, high, 5)) for low, high in zip(area.low, area.high, strict=True)]
    return np.stack(np.meshgrid(*edges), axis=-1).reshape(-1, 3)


def reached(world: World, area: Area, lift: float = 0.0) -> tuple[float, list[float] | None]:
    """Return the share of the `lattice` of an area, `lift` m higher, that the tool reaches, and a point out of reach.

    The tool has the orientation that the workspace sets. The point is None if all are reached.
    """
    points = lattice(area) + np.array((0.0, 0.0, lift))
    reachable = world.reachable(points)
    return float(reachable.mean()), None if reachable.all() else points[~reachable][0].round(3).tolist()
