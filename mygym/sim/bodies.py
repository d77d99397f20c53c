"""Shapes, fixtures and objects in a physics client."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from mygym.sim.bullet import TINY_BOX, bullet
from mygym.sim.objects import ObjectSpec
from mygym.sim.shapes import Piece, hull_file
from mygym.sim.transforms import multiply_quaternions
from mygym.sim.workspace import FixtureSpec

_NOWHERE, _STRAIGHT = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)


def create_collision(client: int, pieces: tuple[Piece, ...]) -> int:
    """Bullet's number of a new collision shape of convex pieces; no file is read but the first time in a process."""
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


def add_fixture(client: int, spec: FixtureSpec) -> int:
    """A box that never moves; returns Bullet's number of the body."""
    shape = bullet.createCollisionShape(
        bullet.GEOM_BOX, halfExtents=[edge / 2 for edge in spec.size], physicsClientId=client
    )
    body = _create(client, 0.0, shape, spec.position, (0.0, 0.0, 0.0, 1.0))
    bullet.changeDynamics(body, -1, lateralFriction=spec.friction, physicsClientId=client)
    return body


def add_object(client: int, spec: ObjectSpec, pose: Sequence[float]) -> int:
    """A rigid body at a pose `(7,)` of its centre of mass (m, quaternion); returns Bullet's number of the body.

    Bullet's orientation of it is that of its principal axes: `modelled` turns it back.
    """
    body = spec.body
    turn = pose[3:] if body.aligned else multiply_quaternions(pose[3:], body.principal).tolist()
    number = _create(client, body.mass, create_collision(client, body.pieces), pose[:3], turn)
    bullet.changeDynamics(
        number,
        -1,
        mass=body.mass,  # Bullet forgets it where only the inertia is given
        localInertiaDiagonal=body.moments,  # by itself it takes that of the box around a compound
        lateralFriction=spec.friction,
        rollingFriction=spec.rolling_friction,
        spinningFriction=spec.spinning_friction,
        restitution=spec.restitution,
        physicsClientId=client,
    )
    return number


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
