"""Conformance suite of workspaces: working fixtures, free areas within reach, exact resets and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np

from mygym.checks.robots import stands_free
from mygym.checks.suite import Check, demand
from mygym.checks.tasks import expert_solves
from mygym.config import RunConfig
from mygym.engines.engine import inspection_of, make_world
from mygym.engines.rendering.camera import Camera
from mygym.engines.robots import find_robot
from mygym.engines.world import World, WorldSpec
from mygym.envs.areas import reached
from mygym.errors import bad_value
from mygym.registry import registry
from mygym.robotics.objects import load_object
from mygym.robotics.workspace import Area, WorkspaceSpec, load_workspace
from mygym.types import FloatArray

EPISODES = 25

PUSH_STEPS = 100
"""Control steps (4 s) in which a part must move from end to end."""

TRAVEL_TOLERANCE = 0.01
"""Fraction of its range by which a part may miss an end, or move when it is released."""

AREAS = {"reach": "tool_bounds", "object": "bounds", "surface": "bounds", "air": "tool_bounds"}
"""Areas that tasks use in every workspace → box that must contain the area; the tool must reach all of them."""

PUSH_AREAS = ("object", "surface")
"""Areas that pushing an object needs; a workspace for other tasks may omit them."""

ROBOT = str(RunConfig().robot)
"""Robot for workspaces in which no robot is at home."""

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


def _load(name: str) -> WorkspaceSpec:
    return load_workspace(Path(registry("workspace").get(name).load()))


def _world(name: str, robot: str | None = None, objects: int = 0) -> World:
    at_home = _at_home(name)
    arm = find_robot(robot or (ROBOT if ROBOT in at_home else at_home[0]))
    return make_world(WorldSpec(arm, _load(name), [load_object(registry("object").get(OBJECT).load())] * objects))


def _at_home(name: str) -> list[str]:
    """Return the robots that are at home in a workspace and installed; the default robot if it does not load."""
    try:
        robots = registry("robot")
        known = robots.names()
        at_home = _load(name).robots
        return [robot for robot in at_home if robot not in known or not robots.get(robot).missing_extras] or [ROBOT]
    except Exception:  # noqa: BLE001  (the check `loads` fails with it)
        return [ROBOT]


def _loads(name: str) -> None:
    known = registry("robot").names()
    for robot in _load(name).robots:
        demand(robot in known, bad_value("robots", robot, known, "is not a known robot"))


def _has_free_areas(name: str) -> None:
    spec = _load(name)
    demand("reach" in spec.areas, "areas.reach is missing; every robot is checked in it")
    world = _world(name)
    try:
        for robot in _at_home(name):
            robot_spec = spec.for_robot(robot)
            for key, area in robot_spec.areas.items():
                outer = AREAS.get(key, "bounds")
                demand(_within(area, getattr(robot_spec, outer)), f"areas.{key} is not within {outer}")
                with inspection_of(world) as shapes:
                    inside = shapes.fixtures_in(area)
                demand(not inside, f"areas.{key} is partly inside the fixture {', '.join(inside)}")
    finally:
        world.close()


def _within(inner: Area, outer: Area) -> bool:
    return bool((np.array(inner.low) >= outer.low).all() and (np.array(inner.high) <= outer.high).all())


def _has_working_fixtures(name: str) -> str:
    """No fixtures overlap; every part travels over its range and keeps the position at which it is released."""
    world = _world(name)
    try:
        with inspection_of(world) as shapes:
            findings = shapes.overlapping_fixtures()
        findings += [finding for part in range(len(world.part_names)) if (finding := part_travels(world, part))]
        demand(not findings, "; ".join(findings))
        return ", ".join(f"{part} moves" for part in world.part_names)
    finally:
        world.close()


def _resets_exactly(name: str) -> None:
    """The same episode is equal to the bit after different histories, with moved parts and contacts in each."""
    world = _world(name, objects=1)
    try:
        expected = _episode(world)
        for seed in range(HISTORIES):
            _wander(world, seed + 1, steps=12 + seed)
            demand(np.array_equal(_episode(world), expected), f"differs after history {seed}")
    finally:
        world.close()


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
    world = _world(name)
    camera = Camera(world)
    try:
        for view in world.workspace.cameras:
            colors = len(np.unique(camera.render(96, 72, view).reshape(-1, 3), axis=0))
            demand(colors > MIN_COLORS, f"camera {view} sees nothing: {colors} colours")
        return ", ".join(world.workspace.cameras)
    finally:
        camera.close()
        world.close()


def _is_within_reach(name: str, robot: str) -> str:
    """The robot reaches `AREAS`, at the height of an object where objects lie; returns the share of each area."""
    world = _world(name, robot, objects=1)
    try:
        shares = {}
        for key, area in world.workspace.areas.items():
            lift = world.objects[0].half_height if AREAS.get(key, "bounds") == "bounds" else 0.0
            shares[key], point = reached(world, area, lift)
            message = f"areas.{key}: {robot} does not reach {1 - shares[key]:.0%} of it, e.g. {point}"
            demand(point is None or key not in AREAS, f"{message}; make it smaller, here or in robots.{robot}.areas")
        return ", ".join(f"{key} {share:.0%}" for key, share in shares.items())
    finally:
        world.close()


def _pushes(name: str, robot: str) -> str:
    """The expert solves `push`, if the workspace has the areas for it."""
    missing = [area for area in PUSH_AREAS if area not in _load(name).for_robot(robot).areas]
    if missing:
        return f"left out: no area {', '.join(missing)}"
    expert_solves({"workspace": name, "robot": robot, "task": "push"}, EPISODES)
    return ""


def part_travels(world: World, part: int) -> str:
    """Check that a part reaches both ends under its force and keeps the position at which it is released.

    The world is reset first; the arm stays at home.

    Returns:
        The fault; empty without a fault.
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
