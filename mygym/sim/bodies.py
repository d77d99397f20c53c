"""Shapes and objects in a physics client."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mygym.models.collision_pieces import Piece
from mygym.models.episode_randomization import EpisodeRandomization
from mygym.models.inertia import Inertial
from mygym.models.links import add_collisions, hull_file, link_element
from mygym.models.objects import ObjectSpec
from mygym.models.rigid import RigidBody
from mygym.models.transforms import multiply_quaternions, pose_matrix
from mygym.sim.bullet import TINY_BOX, bullet, urdf_file

_NOWHERE, _STRAIGHT = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)


MOST_PIECES = 16
"""Of a collision shape that is created by a call (MAX_COMPOUND_COLLISION_SHAPES in Bullet); a URDF has no limit."""


def create_collision(client: int, pieces: tuple[Piece, ...]) -> int:
    """Bullet's number of a new collision shape of convex pieces; no file is read but the first time in a process.

    Raises:
        ValueError: more than `MOST_PIECES`, of which Bullet would leave out the last without a word.
    """
    if len(pieces) > MOST_PIECES:
        raise ValueError(f"{len(pieces)} pieces are more than the {MOST_PIECES} of a shape: they need a URDF")
    create, arguments = _collision(os.getpid(), pieces)
    return int(create(**arguments, physicsClientId=client))


@lru_cache(maxsize=512)
def _collision(process: int, pieces: tuple[Piece, ...]) -> tuple[Any, dict[str, Any]]:
    """Bullet's function and its arguments; the files among them are those of one process."""
    if len(pieces) == 1:
        (piece,) = pieces
        arguments = {"shapeType": _KINDS[piece.shape], **_one(piece)}
        if (piece.position, piece.orientation) != (_NOWHERE, _STRAIGHT):
            arguments |= {
                "collisionFramePosition": piece.position,
                "collisionFrameOrientation": piece.orientation,
            }
        return bullet.createCollisionShape, arguments
    several = [
        {"halfExtents": _NOWHERE, "radius": 0.0, "height": 0.0, "fileName": ""} | _one(piece) for piece in pieces
    ]
    return bullet.createCollisionShapeArray, {
        "shapeTypes": [_KINDS[piece.shape] for piece in pieces],
        "halfExtents": [one["halfExtents"] for one in several],
        "radii": [one["radius"] for one in several],
        "lengths": [one["height"] for one in several],
        # Bullet takes a list of hulls by file name alone.
        "fileNames": [hull_file(piece.points) if piece.points else "" for piece in pieces],
        "collisionFramePositions": [piece.position for piece in pieces],
        "collisionFrameOrientations": [piece.orientation for piece in pieces],
    }


_KINDS = {
    "box": bullet.GEOM_BOX,
    "sphere": bullet.GEOM_SPHERE,
    "cylinder": bullet.GEOM_CYLINDER,
    "capsule": bullet.GEOM_CAPSULE,
    "hull": bullet.GEOM_MESH,
}


def _one(piece: Piece) -> dict[str, Any]:
    if piece.shape == "box":
        return {"halfExtents": [edge / 2 for edge in piece.size]}
    if piece.shape == "sphere":
        return {"radius": piece.size[0]}
    if piece.shape == "hull":
        return {"vertices": piece.points}
    return {"radius": piece.size[0], "height": piece.size[1]}


def add_object(client: int, spec: ObjectSpec, pose: Sequence[float]) -> int:
    """A rigid body at a pose `(7,)` of its centre of mass (m, quaternion); returns Bullet's number of the body.

    Bullet's orientation of it is that of its principal axes: `modelled` turns it back.
    """
    body = spec.body
    turn = pose[3:] if body.aligned else multiply_quaternions(pose[3:], body.principal).tolist()
    number = _create_body(client, body, pose[:3], turn)
    bullet.changeDynamics(
        number,
        -1,
        lateralFriction=spec.friction,
        rollingFriction=spec.rolling_friction,
        spinningFriction=spec.spinning_friction,
        restitution=spec.restitution,
        physicsClientId=client,
    )
    return number


