"""What a world looks like to somebody who support_warning its descriptions: what collides, jams, is too far."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mygym.models.objects import ObjectSpec
from mygym.models.workspace import Area, CameraSpec
from mygym.sim.bodies import add_object
from mygym.sim.bullet import bullet
from mygym.sim.world import World
from mygym.types import FloatArray

DEPTH = 0.001
"""m by which shapes may overlap: those of neighbouring links meet in their joint."""

PUSHES = 100
"""Control steps (4 s) in which a part gets from end to end."""

TRAVEL = 0.01
"""Part of its range by which a part may miss an end, or move when it is left alone."""

MARGIN = 1.25
"""Of a picture of a robot: how much more is seen than its collision shapes."""

NEIGHBOURS = 2
"""Joints between links whose shapes may overlap."""


def collisions(world: World) -> list[str]:
    """What of the arm is inside something else now, in words: `wrist is inside table`.

    The arm's base may stand in what it stands on, and links may overlap with their next but one.
    """
    client, body = world._client, world._body.body
    count = bullet.getNumJoints(body, physicsClientId=client)
    infos = [bullet.getJointInfo(body, index, physicsClientId=client) for index in range(count)]
    names = [info[12].decode() for info in infos]
    parents = [info[16] for info in infos]
    found = []
    for name, others in world._fixture_bodies.bodies.items():
        for other in others:
            found += [f"{names[link]} is inside {name}" for link in range(count) if _overlap(client, body, link, other)]
    for one in range(count):
        near = {one}
        for _ in range(NEIGHBOURS):
            near |= {parents[link] for link in near if link >= 0}
        found += [
            f"{names[one]} is inside {names[other]}"
            for other in range(one)
            if other not in near and parents[other] != parents[one] and _overlap(client, body, one, body, other)
        ]
    return found


def _overlap(
    client: int, body: int, link: int | None, other: int, its_link: int | None = None, depth: float = DEPTH
) -> bool:
    which = {} if its_link is None else {"linkIndexB": its_link}
    which |= {} if link is None else {"linkIndexA": link}
    points = bullet.getClosestPoints(body, other, 0.0, physicsClientId=client, **which)
    return any(point[8] < -depth for point in points)


def around_robot(world: World, camera: CameraSpec, aspect: float) -> CameraSpec:
    """The camera that sees all of the robot where it is now, in the direction of a given one.

    Args:
        world: Whose robot; its collision shapes count.
        camera: Its angles are kept.
        aspect: Width of the picture over its height.
    """
    client, body = world._client, world._body.body
    links = range(-1, bullet.getNumJoints(body, physicsClientId=client))
    boxes = np.array([bullet.getAABB(body, link, physicsClientId=client) for link in links])
    boxes = boxes[boxes[:, 1, 2] > 0.0]  # the table hides what is below
    boxes[:, 0, 2] = np.maximum(boxes[:, 0, 2], 0.0)
    target = (boxes[:, 0].min(axis=0) + boxes[:, 1].max(axis=0)) / 2
    corners = np.array([[box[i, 0], box[j, 1], box[k, 2]] for box in boxes for i, j, k in np.ndindex(2, 2, 2)]) - target
    view = np.array(
        bullet.computeViewMatrixFromYawPitchRoll((0.0, 0.0, 0.0), 1.0, camera.yaw, camera.pitch, 0.0, 2)
    ).reshape(4, 4)[:3, :3]  # laid out by columns: rows times this are right, up, towards the eye
    right, up, near = (corners @ view).T
    tangent = np.tan(np.radians(camera.fov) / 2)
    distance = float(np.max(near + MARGIN * np.maximum(np.abs(up), np.abs(right) / aspect) / tangent))
    x, y, z = target.tolist()
    return replace(camera, target=(x, y, z), distance=distance)


def overlapping_fixtures(world: World) -> list[str]:
    """Which fixtures are inside each other now, in words; parts may be inside the fixture that they belong to."""
    bodies = list(world._fixture_bodies.bodies.items())
    return [
        f"{one} is inside {other}"
        for number, (one, mine) in enumerate(bodies)
        for other, theirs in bodies[:number]
        if any(_overlap(world._client, a, None, b) for a in mine for b in theirs)
    ]


def fixtures_in(world: World, area: Area) -> list[str]:
    """Fixtures that reach into an area by more than `DEPTH`."""
    half = [max((high - low) / 2, 1e-4) for low, high in zip(area.low, area.high, strict=True)]
    x, y, z = ((low + high) / 2 for low, high in zip(area.low, area.high, strict=True))
    box = _box(world, half)
    found = _fixtures_at(world, box, np.array([[x, y, z + DEPTH]]))
    bullet.removeBody(box, physicsClientId=world._client)
    return list(found)


def fixtures_at(
    world: World, points: FloatArray, spec: ObjectSpec | None = None, depth: float = DEPTH
) -> dict[str, NDArray[np.bool_]]:
    """Fixture → at which points something would be inside it; only of those that it is inside of at any.

    The world's next step is not to come before its next reset: a body has been added and removed.

    Args:
        world: Where fixtures are now.
        points: `(n, 3)` m, of the centre of mass.
        spec: An object, as it is modelled; None: a point.
        depth: m by which it may be inside.

    Returns:
        `(n,)` of each fixture.
    """
    probe = _box(world, [1e-4] * 3) if spec is None else add_object(world._client, spec, (*points[0], 0, 0, 0, 1))
    found = _fixtures_at(world, probe, points, depth)
    bullet.removeBody(probe, physicsClientId=world._client)
    return found


def _box(world: World, half: list[float]) -> int:
    """A body that is a box with these half edges, m."""
    shape = bullet.createCollisionShape(bullet.GEOM_BOX, halfExtents=half, physicsClientId=world._client)
    return int(bullet.createMultiBody(0.0, shape, physicsClientId=world._client))


def _fixtures_at(world: World, probe: int, points: FloatArray, depth: float = DEPTH) -> dict[str, NDArray[np.bool_]]:
    """Fixture → at which places of a body's centre of mass it is inside."""
    client, bodies = world._client, world._fixture_bodies.bodies
    found = {name: np.zeros(len(points), dtype=bool) for name in bodies}
    _, turned = bullet.getBasePositionAndOrientation(probe, physicsClientId=client)
    for index, point in enumerate(points.tolist()):
        bullet.resetBasePositionAndOrientation(probe, point, turned, physicsClientId=client)
        for name, there in bodies.items():
            found[name][index] = any(_overlap(client, probe, None, body, depth=depth) for body in there)
    return {name: inside for name, inside in found.items() if inside.any()}


