"""Where an episode's objects and goals are: drawn from the workspace's areas, apart from each other, never solved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from mygym.errors import ConfigError, bad_value
from mygym.models.objects import ObjectSpec
from mygym.models.tool_yaw import YAW_RANGE
from mygym.sim.moving_distractor import MovingDistractor
from mygym.sim.world import World
from mygym.tasks.sampling import Area, sample_in
from mygym.tasks.subtask import SubTask
from mygym.tasks.task import Task
from mygym.types import FloatArray

START_MARGIN = 0.05
"""m beyond the tolerance by which every goal is away from where the episode starts."""

GAP = 0.06
"""m of room between objects that are put down, for an open hand to pass."""

PART_SHARE = (0.5, 0.9)
"""Of a part's range from where it rests: where its goals are, unless the sub-task says."""

TURN = (0.5, 1.2)
"""rad: by how much an object is to be turned, to either side, unless the sub-task says."""

MARGIN = 0.2
"""rad by which goals' headings stay within what the tool can be turned."""

HAND = 0.05
"""m of room about a goal of the tool alone."""

WAY_STEP = 0.02
"""m between the places at which the way of what moves is looked at."""

TRIES, TRIES_OF_ONE = 100, 20
"""Draws of all places, and in each of them of one, before there is said to be no room."""


def object_area(areas: Mapping[str, Area], role: str) -> Area:
    """Where an object is put down: the area of its role, if there is one, else `object`."""
    return areas.get(f"{role}_start", areas["object"])


def draw_poses(
    rng: np.random.Generator, task: Task, objects: Sequence[ObjectSpec], areas: Mapping[str, Area]
) -> FloatArray:
    """Poses `(k, 7)` of the task's objects, then of distractors: apart from each other and from the ways of what moves.

    Raises:
        ConfigError: There is no room for them all.
    """
    for _ in range(TRIES):
        poses = _poses(rng, task, objects, areas)
        if poses is not None:
            return poses
    low, high = areas["object"]
    where = f"{low.round(3).tolist()} … {high.round(3).tolist()}"
    why = f"has no room for {len(objects)} objects, {GAP:.2f} m apart"
    raise ConfigError(bad_value("task_params.areas.object", where, "a larger area, or fewer or smaller objects", why))


def _poses(
    rng: np.random.Generator, task: Task, objects: Sequence[ObjectSpec], areas: Mapping[str, Area]
) -> FloatArray | None:
    """One draw; None if they are too close to each other."""
    poses = np.zeros((len(objects), 7))
    moving = moving_distractors(task)
    ways: list[list[FloatArray]] = []
    for slot, spec in enumerate(objects):
        role = task.roles[slot] if slot < len(task.roles) else "distractor"
        for _ in range(TRIES_OF_ONE):
            poses[slot, :3] = sample_in(rng, object_area(areas, role))
            way = _way(poses[slot, :3], moving.get(slot))
            others = zip(objects[:slot], ways, strict=True)
            if all(_apart(way, there) >= _radius(spec) + _radius(other) + GAP for other, there in others):
                break
        else:
            return None
        ways.append(way)
        poses[slot, 2] += spec.half_height
        if slot in moving:  # what goes up and down does so above what it lies on
            poses[slot, 2] += moving[slot].range * abs(moving[slot].axis[2])
        low, high = task.rotation
        yaw = low + rng.random() * (high - low) if high > low else low
        poses[slot, 5:] = math.sin(yaw / 2), math.cos(yaw / 2)
    return poses


def moving_distractors(task: Task) -> dict[int, MovingDistractor]:
    """Slot of an object → its way, of distractors that move."""
    found = {}
    for slot, one in enumerate(task.distractors, start=len(task.roles)):
        if one.speed > 0:
            x, y, z = (part / math.hypot(*one.axis) for part in one.axis)
            found[slot] = MovingDistractor((x, y, z), one.speed, one.range)
    return found


def _way(place: FloatArray, shuttle: MovingDistractor | None) -> list[FloatArray]:
    """Where something may be met, `(3,)` m: places on its way, near each other; of what lies still its own."""
    if shuttle is None:
        return [place]
    count = math.ceil(shuttle.range / WAY_STEP)
    return [place + shuttle.range * step / count * np.array(shuttle.axis) for step in range(-count, count + 1)]


