"""Poses and goals of an episode: drawn from areas, apart from each other, never solved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from mygym.engines.world import MovingDistractor, World
from mygym.envs.episode_seeds import named_stream
from mygym.errors import ConfigError, bad_value
from mygym.robotics.controllers.controller import YAW_RANGE
from mygym.robotics.objects import ObjectSpec
from mygym.robotics.workspace import WorkspaceSpec
from mygym.tasks.stage import SubTask
from mygym.tasks.task import AIR, SURFACE, Task
from mygym.types import FloatArray

SAMPLES = 200
"""Points drawn before the farthest corner is taken."""

START_MARGIN = 0.05
"""m, beyond the tolerance, between the start of an object and its goal."""

GAP = 0.06
"""m between objects, for an open hand to pass."""

PART_SHARE = (0.5, 0.9)
"""Default range of a part's goals, as fractions of its travel from rest."""

YAW_CHANGE = (0.5, 1.2)
"""Default range of the yaw by which an object is turned to either side, rad."""

YAW_MARGIN = 0.2
"""rad between goal yaws and the limits of the tool's yaw."""

HAND_RADIUS = 0.05
"""m of room around a goal of the tool."""

PATH_SPACING = 0.02
"""m between the points at which the path of a moving distractor is checked."""

TRIES, TRIES_PER_OBJECT = 100, 20
"""Draws of all positions, and of each object within a draw, before an error reports that the room is too small."""

Box = tuple[FloatArray, FloatArray]
"""Lowest and highest corner `(3,)` of an area in the world frame, m."""


def boxes(workspace: WorkspaceSpec) -> dict[str, Box]:
    """Return the areas of a workspace by name."""
    return {name: box(area.low, area.high) for name, area in workspace.areas.items()}


def box(low: Sequence[float], high: Sequence[float]) -> Box:
    """Return the area between two corners `(3,)` m."""
    return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)


def draw_choice(
    rng: np.random.Generator, task: Task, alternatives: Sequence[Sequence[ObjectSpec]]
) -> tuple[int | None, ...]:
    """Draw the objects of the episode of `rng`, which does not advance, from the alternatives of each slot.

    Returns:
        Index of each object among its alternatives, None for absent distractors; empty if nothing is to draw.
    """
    counts = [distractor.counts for distractor in task.distractors]
    if all(len(specs) == 1 for specs in alternatives) and all(low == high for low, high in counts):
        return ()
    stream = named_stream(rng, "objects")
    choice: list[int | None] = [int(stream.integers(len(specs))) for specs in alternatives]
    slot = len(task.roles)
    for low, high in counts:
        count = int(stream.integers(low, high + 1))
        choice[slot + count : slot + high] = [None] * (high - count)
        slot += high
    return tuple(choice)


def draw_poses(
    rng: np.random.Generator,
    task: Task,
    objects: Sequence[ObjectSpec],
    areas: Mapping[str, Box],
    present: Sequence[bool] | None = None,
) -> FloatArray:
    """Draw poses `(k, 7)` of the task's objects of this episode, then of distractors; absent objects have zeros.

    Objects are apart from each other and from the paths of moving distractors. Without `present`, all are there.

    Raises:
        ConfigError: The areas have no room for all objects.
    """
    for _ in range(TRIES):
        poses = _try_poses(rng, task, objects, areas, present or [True] * len(objects))
        if poses is not None:
            return poses
    low, high = areas["object"]
    where = f"{low.round(3).tolist()} … {high.round(3).tolist()}"
    why = f"has no room for {len(objects)} objects, {GAP:.2f} m apart"
    raise ConfigError(bad_value("task_params.areas.object", where, "a larger area, or fewer or smaller objects", why))


def _try_poses(
    rng: np.random.Generator,
    task: Task,
    objects: Sequence[ObjectSpec],
    areas: Mapping[str, Box],
    present: Sequence[bool],
) -> FloatArray | None:
    """Draw once; return None if objects are too close to each other."""
    poses = np.zeros((len(objects), 7))
    moving = moving_distractors(task)
    placed: list[tuple[ObjectSpec, list[FloatArray]]] = []
    for slot, spec in enumerate(objects):
        if not present[slot]:
            continue
        role = task.roles[slot] if slot < len(task.roles) else "distractor"
        for _ in range(TRIES_PER_OBJECT):
            poses[slot, :3] = sample_in(rng, object_area(areas, role))
            path = _path(poses[slot, :3], moving.get(slot))
            if all(_distance(path, taken) >= _radius(spec) + _radius(other) + GAP for other, taken in placed):
                break
        else:
            return None
        placed.append((spec, path))
        poses[slot, 2] += spec.half_height
        if slot in moving:  # vertical motion stays above the support
            poses[slot, 2] += moving[slot].range * abs(moving[slot].axis[2])
        low, high = task.rotation
        yaw = low + rng.random() * (high - low) if high > low else low
        poses[slot, 5:] = math.sin(yaw / 2), math.cos(yaw / 2)
    return poses