def lattice(area: Area) -> FloatArray:
    """`(n, 3)` m: up to 5 points along each edge of an area, its corners among them."""
    edges = [np.unique(np.linspace(low, high, 5)) for low, high in zip(area.low, area.high, strict=True)]
    return np.stack(np.meshgrid(*edges), axis=-1).reshape(-1, 3)


def reached(world: World, area: Area, lift: float = 0.0) -> tuple[float, list[float] | None]:
    """How much of an area the tool gets to, held as it is in this workspace.

    Args:
        world: Whose robot.
        area: Looked at in a `lattice`.
        lift: m over the area at which the tool is.

    Returns:
        The share in [0, 1], and a point that is out of reach, if there is one.
    """
    points = lattice(area) + np.array((0.0, 0.0, lift))
    there = world.reachable(points)
    return float(there.mean()), None if there.all() else points[~there][0].round(3).tolist()


def part_travels(world: World, part: int) -> str:
    """What is wrong with how a part moves: pushed with its force to both ends, and let go there. Empty: nothing.

    The world is reset before; the arm stays at home.
    """
    one, name = world._fixture_bodies.parts[part], world.part_names[part]
    if one.force is None or not np.isfinite([one.lower, one.upper]).all():
        return f"{name} has no limits: a URDF's <limit> says lower, upper and effort"
    world.reset(np.tile((0.0, 0.0, -10.0, 0.0, 0.0, 0.0, 1.0), (len(world.objects), 1)))
    still, span = np.zeros(world.action_size), one.upper - one.lower
    for sign, end in ((1.0, one.upper), (-1.0, one.lower)):
        for _ in range(PUSHES):
            world.push_parts(sign * (np.arange(len(world.part_names)) == part))
            world.step(still)
        there = float(world.state.part_position[0, part])
        if abs(there - end) > TRAVEL * span:
            return f"{name} comes to {there:.3f} under {one.force:g} N or N m, not to {end:.3f}"
        for _ in range(PUSHES // 4):
            world.step(still)
        left = float(world.state.part_position[0, part])
        if one.friction and not one.spring and abs(left - there) > TRAVEL * span:
            return f"{name} was left at {there:.3f} and went on to {left:.3f}"
    return ""