def vary_object(client: int, number: int, spec: ObjectSpec, variation: EpisodeRandomization, k: int) -> None:
    """Give a new body what is different of object `k` in this episode, but for its size, which `spec` has."""
    changes: dict[str, Any] = {}
    if variation.object_mass:
        factor = variation.object_mass[k]
        changes["mass"] = factor * spec.mass
        changes["localInertiaDiagonal"] = [factor * moment for moment in spec.body.moments]
    if variation.object_friction:
        factor = variation.object_friction[k]
        changes["lateralFriction"] = factor * spec.friction
        changes["rollingFriction"] = factor * spec.rolling_friction
        changes["spinningFriction"] = factor * spec.spinning_friction
    if variation.object_damping:
        changes["linearDamping"] = changes["angularDamping"] = variation.object_damping[k]
    if changes:
        bullet.changeDynamics(number, -1, **changes, physicsClientId=client)


def _create_body(client: int, body: RigidBody, position: Sequence[float], orientation: Sequence[float]) -> int:
    if body.plain:
        return _create(client, body.mass, create_collision(client, body.pieces), position, orientation)
    # Another inertia than its own Bullet takes from a URDF only: `changeDynamics` is late for the first substep.
    path = _body_file(os.getpid(), body)
    flags = bullet.URDF_USE_INERTIA_FROM_FILE | bullet.URDF_USE_IMPLICIT_CYLINDER
    return int(
        bullet.loadURDF(path, position, orientation, useMaximalCoordinates=True, flags=flags, physicsClientId=client)
    )


@lru_cache(maxsize=512)
def _body_file(process: int, body: RigidBody) -> str:
    """A URDF of a body that collides, for one process."""
    robot = ET.Element("robot", name="body")
    link = ET.SubElement(robot, "link", name="body")
    inertial = ET.SubElement(link, "inertial")
    ET.SubElement(inertial, "mass", value=repr(body.mass))
    ixx, iyy, izz = (repr(moment) for moment in body.moments)
    ET.SubElement(inertial, "inertia", ixx=ixx, iyy=iyy, izz=izz, ixy="0", ixz="0", iyz="0")
    speck = " ".join(str(2 * half) for half in TINY_BOX)
    ET.SubElement(ET.SubElement(ET.SubElement(link, "visual"), "geometry"), "box", size=speck)
    add_collisions(link, body.pieces)
    return urdf_file("body", ET.tostring(robot, encoding="unicode"))


def add_visual(client: int, spec: ObjectSpec, position: Sequence[float], orientation: Sequence[float]) -> int:
    """What is seen of an object, with its centre of mass at a position; returns Bullet's number of the body."""
    robot = ET.Element("robot", name=spec.name)
    origin = pose_matrix(-spec.inertial.centre, np.eye(3))
    # Bullet warns of links without a mass, and turns the frame of those whose moments differ.
    ball = Inertial(1.0, spec.inertial.centre, np.eye(3))
    robot.append(link_element(spec.name, spec.geoms, spec.color, ball, collisions=False, origin=origin))
    path = urdf_file(spec.name, ET.tostring(robot, encoding="unicode"))
    return int(bullet.loadURDF(path, position, orientation, useFixedBase=True, physicsClientId=client))


def modelled(spec: ObjectSpec, orientation: Sequence[float]) -> Sequence[float]:
    """The orientation `(4,)` of an object's model, from that of Bullet's body."""
    if spec.body.aligned:
        return orientation
    x, y, z, w = spec.body.principal
    turned: list[float] = multiply_quaternions(orientation, (-x, -y, -z, w)).tolist()
    return turned


def _create(client: int, mass: float, shape: int, position: Sequence[float], orientation: Sequence[float]) -> int:
    visual = bullet.createVisualShape(bullet.GEOM_BOX, halfExtents=TINY_BOX, physicsClientId=client)
    # Maximal coordinates make a plain rigid body: 3 µs cheaper in every physics step than a multibody without joints.
    return int(
        bullet.createMultiBody(
            mass, shape, visual, position, orientation, useMaximalCoordinates=True, physicsClientId=client
        )
    )