def moving_distractors(task: Task) -> dict[int, MovingDistractor]:
    """Return slot of an object → its motion, for distractors that move."""
    motions = {}
    for slot, distractor in enumerate(task.distractor_slots, start=len(task.roles)):
        if distractor.speed > 0:
            x, y, z = (component / math.hypot(*distractor.axis) for component in distractor.axis)
            motions[slot] = MovingDistractor((x, y, z), distractor.speed, distractor.range)
    return motions


def _path(position: FloatArray, motion: MovingDistractor | None) -> list[FloatArray]:
    """Return points `(3,)` m, at most `PATH_SPACING` apart, on the path of an object."""
    if motion is None:
        return [position]
    count = math.ceil(motion.range / PATH_SPACING)
    return [position + motion.range * index / count * np.array(motion.axis) for index in range(-count, count + 1)]


def _distance(path: Sequence[FloatArray], other: Sequence[FloatArray]) -> float:
    """Return the horizontal distance between two paths, m."""
    return min(math.dist(a[:2], b[:2]) for a in path for b in other)


def _radius(spec: ObjectSpec) -> float:
    """Return the radius of the circle around an object seen from above, m."""
    return math.hypot(*spec.size[:2]) / 2


def draw_goals(rng: np.random.Generator, task: Task, world: World, areas: Mapping[str, Box]) -> FloatArray:
    """Draw goal points `(G, 3)` of all sub-tasks in the state after the reset.

    Raises:
        ConfigError: An area has no point that is unsolved and free.
    """
    goals = np.zeros((task.goal_count, 3))
    state, roles = world.state, task.roles
    names = (*roles, *(f"distractor {number}" for number in range(len(task.distractor_slots))))
    moving = {names[slot]: motion for slot, motion in moving_distractors(task).items()}
    present = [name for name, is_present in zip(names, world.present, strict=True) if is_present]
    positions = {name: state.object_position[0, slot].copy() for slot, name in enumerate(names)}
    radii = {name: _radius(spec) for name, spec in zip(names, world.objects, strict=True)}
    part_positions: dict[int, float] = {}
    for number, (subtask, slots) in enumerate(zip(task.subtasks, task.goal_slots, strict=True)):
        bound = task.stage_bindings[task.sequence.firsts[number]]
        spec = world.objects[bound.object] if bound.object is not None else None
        if subtask.part:
            part = bound.part or 0
            start = part_positions.get(part, float(state.part_position[0, part]))
            goal = _part_goal(rng, world, part, subtask, start, bound.thresholds.tolerance)
            part_positions[part] = goals[slots.goal, 0] = goal
            continue
        lift = spec.half_height if spec else 0.0
        if subtask.onto:
            base = world.objects[roles.index(subtask.onto)]
            goals[slots.goal] = positions[subtask.onto]
            goals[slots.goal, 2] += base.size[2] - base.half_height + lift
        elif subtask.path:
            goals[[*slots.path, slots.goal]] = np.array(world.workspace.paths[subtask.path])
            goals[[*slots.path, slots.goal], 2] += lift
        else:
            area_names = task.goal_areas(number)
            if task.goals_on_surface and area_names == (AIR, SURFACE):
                index = int(rng.random() < task.goals_on_surface)
            else:
                index = 0 if len(area_names) == 1 else int(rng.integers(len(area_names)))
            origin = positions[subtask.object] if spec else state.ee_position[0]
            distance = bound.thresholds.tolerance + START_MARGIN
            taken = [
                (point, radii[name])
                for name in present
                if name != subtask.object and (spec or name not in roles)
                for point in _path(positions[name], moving.get(name))
            ]
            goals[slots.goal] = _goal_in(
                rng, areas[area_names[index]], origin - (0.0, 0.0, lift), distance, taken, spec
            )
            goals[slots.goal, 2] += lift
        if subtask.via:
            goals[slots.path[0]] = sample_in(rng, areas[subtask.via])
        if slots.yaw is not None:
            low, high = subtask.to or YAW_CHANGE
            side = 1.0 if rng.random() < 0.5 else -1.0
            orientation = state.object_orientation[0, bound.object or 0]
            yaw = 2.0 * math.atan2(orientation[2], orientation[3])
            change = side * (low + rng.random() * (high - low))
            goals[slots.yaw, 0] = yaw + (change if abs(yaw + change) < YAW_RANGE - YAW_MARGIN else -change)
        if spec is not None:
            positions[subtask.object] = goals[slots.goal].copy()
    return goals