def _apart(one: Sequence[FloatArray], other: Sequence[FloatArray]) -> float:
    """Least distance between two ways seen from above, m."""
    return min(math.dist(a[:2], b[:2]) for a in one for b in other)


def _radius(spec: ObjectSpec) -> float:
    """m: of the circle around it, seen from above."""
    return math.hypot(*spec.size[:2]) / 2


def draw_goals(rng: np.random.Generator, task: Task, world: World, areas: Mapping[str, Area]) -> FloatArray:
    """Goal points `(G, 3)` of all sub-tasks, given where things are after the reset.

    Raises:
        ConfigError: An area has no point that is not solved, or not taken.
    """
    goals = np.zeros((task.goal_count, 3))
    state, roles = world.state, task.roles
    names = (*roles, *(f"distractor {number}" for number in range(len(task.distractors))))
    moving = {names[slot]: shuttle for slot, shuttle in moving_distractors(task).items()}
    where = {name: state.object_position[0, slot].copy() for slot, name in enumerate(names)}
    radius = {name: _radius(spec) for name, spec in zip(names, world.objects, strict=True)}
    positions: dict[int, float] = {}
    for number, (one, slots) in enumerate(zip(task.subtasks, task.goal_slots, strict=True)):
        step = next(step for step in task.bound_stages if step.subtask == number)
        spec = world.objects[step.object] if step.object is not None else None
        if one.part:
            part = step.part or 0
            at = positions.get(part, float(state.part_position[0, part]))
            positions[part] = goals[slots.goal, 0] = _part_goal(rng, world, part, one, at, step.thresholds.tolerance)
            continue
        lift = spec.half_height if spec else 0.0
        if one.onto:
            base = world.objects[roles.index(one.onto)]
            goals[slots.goal] = where[one.onto]
            goals[slots.goal, 2] += base.size[2] - base.half_height + lift
        elif one.path:
            goals[[*slots.path, slots.goal]] = np.array(world.workspace.paths[one.path])
            goals[[*slots.path, slots.goal], 2] += lift
        else:
            among = task.goal_areas(number)
            area = areas[among[0] if len(among) == 1 else among[int(rng.integers(len(among)))]]
            start = where[one.object] if spec else state.ee_position[0]
            away = step.thresholds.tolerance + START_MARGIN
            others = [
                (place, radius[name])
                for name in names
                if name != one.object and (spec or name not in roles)
                for place in _way(where[name], moving.get(name))
            ]
            goals[slots.goal] = _goal_in(rng, area, start - (0.0, 0.0, lift), away, others, spec)
            goals[slots.goal, 2] += lift
        if one.via:
            goals[slots.path[0]] = sample_in(rng, areas[one.via])
        if slots.yaw is not None:
            low, high = one.to or TURN
            side = 1.0 if rng.random() < 0.5 else -1.0
            orientation = state.object_orientation[0, step.object or 0]
            yaw = 2.0 * math.atan2(orientation[2], orientation[3])
            turn = side * (low + rng.random() * (high - low))
            goals[slots.yaw, 0] = yaw + (turn if abs(yaw + turn) < YAW_RANGE - MARGIN else -turn)
        if spec is not None:
            where[one.object] = goals[slots.goal].copy()
    return goals


def _goal_in(
    rng: np.random.Generator,
    area: Area,
    start: FloatArray,
    away: float,
    others: Sequence[tuple[FloatArray, float]],
    spec: ObjectSpec | None,
) -> FloatArray:
    """A point away from the start, and from where other things are by then, `(3,)` m with their radius in m."""
    room = _radius(spec) if spec else HAND
    for _ in range(TRIES):
        point = sample_in(rng, area, start, away)
        if all(math.dist(point[:2], at[:2]) > radius + room for at, radius in others):
            return point
    where = f"{area[0].round(3).tolist()} … {area[1].round(3).tolist()}"
    why = f"has no room for a goal beside {len(others)} other things"
    raise ConfigError(bad_value("task_params.areas", where, "a larger area, or fewer things in it", why))


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
