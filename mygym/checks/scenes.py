"""Conformance suites of objects and workspaces: inertia, fixtures, free areas within reach, exact resets, pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np

from mygym.checks.robots import EPISODES, ROBOT, stands_free
from mygym.checks.suite import Check, demand
from mygym.checks.tasks import expert_solves
from mygym.engines.engine import inspection_of, make_world
from mygym.engines.rendering.camera import Camera
from mygym.engines.rendering.thumbnails import silhouette
from mygym.engines.world import World, WorldSpec
from mygym.envs.areas import reached
from mygym.errors import bad_value
from mygym.registry import registry
from mygym.robotics.objects import ObjectSpec, density, load_object
from mygym.robotics.robot import find_robot
from mygym.robotics.shapes import bounds
from mygym.robotics.workspace import find_workspace
from mygym.types import FloatArray

DENSITIES = 10.0, 11_400.0
"""kg/m³: lowest and highest density of the material, from expanded polystyrene to lead."""

POSITION = (0.2, 0.3)
"""m: position on the table, beside the arm."""

SECONDS = 1.0
"""s: time to come to rest."""

MAX_SHIFT, MAX_TILT, MAX_WANDER, MAX_DEPTH = 0.002, 4.0, 0.001, 0.002
"""m of displacement, degrees of tilt, m of motion in the last 0.4 s, and m of penetration into the table at rest."""

MIN_PICTURE_SHARE = 0.02
"""Smallest share of its picture that the object fills."""


def object_checks(name: str) -> Iterator[Check]:
    """Yield the checks of an object, on the default table beside the default robot."""
    spec = cache(lambda: load_object(Path(registry("object").get(name).load())))
    yield Check("loads", lambda: demand(spec().geoms, "has no shapes"))
    yield Check("mass and inertia", lambda: _has_realistic_inertia(spec()), needs=("loads",))
    yield Check("rests", lambda: _stays_at_rest(spec()), needs=("loads",))
    yield Check("exact reset", lambda: _drops_exactly(spec()), needs=("loads",))
    yield Check("picture", lambda: _is_visible(spec()), needs=("loads",))


def _world_with(spec: ObjectSpec) -> World:
    """Return a new world with the object in it."""
    return make_world(WorldSpec(find_robot(ROBOT), find_workspace("table"), [spec]))


def _has_realistic_inertia(spec: ObjectSpec) -> None:
    """Mass, centre of mass and moments of inertia are possible for a body of the object's size."""
    inertial, (low, high) = spec.inertial, bounds(spec.geoms)
    lowest, highest = DENSITIES
    value = density(spec)
    allowed = f"materials have {lowest:g} to {highest:g}"
    message = f"it has a density of {value:.4g} kg/m³ with {spec.mass:g} kg; {allowed}"
    demand(lowest <= value <= highest, message)
    outside = ((inertial.centre < low - 1e-6) | (inertial.centre > high + 1e-6)).any()
    demand(not outside, f"its centre of mass is outside of it: {inertial.centre.round(4).tolist()} m")
    moments = sorted(spec.body.moments)
    demand(moments[0] > 0, f"it has moments of inertia of {moments} kg m²")
    demand(moments[2] <= 1.001 * (moments[0] + moments[1]), f"no body has moments of inertia of {moments} kg m²")
    reach = np.maximum(np.abs(low - inertial.centre), np.abs(high - inertial.centre))
    most = spec.mass * float(reach @ reach)
    demand(
        moments[2] <= most,
        f"a moment of inertia of {moments[2]:.3g} kg m² needs a larger body: at most {most:.3g}; "
        "without `inertia`, it is computed from `mass` and the shapes",
    )


