"""Where an episode's objects and goals are: drawn from the workspace's areas, apart from each other, never solved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mygym.errors import ConfigError, bad_value
from mygym.sim.objects import ObjectSpec
from mygym.sim.world import World
from mygym.tasks.sampling import Area, sample_in
from mygym.tasks.subtask import SubTask
from mygym.tasks.task import Task

Array = NDArray[np.float64]

START_MARGIN = 0.05
"""m beyond the tolerance by which every goal is away from where the episode starts."""

GAP = 0.03
"""m of room between objects that are put down, for fingers to pass."""

PART_SHARE = (0.5, 0.9)
"""Of a part's range from where it rests: where its goals are, unless the sub-task says."""

TURN = (0.5, 1.2)
"""rad: by how much an object is to be turned, to either side, unless the sub-task says."""

TRIES = 100


def object_area(areas: Mapping[str, Area], role: str) -> Area:
    """Where an object is put down: the area of its role, if there is one, else `object`."""
    return areas.get(f"{role}_start", areas["object"])


def draw_poses(rng: np.random.Generator, task: Task, objects: Sequence[ObjectSpec], areas: Mapping[str, Area]) -> Array:
    """Poses `(k, 7)` of the task's objects and of the clutter, lying apart from each other.

    Raises:
        ConfigError: There is no room for them all.
    """
    poses = np.zeros((len(objects), 7))
    for slot, spec in enumerate(objects):
        role = task.roles[slot] if slot < len(task.roles) else "clutter"
        area = object_area(areas, role)
        poses[slot, :3] = _apart(rng, area, [(poses[i, :2], _radius(objects[i])) for i in range(slot)], spec, role)
        poses[slot, 2] += spec.half_height
        low, high = task.rotation
        yaw = low + rng.random() * (high - low) if high > low else low
        poses[slot, 5:] = math.sin(yaw / 2), math.cos(yaw / 2)
    return poses


def _apart(
    rng: np.random.Generator, area: Area, others: Sequence[tuple[Array, float]], spec: ObjectSpec, role: str
) -> Array:
    for _ in range(TRIES):
        place = sample_in(rng, area)
        if all(math.dist(place[:2], other) > radius + _radius(spec) + GAP for other, radius in others):
            return place
    where = f"{area[0].round(3).tolist()} … {area[1].round(3).tolist()}"
    why = f"has no room for {role} beside {len(others)} others, {GAP:.2f} m apart"
    raise ConfigError(bad_value("task_params.areas.object", where, "a larger area, or fewer or smaller objects", why))


def _radius(spec: ObjectSpec) -> float:
    """m: of the circle around it, seen from above."""
    return math.hypot(*spec.size[:2]) / 2


def draw_goals(rng: np.random.Generator, task: Task, world: World, areas: Mapping[str, Area]) -> Array:
    """Goal points `(G, 3)` of all sub-tasks, given where things are after the reset.

    Raises:
        ConfigError: An area has no point that is not solved, or not taken.
    """
    goals = np.zeros((task.goal_count, 3))
    state, roles = world.state, task.roles
    where = {role: state.object_position[0, slot].copy() for slot, role in enumerate(roles)}
    positions: dict[int, float] = {}
    for number, (one, slots) in enumerate(zip(task.subtasks, task.goal_slots, strict=True)):
        step = next(step for step in task.steps if step.subtask == number)
        spec = world.objects[step.object] if step.object is not None else None
        if one.part:
            part = step.part or 0
            at = positions.get(part, float(state.part_position[0, part]))
            positions[part] = goals[slots.place, 0] = _part_goal(rng, world, part, one, at, step.thresholds.tolerance)
            continue
        lift = spec.half_height if spec else 0.0
        if one.onto:
            base = world.objects[roles.index(one.onto)]
            goals[slots.place] = where[one.onto]
            goals[slots.place, 2] += base.size[2] - base.half_height + lift
        elif one.path:
            goals[[*slots.path, slots.place]] = np.array(world.workspace.paths[one.path])
            goals[[*slots.path, slots.place], 2] += lift
        else:
            names = task.goal_areas(number)
            area = areas[names[0] if len(names) == 1 else names[int(rng.integers(len(names)))]]
            start = where[one.object] if spec else state.ee_position[0]
            away = step.thresholds.tolerance + START_MARGIN
            taken = [
                (where[role] if slot < len(roles) else state.object_position[0, slot], _radius(world.objects[slot]))
                for slot, role in enumerate((*roles, *task.clutter))
                if slot != step.object
            ]
            goals[slots.place] = _goal_in(rng, area, start - (0.0, 0.0, lift), away, taken, spec)
            goals[slots.place, 2] += lift
        if slots.heading is not None:
            low, high = one.to or TURN
            side = 1.0 if rng.random() < 0.5 else -1.0
            orientation = state.object_orientation[0, step.object or 0]
            yaw = 2.0 * math.atan2(orientation[2], orientation[3])
            goals[slots.heading, 0] = yaw + side * (low + rng.random() * (high - low))
        if spec is not None:
            where[one.object] = goals[slots.place].copy()
    return goals


def _goal_in(
    rng: np.random.Generator,
    area: Area,
    start: Array,
    away: float,
    taken: Sequence[tuple[Array, float]],
    spec: ObjectSpec | None,
) -> Array:
    """A point away from the start and from where other objects are by then."""
    for _ in range(TRIES):
        point = sample_in(rng, area, start, away)
        if spec is None or all(math.dist(point[:2], other[:2]) > radius + _radius(spec) for other, radius in taken):
            return point
    where = f"{area[0].round(3).tolist()} … {area[1].round(3).tolist()}"
    why = f"has no room for a goal beside {len(taken)} other objects"
    raise ConfigError(bad_value("task_params.areas", where, "a larger area, or fewer or smaller objects", why))


def _part_goal(
    rng: np.random.Generator, world: World, part: int, subtask: SubTask, start: float, tolerance: float
) -> float:
    """A position of a part that is not where it is by then."""
    moving = world.parts[part]
    low, high = subtask.to or tuple(moving.rest + share * (moving.upper - moving.rest) for share in PART_SHARE)
    for _ in range(TRIES):
        goal = low + rng.random() * (high - low)
        if abs(goal - start) >= tolerance:
            return goal
    why = f"has no position of {subtask.part} at least {tolerance:g} from {start:.3g}, where it is"
    raise ConfigError(bad_value("task.to", [low, high], "a wider range, or a smaller tolerance", why))
