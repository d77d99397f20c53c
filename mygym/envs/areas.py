"""Whether there is room in areas for what tasks draw from them: on something, and nothing else there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mygym.envs.placement import object_area
from mygym.errors import ConfigError, bad_value
from mygym.models.objects import ObjectSpec
from mygym.models.workspace import Area
from mygym.sim.inspection import fixtures_at, lattice
from mygym.sim.world import World
from mygym.tasks.sampling import Area as Box
from mygym.tasks.task import Task
from mygym.types import FloatArray

SHALLOW = 0.005
"""m by which what is put down may be inside a fixture: Bullet pushes it out."""

DOWN = 0.02
"""m, at most, between the heights at which something to lie on is looked for: thinner than what things lie on."""


@dataclass(frozen=True)
class Use:
    """What comes to be at the points of an area."""

    thing: str
    """Its name, for messages."""
    spec: ObjectSpec | None = None
    """The object that stands there; None: a point."""
    support: float | None = None
    """m beneath it within which it has to find something to lie on; None: it may be in the air."""


def check_room(task: Task, world: World, areas: Mapping[str, Box], name: str) -> None:
    """Refuse an area in part of which something would be outside the workspace, inside a fixture, or in the air.

    The world is to be reset before its next step.

    Args:
        task: The task.
        world: Robot, workspace and objects of the environment; parts are where they rest.
        areas: All by name.
        name: Of the one that is looked at, in a `lattice`.

    Raises:
        ConfigError: Something would.
    """
    for use in _uses(task, world, areas, name):
        lift = np.array((0.0, 0.0, use.spec.half_height if use.spec else 0.0))
        points = lattice(Area(*(tuple(corner.tolist()) for corner in areas[name]))) + lift
        low, high = np.array(world.workspace.bounds.low), np.array(world.workspace.bounds.high)
        wrong = {"outside the workspace's bounds": ((points < low) | (points > high)).any(axis=1)}
        inside = fixtures_at(world, points, use.spec, SHALLOW)
        wrong[f"inside {' and '.join(inside)}"] = _any(inside, len(points))
        if use.support is not None:
            wrong["in the air, where nothing holds it"] = _in_air(world, points, use.spec, use.support)
        for where, those in wrong.items():
            if those.any():
                box = {"low": areas[name][0].tolist(), "high": areas[name][1].tolist()}
                example = points[those][0].round(3).tolist()
                why = f"puts {use.thing} to {those.mean():.0%} {where}, e.g. with its centre at {example}"
                allowed = "a smaller box, or another place"
                allowed += "; its z is of the underside of things" if use.spec else ""
                raise ConfigError(bad_value(f"task_params.areas.{name}", box, allowed, why))


def _uses(task: Task, world: World, areas: Mapping[str, Box], name: str) -> Iterator[Use]:
    """What a task has in an area: objects at the start, then goals, of objects or of the tool.

    Goals of sub-tasks that follow one on a part are left out: what stands there by then is not known.
    """
    for slot, spec in enumerate(world.objects):
        role = task.roles[slot] if slot < len(task.roles) else "distractor"
        if object_area(areas, role) is areas[name]:
            yield Use(role, spec)
    for number, (one, stages) in enumerate(zip(task.subtasks, task.composed, strict=True)):
        if one.part:
            return
        step = next(step for step in task.bound_stages if step.subtask == number)
        given = [fact for stage in stages for fact in stage.gives]
        if name == one.via or (name in task.goal_areas(number) and (step.object is None or "struck" in given)):
            yield Use("the goal")
        elif name in task.goal_areas(number) and "placed" in given:
            hand = [fact for fact in given if fact in ("held", "free")]
            held = bool(hand) and hand[-1] == "held"
            spec = world.objects[step.object or 0]
            yield Use(f"the goal of {one.object}", spec, None if held else step.thresholds.tolerance)


def _in_air(world: World, points: FloatArray, spec: ObjectSpec | None, support: float) -> NDArray[np.bool_]:
    """`(n,)`: at which points there is nothing to lie on within `support` m beneath an object."""
    in_air = np.ones(len(points), dtype=bool)
    for down in np.linspace(0.0, support, 1 + math.ceil(support / DOWN))[1:]:
        if in_air.any():
            lower = points[in_air] - (0.0, 0.0, down)
            in_air[in_air] = ~_any(fixtures_at(world, lower, spec), len(lower))
    return in_air


def _any(inside: Mapping[str, NDArray[np.bool_]], count: int) -> NDArray[np.bool_]:
    """`(count,)`: at which points it is inside anything."""
    found = np.zeros(count, dtype=bool)
    for there in inside.values():
        found |= there
    return found
