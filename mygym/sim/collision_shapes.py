"""Collision shapes in a Bullet client, made of convex pieces."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

from mygym.models.collision_pieces import Piece
from mygym.models.links import hull_file
from mygym.sim.bullet import bullet

MAX_PIECES = 16
"""Largest number of pieces in a shape that is created by a call (MAX_COMPOUND_COLLISION_SHAPES in Bullet).

A URDF has no limit.
"""

_ORIGIN, _IDENTITY = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)

_GEOMETRIES = {
    "box": bullet.GEOM_BOX,
    "sphere": bullet.GEOM_SPHERE,
    "cylinder": bullet.GEOM_CYLINDER,
    "capsule": bullet.GEOM_CAPSULE,
    "hull": bullet.GEOM_MESH,
}


def create_collision(client: int, pieces: tuple[Piece, ...]) -> int:
    """Create a collision shape of convex pieces and return its Bullet id.

    Files of hulls are written once per process.

    Raises:
        ValueError: More than `MAX_PIECES` pieces, of which Bullet would silently drop the last.
    """
    if len(pieces) > MAX_PIECES:
        raise ValueError(f"{len(pieces)} pieces are more than the {MAX_PIECES} of a collision shape; use a URDF")
    create, arguments = _creation(os.getpid(), pieces)
    return int(create(**arguments, physicsClientId=client))


@lru_cache(maxsize=512)
def _creation(process: int, pieces: tuple[Piece, ...]) -> tuple[Any, dict[str, Any]]:
    """Return Bullet's function and its arguments; cached per process, because the hull files are temporary files."""
    if len(pieces) == 1:
        (piece,) = pieces
        arguments = {"shapeType": _GEOMETRIES[piece.shape], **_dimensions(piece)}
        if (piece.position, piece.orientation) != (_ORIGIN, _IDENTITY):
            arguments |= {
                "collisionFramePosition": piece.position,
                "collisionFrameOrientation": piece.orientation,
            }
        return bullet.createCollisionShape, arguments
    empty = {"halfExtents": _ORIGIN, "radius": 0.0, "height": 0.0, "fileName": ""}
    dimensions = [empty | _dimensions(piece) for piece in pieces]
    return bullet.createCollisionShapeArray, {
        "shapeTypes": [_GEOMETRIES[piece.shape] for piece in pieces],
        "halfExtents": [values["halfExtents"] for values in dimensions],
        "radii": [values["radius"] for values in dimensions],
        "lengths": [values["height"] for values in dimensions],
        # A list of hulls is accepted by file name only.
        "fileNames": [hull_file(piece.points) if piece.points else "" for piece in pieces],
        "collisionFramePositions": [piece.position for piece in pieces],
        "collisionFrameOrientations": [piece.orientation for piece in pieces],
    }


def _dimensions(piece: Piece) -> dict[str, Any]:
    if piece.shape == "box":
        return {"halfExtents": [edge / 2 for edge in piece.size]}
    if piece.shape == "sphere":
        return {"radius": piece.size[0]}
    if piece.shape == "hull":
        return {"vertices": piece.points}
    return {"radius": piece.size[0], "height": piece.size[1]}
