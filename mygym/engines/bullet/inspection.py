"""Collision, joint-travel and reachability queries on a `World`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mygym.engines.bullet.client import bullet
from mygym.engines.bullet.object_bodies import add_object
from mygym.engines.bullet.world import World
from mygym.robotics.objects import ObjectSpec
from mygym.robotics.workspace import Area, CameraSpec
from mygym.types import FloatArray

DEPTH = 0.001
"""Allowed overlap of shapes, m: shapes of neighbouring links meet in their joint."""

PUSH_STEPS = 100
"""Control steps (4 s) in which a part must move from end to end."""

TRAVEL_TOLERANCE = 0.01
"""Fraction of its range by which a part may miss an end, or move when it is released."""

ROBOT_MARGIN = 1.25
"""Size of a robot's image relative to its collision shapes."""

NEIGHBOUR_JOINTS = 2
"""Largest number of joints between links whose shapes may overlap."""


def collisions(world: World) -> list[str]:
    """List the collisions of the robot in the current state, e.g. `wrist is inside table`.

    The robot's base may stand inside a fixture, and a link may overlap links up to `NEIGHBOUR_JOINTS` joints away.
    """
    client, body = world.client, world.robot_body.body
    count = bullet.getNumJoints(body, physicsClientId=client)
    infos = [bullet.getJointInfo(body, index, physicsClientId=client) for index in range(count)]
    names = [info[12].decode() for info in infos]
    parents = [info[16] for info in infos]
    messages = []
    for name, fixture in world.fixture_bodies.bodies.items():
        for other in fixture:
            messages += [
                f"{names[link]} is inside {name}" for link in range(count) if _overlap(client, body, link, other)
            ]
    for link in range(count):
        near = {link}
        for _ in range(NEIGHBOUR_JOINTS):
            near |= {parents[neighbour] for neighbour in near if neighbour >= 0}
        messages += [
            f"{names[link]} is inside {names[other]}"
            for other in range(link)
            if other not in near and parents[other] != parents[link] and _overlap(client, body, link, body, other)
        ]
    return messages


def _overlap(
    client: int, body: int, link: int | None, other: int, other_link: int | None = None, depth: float = DEPTH
) -> bool:
    """Return whether two bodies, or links of them, overlap by more than `depth` m."""
    links = {} if other_link is None else {"linkIndexB": other_link}
    links |= {} if link is None else {"linkIndexA": link}
    points = bullet.getClosestPoints(body, other, 0.0, physicsClientId=client, **links)
    return any(point[8] < -depth for point in points)


def around_robot(world: World, camera: CameraSpec, aspect: float) -> CameraSpec:
    """Return a camera with the angles of `camera` that sees the whole robot in its current posture.

    Args:
        world: The world; its robot is framed by the robot's collision shapes.
        camera: Gives yaw, pitch and field of view.
        aspect: Width of the image over its height.
    """
    return around(robot_corners(world), camera, aspect)


def robot_corners(world: World) -> FloatArray:
    """Return the corners `(n, 3)` m of the boxes around the robot's links, in its current posture."""
    client, body = world.client, world.robot_body.body
    links = range(-1, bullet.getNumJoints(body, physicsClientId=client))
    boxes = np.array([bullet.getAABB(body, link, physicsClientId=client) for link in links])
    boxes = boxes[boxes[:, 1, 2] > 0.0]  # the table hides everything below
    boxes[:, 0, 2] = np.maximum(boxes[:, 0, 2], 0.0)
    return np.array([[box[i, 0], box[j, 1], box[k, 2]] for box in boxes for i, j, k in np.ndindex(2, 2, 2)])


def around(points: FloatArray, camera: CameraSpec, aspect: float) -> CameraSpec:
    """Return a camera with the angles of `camera` that sees points `(n, 3)` m; see `around_robot`."""
    target = (points.min(axis=0) + points.max(axis=0)) / 2
    view = np.array(
        bullet.computeViewMatrixFromYawPitchRoll((0.0, 0.0, 0.0), 1.0, camera.yaw, camera.pitch, 0.0, 2)
    ).reshape(4, 4)[:3, :3]  # column-major: rows times this are right, up, towards the camera
    right, up, near = ((points - target) @ view).T
    tangent = np.tan(np.radians(camera.fov) / 2)
    distance = float(np.max(near + ROBOT_MARGIN * np.maximum(np.abs(up), np.abs(right) / aspect) / tangent))
    x, y, z = target.tolist()
    return replace(camera, target=(x, y, z), distance=distance)


def overlapping_fixtures(world: World) -> list[str]:
    """List the pairs of fixtures that overlap in the current state; parts may overlap the rest of their fixture."""
    fixtures = list(world.fixture_bodies.bodies.items())
    return [
        f"{name} is inside {other_name}"
        for number, (name, bodies) in enumerate(fixtures)
        for other_name, other_bodies in fixtures[:number]
        if any(_overlap(world.client, body, None, other) for body in bodies for other in other_bodies)
    ]


def fixtures_in(world: World, area: Area) -> list[str]:
    """List the fixtures that overlap an area by more than `DEPTH`."""
    half = [max((high - low) / 2, 1e-4) for low, high in zip(area.low, area.high, strict=True)]
    x, y, z = ((low + high) / 2 for low, high in zip(area.low, area.high, strict=True))
    box = _add_box(world, half)
    result = _fixtures_around(world, box, np.array([[x, y, z + DEPTH]]))
    bullet.removeBody(box, physicsClientId=world.client)
    return list(result)