def _stays_at_rest(spec: ObjectSpec) -> None:
    """The object stays at its position on the table, in the orientation of its model, without motion."""
    with closing(_world_with(spec)) as world:
        rest = measure_rest(world, POSITION, SECONDS)
        wander = rest.wander(0.4, world.control_hz)
    findings = {
        f"moves by {1000 * rest.shift:.1f} mm": rest.shift > MAX_SHIFT,
        f"leans over by {rest.tilt:.1f}°": rest.tilt > MAX_TILT,
        f"does not come to rest: it wanders by {1000 * wander:.1f} mm": wander > MAX_WANDER,
        f"sinks by {1000 * rest.depth:.1f} mm into the surface": rest.depth > MAX_DEPTH,
    }
    texts = [text for text, holds in findings.items() if holds]
    demand(not texts, f"left alone for {SECONDS:g} s it {', '.join(texts)}")


def _drops_exactly(spec: ObjectSpec) -> None:
    """The same drop has the same result, to the bit, whatever happened before."""
    with closing(_world_with(spec)) as world:
        first = _drop(world)
        measure_rest(world, POSITION, 0.2)
        second = _drop(world)
        for seed in range(3):
            measure_rest(world, (0.1 * seed, 0.3), 0.1 * seed, height=0.02 * seed)
        third = _drop(world)
    for after, other in (("lying still", second), ("falling elsewhere", third)):
        same = np.array_equal(first.position, other.position) and np.array_equal(first.orientation, other.orientation)
        demand(same, f"after {after} the same drop ends {np.abs(first.position - other.position).max():.3g} m away")


def _drop(world: World) -> Rest:
    return measure_rest(world, POSITION, 0.6, height=0.03)


def _is_visible(spec: ObjectSpec) -> None:
    """The object's image is not empty."""
    share = float(silhouette(spec, 64, 48).mean())
    demand(share >= MIN_PICTURE_SHARE, f"it fills {share:.1%} of its picture; is any of its shapes `visible`?")


@dataclass(frozen=True, eq=False)
class Rest:
    """Trajectory of the first object of a world, in control steps from a reset."""

    position: FloatArray
    """`(n + 1, 3)` m, of the centre of mass."""
    orientation: FloatArray
    """`(n + 1, 4)` quaternions."""
    depth: float
    """Penetration at the end, m."""

    @property
    def shift(self) -> float:
        """Distance from the first to the last position, m."""
        return float(np.linalg.norm(self.position[-1] - self.position[0]))

    @property
    def tilt(self) -> float:
        """Final angle to the vertical, degrees; rotation about the vertical is ignored."""
        x, y = self.orientation[-1, :2].tolist()
        return math.degrees(math.acos(max(-1.0, 1.0 - 2.0 * (x * x + y * y))))

    def wander(self, seconds: float, hz: float) -> float:
        """Return the diagonal of the box that holds all positions of the last seconds, m."""
        last = self.position[-round(seconds * hz) :]
        return float(np.linalg.norm(last.max(axis=0) - last.min(axis=0)))


def measure_rest(world: World, start: tuple[float, float], seconds: float = 1.0, height: float = 0.0) -> Rest:
    """Reset a world with its first object at a position, and record that object while the arm stands still for some s.

    `start` is x and y of the centre of mass on the table, m. At a height above the table, m, the object is dropped at
    an angle of 20 degrees.
    """
    poses = np.zeros((len(world.objects), 7))
    angle = math.radians(20.0) if height else 0.0
    poses[0] = *start, world.objects[0].half_height + height, math.sin(angle / 2), 0.0, 0.0, math.cos(angle / 2)
    world.reset(poses)
    rows = [_first_object(world)]
    for _ in range(round(seconds * world.control_hz)):
        world.step(np.zeros(world.action_size))
        rows.append(_first_object(world))
    with inspection_of(world) as shapes:
        depth = shapes.depth(0)
    position, orientation = np.split(np.array(rows), [3], axis=1)
    return Rest(position, orientation, depth)


def _first_object(world: World) -> FloatArray:
    """Return `(7,)`: position and orientation of the first object."""
    return np.concatenate([world.state.object_position[0, 0], world.state.object_orientation[0, 0]])


PUSH_STEPS = 100
"""Control steps (4 s) in which a part must move from end to end."""

TRAVEL_TOLERANCE = 0.01
"""Fraction of its range by which a part may miss an end, or move when it is released."""

