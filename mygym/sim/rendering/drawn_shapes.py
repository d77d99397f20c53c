"""Visual shapes and poses of a scene as plain data, for viewers outside Bullet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mygym.sim.bullet import bullet
from mygym.sim.rendering.scene import Scene

SHAPE_NAMES = {
    bullet.GEOM_BOX: "box",
    bullet.GEOM_SPHERE: "sphere",
    bullet.GEOM_CYLINDER: "cylinder",
    bullet.GEOM_CAPSULE: "capsule",
    bullet.GEOM_MESH: "mesh",
}


@dataclass(frozen=True)
class DrawnShape:
    """A shape in the frame of a link."""

    link: str
    kind: str
    """`box`, `sphere`, `cylinder`, `capsule` or `mesh`."""
    size: tuple[float, ...]
    """Edges; radius; length and radius, along z; of a mesh its scale. m."""
    file: str
    """Of a mesh."""
    position: tuple[float, ...]
    orientation: tuple[float, ...]
    """Quaternion x, y, z, w."""
    color: tuple[float, ...]
    """Red, green, blue, opacity."""


def drawn_shapes(scene: Scene) -> list[DrawnShape]:
    """Return all visual shapes of the robot, the fixtures and the objects."""
    return [
        DrawnShape(
            _name(body, link), SHAPE_NAMES[kind], tuple(size), file.decode(), tuple(position), tuple(turn), tuple(color)
        )
        for body, number in scene.bodies()
        for _, link, kind, size, file, position, turn, color, *_ in bullet.getVisualShapeData(
            number, physicsClientId=scene.client
        )
        if kind in SHAPE_NAMES
    ]


def link_poses(scene: Scene) -> dict[str, list[float]]:
    """Return link → position, m, and quaternion x, y, z, w in the world frame, after `Scene.mirror`."""
    poses = {}
    for body, number in scene.bodies():
        for link in range(-1, bullet.getNumJoints(number, physicsClientId=scene.client)):
            position, orientation = _pose(scene, number, link)
            poses[_name(body, link)] = [round(value, 4) for value in (*position, *orientation)]
    return poses


def _pose(scene: Scene, body: int, link: int) -> tuple[Sequence[float], Sequence[float]]:
    if link >= 0:
        state = bullet.getLinkState(body, link, False, True, physicsClientId=scene.client)
        return state[4], state[5]
    centre, rotation = bullet.getBasePositionAndOrientation(body, physicsClientId=scene.client)
    offset = bullet.getDynamicsInfo(body, -1, physicsClientId=scene.client)[3:5]
    position, orientation = bullet.multiplyTransforms(centre, rotation, *bullet.invertTransform(*offset))
    return position, orientation


def _name(body: str, link: int) -> str:
    return f"{body}/{link}"