def robot_overlaps(world: World, area: Area) -> bool:
    """Return whether the robot, in the current state, overlaps an area by more than `DEPTH`."""
    half = [max((high - low) / 2, 1e-4) for low, high in zip(area.low, area.high, strict=True)]
    box = _add_box(world, half)
    middle = [(low + high) / 2 for low, high in zip(area.low, area.high, strict=True)]
    bullet.resetBasePositionAndOrientation(box, middle, (0.0, 0.0, 0.0, 1.0), physicsClientId=world.client)
    overlaps = _overlap(world.client, world.robot_body.body, None, box)
    bullet.removeBody(box, physicsClientId=world.client)
    return overlaps


def fixtures_at(
    world: World, points: FloatArray, spec: ObjectSpec | None = None, depth: float = DEPTH
) -> dict[str, NDArray[np.bool_]]:
    """Find the points at which an object would be inside a fixture.

    A body is added and removed: reset the world before its next step.

    Args:
        world: The world; fixtures in their current state.
        points: `(n, 3)` m, of the centre of mass.
        spec: The object, in the orientation of its model; None: a point.
        depth: Allowed overlap, m.

    Returns:
        Fixture → `(n,)` whether the object overlaps it at each point; fixtures without overlap are omitted.
    """
    probe = _add_box(world, [1e-4] * 3) if spec is None else add_object(world.client, spec, (*points[0], 0, 0, 0, 1))
    result = _fixtures_around(world, probe, points, depth)
    bullet.removeBody(probe, physicsClientId=world.client)
    return result


def _add_box(world: World, half: list[float]) -> int:
    """Add a box with these half edges, m."""
    shape = bullet.createCollisionShape(bullet.GEOM_BOX, halfExtents=half, physicsClientId=world.client)
    return int(bullet.createMultiBody(0.0, shape, physicsClientId=world.client))


def _fixtures_around(
    world: World, probe: int, points: FloatArray, depth: float = DEPTH
) -> dict[str, NDArray[np.bool_]]:
    """Return fixture → `(n,)` whether the body `probe` overlaps it with its centre of mass at each point."""
    client, fixtures = world.client, world.fixture_bodies.bodies
    overlaps = {name: np.zeros(len(points), dtype=bool) for name in fixtures}
    _, orientation = bullet.getBasePositionAndOrientation(probe, physicsClientId=client)
    for index, point in enumerate(points.tolist()):
        bullet.resetBasePositionAndOrientation(probe, point, orientation, physicsClientId=client)
        for name, bodies in fixtures.items():
            overlaps[name][index] = any(_overlap(client, probe, None, body, depth=depth) for body in bodies)
    return {name: inside for name, inside in overlaps.items() if inside.any()}


def lattice(area: Area) -> FloatArray:
    """Return `(n, 3)` m: up to 5 points along each edge of an area, with its corners."""
    edges = [np.unique(np.linspace(low, high, 5)) for low, high in zip(area.low, area.high, strict=True)]
    return np.stack(np.meshgrid(*edges), axis=-1).reshape(-1, 3)


def reached(world: World, area: Area, lift: float = 0.0) -> tuple[float, list[float] | None]:
    """Return the share of an area that the tool reaches, in the orientation that the workspace sets.

    Args:
        world: The world with the robot.
        area: Sampled at its `lattice`.
        lift: Height of the tool above the area, m.

    Returns:
        The reachable share in [0, 1], and a point out of reach, if any.
    """
    points = lattice(area) + np.array((0.0, 0.0, lift))
    reachable = world.reachable(points)
    return float(reachable.mean()), None if reachable.all() else points[~reachable][0].round(3).tolist()


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


@dataclass(frozen=True, eq=False)
class Rest:
    """Trajectory of the first object of a world, in control steps from a reset."""

    position: FloatArray
    """`(n + 1, 3)` m, of the centre of mass."""
    orientation: FloatArray
    """`(n + 1, 4)` quaternions."""
    speed: FloatArray
    """`(n + 1,)` m/s."""
    spin: FloatArray
    """`(n + 1,)` rad/s."""
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
    """Reset a world with its first object at a position, and record that object while the arm stands still.

    Args:
        world: A world with an object.
        start: m, x and y of the centre of mass on the table.
        seconds: Duration.
        height: m above the table; if positive, the object is dropped at an angle of 20 degrees.
    """
    poses = np.zeros((len(world.objects), 7))
    angle = math.radians(20.0) if height else 0.0
    poses[0] = *start, world.objects[0].half_height + height, math.sin(angle / 2), 0.0, 0.0, math.cos(angle / 2)
    world.reset(poses)
    rows = [_first_object(world)]
    for _ in range(round(seconds * world.control_hz)):
        world.step(np.zeros(world.action_size))
        rows.append(_first_object(world))
    points = bullet.getContactPoints(world.object_bodies.ids[0], physicsClientId=world.client)
    depth = max((-point[8] for point in points), default=0.0)
    position, orientation, velocity, spin = np.split(np.array(rows), [3, 7, 10], axis=1)
    return Rest(position, orientation, np.linalg.norm(velocity, axis=1), np.linalg.norm(spin, axis=1), depth)


def _first_object(world: World) -> FloatArray:
    """Return `(13,)`: position, orientation, velocity and angular velocity of the first object."""
    state = world.state
    fields = (state.object_position, state.object_orientation, state.object_velocity, state.object_angular_velocity)
    return np.concatenate([field[0, 0] for field in fields])