AREAS = {"reach": "tool_bounds", "object": "bounds", "surface": "bounds", "air": "tool_bounds"}
"""Areas that tasks use in every workspace → box that must contain the area; the tool must reach all of them."""

PUSH_AREAS = ("object", "surface")
"""Areas that pushing an object needs; a workspace for other tasks may omit them."""


OBJECT = "cube"

MIN_COLORS = 20
"""A picture with more colours is not empty; a picture of the background alone has a single colour."""

HISTORIES = 3


def workspace_checks(name: str, robot: str | None = None) -> Iterator[Check]:
    """Yield the checks of a workspace, with each robot that is at home in it, or with `robot` alone."""
    yield Check("loads", lambda: _loads(name))
    yield Check("areas", lambda: _has_free_areas(name), needs=("loads",))
    yield Check("fixtures", lambda: _has_working_fixtures(name), needs=("loads",))
    yield Check("exact reset", lambda: _resets_exactly(name), needs=("loads",))
    yield Check("pictures", lambda: _has_pictures(name), needs=("loads",))
    for robot_name in [robot] if robot else _at_home(name):
        yield from _checks_with(name, robot_name)


def _checks_with(name: str, robot: str) -> Iterator[Check]:
    config = {"workspace": name, "robot": robot}
    yield Check(f"{robot} at home", lambda: stands_free(robot, name), needs=("areas",))
    yield Check(f"{robot} within reach", lambda: _is_within_reach(name, robot), needs=("areas",))
    yield Check(f"{robot} reaches", lambda: expert_solves({**config, "task": "reach"}, EPISODES), needs=("areas",))
    if robot == ROBOT:
        yield Check(f"{robot} pushes", lambda: _pushes(name, robot), needs=("areas",))


def _world(name: str, robot: str | None = None, objects: int = 0) -> World:
    at_home = _at_home(name)
    arm = find_robot(robot or (ROBOT if ROBOT in at_home else at_home[0]))
    return make_world(WorldSpec(arm, find_workspace(name), [load_object(OBJECT)] * objects))


def _at_home(name: str) -> list[str]:
    """Return the robots that are at home in a workspace and installed; the default robot if it does not load."""
    try:
        robots = registry("robot")
        known = robots.names()
        at_home = find_workspace(name).robots
        return [robot for robot in at_home if robot not in known or not robots.get(robot).missing_extras] or [ROBOT]
    except Exception:  # noqa: BLE001  (the check `loads` fails with it)
        return [ROBOT]


def _loads(name: str) -> None:
    known = registry("robot").names()
    for robot in find_workspace(name).robots:
        demand(robot in known, bad_value("robots", robot, known, "is not a known robot"))


def _has_free_areas(name: str) -> None:
    spec = find_workspace(name)
    demand("reach" in spec.areas, "areas.reach is missing; every robot is checked in it")
    with closing(_world(name)) as world:
        for robot in _at_home(name):
            robot_spec = spec.for_robot(robot)
            for key, area in robot_spec.areas.items():
                outer = AREAS.get(key, "bounds")
                box = getattr(robot_spec, outer)
                within = (np.array(area.low) >= box.low).all() and (np.array(area.high) <= box.high).all()
                demand(within, f"areas.{key} is not within {outer}")
                with inspection_of(world) as shapes:
                    inside = shapes.fixtures_in(area)
                demand(not inside, f"areas.{key} is partly inside the fixture {', '.join(inside)}")


def _has_working_fixtures(name: str) -> str:
    """No fixtures overlap; every part travels over its range and keeps the position at which it is released."""
    with closing(_world(name)) as world:
        with inspection_of(world) as shapes:
            findings = shapes.overlapping_fixtures()
        findings += [finding for part in range(len(world.part_names)) if (finding := part_travels(world, part))]
        demand(not findings, "; ".join(findings))
        return ", ".join(f"{part} moves" for part in world.part_names)