def _goal_in(
    rng: np.random.Generator,
    area: Box,
    start: FloatArray,
    distance: float,
    taken: Sequence[tuple[FloatArray, float]],
    spec: ObjectSpec | None,
) -> FloatArray:
    """Draw a goal point `(3,)` m in an area for an object, or, with None, for the tool.

    It is at least `distance` m from the start `(3,)` m, and beside the other objects `taken`: position and radius, m.
    """
    needed_radius = _radius(spec) if spec else HAND_RADIUS
    for _ in range(TRIES):
        point = sample_in(rng, area, start, distance)
        if all(math.dist(point[:2], position[:2]) > radius + needed_radius for position, radius in taken):
            return point
    where = f"{area[0].round(3).tolist()} … {area[1].round(3).tolist()}"
    why = f"has no room for a goal beside {len(taken)} other objects"
    raise ConfigError(bad_value("task_params.areas", where, "a larger area, or fewer objects in it", why))


def _part_goal(
    rng: np.random.Generator, world: World, part: int, subtask: SubTask, start: float, tolerance: float
) -> float:
    """Draw a goal position of a part, at least the tolerance away from its position `start`."""
    spec = world.parts[part]
    low, high = subtask.to or tuple(spec.rest + share * (spec.upper - spec.rest) for share in PART_SHARE)
    for _ in range(TRIES):
        goal = low + rng.random() * (high - low)
        if abs(goal - start) >= tolerance:
            return goal
    why = f"has no position of {subtask.part} at least {tolerance:g} from its start {start:.3g}"
    raise ConfigError(bad_value("task.to", [low, high], "a wider range, or a smaller tolerance", why))


def check_distances(task: Task, areas: Mapping[str, Box]) -> None:
    """Check that the goal of an object can be unsolved wherever the object starts.

    Raises:
        ConfigError: An area of goals is too small.
    """
    starts: dict[str, Sequence[Box]] = {role: [object_area(areas, role)] for role in task.roles}
    for number, subtask in enumerate(task.subtasks):
        bound = task.stage_bindings[task.sequence.firsts[number]]
        if bound.object is None:
            continue
        goals = [areas[name] for name in task.goal_areas(number) if name in areas]
        for low, high in goals:
            for start in starts[subtask.object]:
                worst = np.clip((low + high) / 2, *start)
                _farthest_corner((low, high), worst, bound.thresholds.tolerance + START_MARGIN)
        starts[subtask.object] = goals


def sample_in(
    rng: np.random.Generator, area: Box, away_from: FloatArray | None = None, distance: float = 0.0
) -> FloatArray:
    """Sample a point `(3,)` uniformly in `area`, at least `distance` metres from `away_from`.

    If `SAMPLES` samples are too close, it is the corner that is farthest from `away_from`.

    Raises:
        ConfigError: The area has no such point.
    """
    low, high = area
    for _ in range(SAMPLES):
        point = low + rng.random(3) * (high - low)
        if away_from is None or _is_away(point, away_from, distance):
            return point
    assert away_from is not None
    return _farthest_corner(area, away_from, distance)


def _farthest_corner(area: Box, away_from: FloatArray, distance: float) -> FloatArray:
    """Return the corner `(3,)` of an area that is farthest from a point.

    Raises:
        ConfigError: It is less than `distance` metres away.
    """
    low, high = area
    corner = np.where(np.abs(low - away_from) > np.abs(high - away_from), low, high)
    if _is_away(corner, away_from, distance):
        return corner
    corners = f"{low.round(3).tolist()} … {high.round(3).tolist()}"
    why = f"has no point at least {distance:.2f} m from {away_from.round(3).tolist()}, to start unsolved"
    raise ConfigError(bad_value("task_params.areas", corners, "a larger area, or a smaller tolerance", why))


def _is_away(point: FloatArray, center: FloatArray, distance: float) -> bool:
    difference = point - center
    return bool(difference @ difference >= distance * distance)


def object_area(areas: Mapping[str, Box], role: str) -> Box:
    """Return the area from which an object's start is drawn: the area of its role if present, else `object`."""
    return areas.get(f"{role}_start", areas["object"])
