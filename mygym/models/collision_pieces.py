"""Collision pieces: the convex shapes that represent geoms in collisions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np

from mygym.models.assets import Quaternion
from mygym.models.mesh_files import read_hulls
from mygym.models.meshes import MARGIN, outline, ring_at, shrunk
from mygym.models.shapes import SIZES, GeomSpec, pose_of
from mygym.models.transforms import matrix_to_quaternion, pose_matrix, quaternion_to_matrix, rpy_to_matrix
from mygym.types import FloatArray, Vector

HULL_CORNERS = 24
"""Corners of a round outline in a hull."""

_ORIGIN: Vector = (0.0, 0.0, 0.0)
_IDENTITY: Quaternion = (0.0, 0.0, 0.0, 1.0)

STAVES = 16
"""Boxes of a tube's wall, and capsules of a torus."""


@dataclass(frozen=True)
class Piece:
    """Convex collision shape of the simulator, in the frame of its body."""

    shape: Literal["box", "sphere", "cylinder", "capsule", "hull"]
    size: tuple[float, ...]
    """m: as in `SIZES`; empty for a hull."""
    position: Vector
    """m."""
    orientation: Quaternion
    points: tuple[Vector, ...] = ()
    """m: corners of a hull without Bullet's margin, in the frame of the piece."""


@lru_cache(maxsize=512)
def pieces(geoms: tuple[GeomSpec, ...]) -> tuple[Piece, ...]:
    """Return the convex shapes of the geoms that collide, in the frame of the body.

    The wall of a tube becomes boxes, a torus becomes capsules, shapes with corners become hulls of at most 64 points.
    """
    return tuple(transformed(piece, pose_of(geom)) for geom in geoms if geom.collides for piece in _pieces_of(geom))


def transformed(piece: Piece, pose: FloatArray) -> Piece:
    """Return a piece transformed by a `(4, 4)` pose."""
    pose_of_piece = pose @ pose_matrix(piece.position, quaternion_to_matrix(piece.orientation))
    x, y, z = pose_of_piece[:3, 3].tolist()
    qx, qy, qz, qw = matrix_to_quaternion(pose_of_piece[:3, :3]).tolist()
    return replace(piece, position=(x, y, z), orientation=(qx, qy, qz, qw))


def _pieces_of(geom: GeomSpec) -> list[Piece]:
    """Return the pieces of a geom in the geom's frame."""
    if geom.shape in ("box", "sphere", "cylinder", "capsule"):
        count = len(SIZES[geom.shape])
        return [Piece(geom.shape, geom.size[:count], _ORIGIN, _IDENTITY)]
    if geom.shape == "tube":
        return _staves(geom)
    if geom.shape == "torus":
        ring, section = geom.size
        length = 2 * ring * math.sin(math.pi / STAVES)
        apothem = ring * math.cos(math.pi / STAVES)
        return [
            transformed(
                Piece("capsule", (section, length), (apothem, 0.0, 0.0), _quaternion_about("x", 90.0)),
                _rotation_about("z", angle),
            )
            for angle in np.arange(STAVES) * 360 / STAVES
        ]
    if geom.shape == "mesh":
        return [_hull_piece(shrunk(points * geom.scale)) for points in read_hulls(geom.file)]
    if geom.shape == "hull":
        return [_hull_piece(shrunk(geom.points))]
    return [_hull_piece(_corners(geom))]


def _corners(geom: GeomSpec) -> FloatArray:
    """Return the corners of a cone or prism, its faces moved inwards by Bullet's margin or as far as possible."""
    height = geom.size[-1]
    bottom, top = geom.size[0], geom.size[-2]
    sides = HULL_CORNERS if geom.shape == "cone" else geom.sides or 6
    flat = math.cos(math.pi / sides)
    margin = min(MARGIN, 0.2 * height, 0.2 * max(bottom, top))
    slope = (top - bottom) / height
    inwards = margin * math.hypot(1.0, slope * flat) / flat  # along a corner's radius

    def ring(z: float) -> FloatArray:
        radius = bottom + slope * (z + height / 2) - inwards
        if radius < 0:  # beyond the tip
            z, radius = z - radius / slope, 0.0
        return ring_at(outline(radius, sides, sides), z)[: None if radius else 1]

    return np.concatenate([ring(margin - height / 2), ring(height / 2 - margin)])


def _hull_piece(points: FloatArray) -> Piece:
    corners = tuple((x, y, z) for x, y, z in points.tolist())
    return Piece("hull", (), _ORIGIN, _IDENTITY, corners)


def _staves(geom: GeomSpec) -> list[Piece]:
    """Return the wall of a tube as boxes side by side, which leave the hole free and overlap outside it."""
    bottom, top, wall, height = geom.size
    sides = geom.sides
    count = sides or STAVES
    flat = math.cos(math.pi / sides) if sides else 1.0  # distance of a side over the distance of a corner
    middle = (bottom + top) / 2
    thickness = middle * flat - (middle - wall)
    width = 2 * max(bottom, top) * flat * math.tan(math.pi / count)
    tilt = _rotation_about("y", math.degrees(math.atan2(top - bottom, height)))
    pose_of_stave = pose_matrix((middle * flat - thickness / 2, 0.0, 0.0), tilt[:3, :3])
    board = (thickness, width, math.hypot(height, top - bottom))
    stave = transformed(Piece("box", board, _ORIGIN, _IDENTITY), pose_of_stave)
    first = 180 / count if sides else 0.0  # the first corner, not the first side, is at angle 0
    return [transformed(stave, _rotation_about("z", first + 360 * number / count)) for number in range(count)]


def _rotation_about(axis: str, degrees: float) -> FloatArray:
    angles = [math.radians(degrees) if axis == name else 0.0 for name in "xyz"]
    return pose_matrix((0.0, 0.0, 0.0), rpy_to_matrix(angles))


def _quaternion_about(axis: str, degrees: float) -> Quaternion:
    x, y, z, w = matrix_to_quaternion(_rotation_about(axis, degrees)[:3, :3]).tolist()
    return x, y, z, w