def _resets_exactly(name: str) -> None:
    """The same episode is equal to the bit after different histories, with moved parts and contacts in each."""
    with closing(_world(name, objects=1)) as world:
        expected = _episode(world)
        for seed in range(HISTORIES):
            _wander(world, seed + 1, steps=12 + seed)
            demand(np.array_equal(_episode(world), expected), f"differs after history {seed}")


def _episode(world: World) -> FloatArray:
    """Return the states `(steps, numbers)` of an episode in which an object drops beside the tool and parts move."""
    x, y, z = world.workspace.tool_home
    world.reset(np.array([[x, y, z + 0.05, 0.0, 0.0, 0.0, 1.0]]))
    return _wander(world, seed=0, steps=25)


def _wander(world: World, seed: int, steps: int) -> FloatArray:
    rng = np.random.default_rng(seed)
    states = []
    for _ in range(steps):
        world.push_parts(rng.uniform(-1.0, 1.0, len(world.part_names)))
        world.step(rng.uniform(-1.0, 1.0, world.action_size))
        state = world.state
        arrays = [getattr(state, field.name) for field in fields(state)]
        states.append(np.concatenate([array.ravel().astype(float) for array in arrays]))
    return np.array(states)


def _has_pictures(name: str) -> str:
    """No camera's picture is empty."""
    with closing(_world(name)) as world, closing(Camera(world)) as camera:
        for view in world.workspace.cameras:
            colors = len(np.unique(camera.render(96, 72, view).reshape(-1, 3), axis=0))
            demand(colors > MIN_COLORS, f"camera {view} sees nothing: {colors} colours")
        return ", ".join(world.workspace.cameras)


def _is_within_reach(name: str, robot: str) -> str:
    """The robot reaches `AREAS`, at the height of an object where objects lie; returns the share of each area."""
    with closing(_world(name, robot, objects=1)) as world:
        shares = {}
        for key, area in world.workspace.areas.items():
            lift = world.objects[0].half_height if AREAS.get(key, "bounds") == "bounds" else 0.0
            shares[key], point = reached(world, area, lift)
            message = f"areas.{key}: {robot} does not reach {1 - shares[key]:.0%} of it, e.g. {point}"
            demand(point is None or key not in AREAS, f"{message}; make it smaller, here or in robots.{robot}.areas")
        return ", ".join(f"{key} {share:.0%}" for key, share in shares.items())


def _pushes(name: str, robot: str) -> str:
    """The expert solves `push`, if the workspace has the areas for it."""
    missing = [area for area in PUSH_AREAS if area not in find_workspace(name).for_robot(robot).areas]
    if missing:
        return f"left out: no area {', '.join(missing)}"
    expert_solves({"workspace": name, "robot": robot, "task": "push"}, EPISODES)
    return ""


def part_travels(world: World, part: int) -> str:
    """Return the fault of a part that misses an end under its force, or moves when it is released; empty without one.

    The world is reset first; the arm stays at home.
    """
    spec, name = world.parts[part], world.part_names[part]
    if spec.force is None or not np.isfinite([spec.lower, spec.upper]).all():
        return f"{name} has no limits: its URDF <limit> needs lower, upper and effort"
    world.reset(np.tile((0.0, 0.0, -10.0, 0.0, 0.0, 0.0, 1.0), (len(world.objects), 1)))
    no_action, span = np.zeros(world.action_size), spec.upper - spec.lower
    for sign, end in ((1.0, spec.upper), (-1.0, spec.lower)):
        for _ in range(PUSH_STEPS):
            world.push_parts(sign * (np.arange(len(world.part_names)) == part))
            world.step(no_action)
        position = float(world.state.part_position[0, part])
        if abs(position - end) > TRAVEL_TOLERANCE * span:
            return f"{name} stops at {position:.3f} under {spec.force:g} N or N m, not at {end:.3f}"
        for _ in range(PUSH_STEPS // 4):
            world.step(no_action)
        released = float(world.state.part_position[0, part])
        if spec.friction and not spec.spring and abs(released - position) > TRAVEL_TOLERANCE * span:
            return f"{name} was released at {position:.3f} and moved on to {released:.3f}"
    return ""
