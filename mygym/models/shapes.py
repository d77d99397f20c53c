"""Shapes as data, alone or put together: where they are, where they collide, what their surface is.

`PartSpec` is what a YAML file says. From a list of parts follow `pieces` (the convex shapes that collide) and `bounds`,
in `inertia` what they weigh, in `links` a URDF link. Nothing here knows Bullet: `bodies` makes bodies of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from mygym.errors import AssetError, bad_value
from mygym.models.assets import STRICT, Color, Number, Quaternion, Vector
from mygym.models.meshes import MARGIN, Mesh, hull, loft, outline, read_hulls, shrunk
from mygym.models.transforms import matrix_to_quaternion, pose_matrix, quaternion_to_matrix, rpy_to_matrix
from mygym.types import FloatArray

Shape = Literal["box", "sphere", "cylinder", "capsule", "cone", "prism", "tube", "torus", "hull", "mesh"]

SIZES: Mapping[str, tuple[str, ...]] = {
    "box": ("edge along x", "along y", "along z"),
    "sphere": ("radius",),
    "cylinder": ("radius", "height"),
    "capsule": ("radius", "distance between the centres of its round ends"),
    "cone": ("radius at the bottom", "radius at the top", "height"),
    "prism": ("radius of the corners", "height"),
    "tube": ("outer radius at the bottom", "outer radius at the top", "thickness of the wall", "height"),
    "torus": ("radius of the ring", "radius of its section"),
    "hull": (),
    "mesh": (),
}
"""Numbers in `size`, m; all stand upright along z, with their middle at the origin. A second one makes a sphere hollow:
the thickness of its wall."""

ROUND = 24
"""Corners that a round outline has in a hull."""
STAVES = 16
"""Boxes of a tube's wall, and capsules of a torus."""
DRAWN = 36
"""Corners that a round outline has in a picture."""

NonNegative = Annotated[Number, Field(ge=0)]


@dataclass(frozen=True)
class PartSpec:
    """One shape, alone or as a part of a body, in the body's frame; SI units."""

    __pydantic_config__ = STRICT

    shape: Shape
    size: tuple[NonNegative, ...] = ()
    """m: see `SIZES`."""
    position: Vector = (0.0, 0.0, 0.0)
    """m: where its middle is; of a hull or mesh the origin of its points."""
    euler: Vector = (0.0, 0.0, 0.0)
    """Degrees about the fixed axes x, y, z in this order: URDF's roll, pitch and yaw."""
    color: Color | None = None
    """The body's without it."""
    mass: Annotated[Number, Field(gt=0)] | None = None
    """kg; without it the part gets its share, by volume, of what the body weighs more than the parts that say it."""
    sides: Annotated[int, Field(ge=3, le=24)] | None = None
    """Of a prism (6 without it), and of a tube whose outside has corners, as a nut's has."""
    points: tuple[Vector, ...] = ()
    """m: of a hull, corners of the convex shape; those within it do nothing."""
    file: str = ""
    """Of a mesh: an OBJ or STL file beside the YAML file. It collides as convex hulls, one for each group of an OBJ."""
    scale: Vector = (1.0, 1.0, 1.0)
    """Of a mesh."""
    collides: bool = True
    """False for what is only seen: it weighs nothing."""
    visible: bool = True
    """False for what only collides."""


@dataclass(frozen=True)
class Piece:
    """A convex shape that Bullet knows, at its place in a body's frame."""

    shape: Literal["box", "sphere", "cylinder", "capsule", "hull"]
    size: tuple[float, ...]
    """m: as in `SIZES`; none of a hull."""
    position: Vector
    """m."""
    orientation: Quaternion
    points: tuple[Vector, ...] = ()
    """m: corners of a hull before Bullet adds its margin to it, in the piece's own frame."""


def check_part(part: PartSpec, key: str) -> None:
    """Refuse a shape that is none.

    Args:
        part: What the file says; the file of a mesh must be absolute already.
        key: Where it says so, for the message, e.g. `parts.3.` (with its dot) or nothing.

    Raises:
        AssetError: wrong numbers in `size`, a wall thicker than the radius, a hull without volume, a key of another
            shape, a mesh that cannot be read.
    """
    names, size = SIZES[part.shape], part.size
    counts = (1, 2) if part.shape == "sphere" else (len(names),)
    if len(size) not in counts:
        wanted = f"{len(names) or 'no'} numbers for a {part.shape}" + (f": {', '.join(names)}" if names else "")
        raise AssetError(bad_value(f"{key}size", list(size), wanted))
    zeros = [number for number in size if number <= 0]
    if zeros and not (part.shape == "cone" and size[2] > 0 and len(zeros) == 1):
        raise AssetError(bad_value(f"{key}size", list(size), "lengths above 0 m (of a cone one radius may be 0)"))
    if part.shape == "tube" and not _has_hole(part):
        why = "a wall thinner than both radii, and with `sides` thick enough for the middle of a side"
        raise AssetError(bad_value(f"{key}size", list(size), why))
    if part.shape == "torus" and size[1] >= size[0]:
        raise AssetError(bad_value(f"{key}size", list(size), "a section smaller than the ring"))
    if part.shape == "sphere" and len(size) == 2 and size[1] >= size[0]:
        raise AssetError(bad_value(f"{key}size", list(size), "a wall thinner than the radius"))
    for other, value, shapes in (
        ("points", part.points, ("hull",)),
        ("file", part.file, ("mesh",)),
        ("sides", part.sides, ("prism", "tube")),
    ):
        if value and part.shape not in shapes:
            raise AssetError(bad_value(f"{key}{other}", value, shapes, f"is not for a {part.shape}"))
    if part.shape == "hull":
        try:
            hull(part.points)
        except ValueError as error:
            raise AssetError(bad_value(f"{key}points", f"{len(part.points)} points", str(error))) from error
    if part.shape == "mesh":
        if 0 in part.scale:
            raise AssetError(bad_value(f"{key}scale", list(part.scale), "numbers other than 0"))
        if not Path(part.file).is_file():
            raise AssetError(bad_value(f"{key}file", part.file, "an OBJ or STL file", "is not a file"))
        if part.collides:
            read_hulls(part.file)


def _has_hole(part: PartSpec) -> bool:
    bottom, top, wall, _ = part.size
    flat = math.cos(math.pi / part.sides) if part.sides else 1.0
    return all(wall < radius and radius * flat > radius - wall for radius in (bottom, top))


def pose_of(part: PartSpec) -> FloatArray:
    """The `(4, 4)` pose of a part in its body's frame."""
    return pose_matrix(part.position, rpy_to_matrix(np.radians(part.euler)))


# What collides ------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def pieces(parts: tuple[PartSpec, ...]) -> tuple[Piece, ...]:
    """The convex shapes that collide for parts, in the body's frame.

    Walls of tubes become boxes, rings capsules, everything with corners a hull of at most 64 points.
    """
    return tuple(moved(piece, pose_of(part)) for part in parts if part.collides for piece in _pieces_of(part))


def moved(piece: Piece, pose: FloatArray) -> Piece:
    """A piece of a frame as it stands in another, in which the frame has the `(4, 4)` pose."""
    place = pose @ pose_matrix(piece.position, quaternion_to_matrix(piece.orientation))
    x, y, z = place[:3, 3].tolist()
    qx, qy, qz, qw = matrix_to_quaternion(place[:3, :3]).tolist()
    return replace(piece, position=(x, y, z), orientation=(qx, qy, qz, qw))


def _pieces_of(part: PartSpec) -> list[Piece]:
    """Of a part in its own frame."""
    here: Vector = (0.0, 0.0, 0.0)
    straight: Quaternion = (0.0, 0.0, 0.0, 1.0)
    if part.shape in ("box", "sphere", "cylinder", "capsule"):
        count = len(SIZES[part.shape])
        return [Piece(part.shape, part.size[:count], here, straight)]
    if part.shape == "tube":
        return _staves(part)
    if part.shape == "torus":
        ring, section = part.size
        length = 2 * ring * math.sin(math.pi / STAVES)
        apothem = ring * math.cos(math.pi / STAVES)
        return [
            moved(Piece("capsule", (section, length), (apothem, 0.0, 0.0), _about("x", 90.0)), _turned("z", angle))
            for angle in np.arange(STAVES) * 360 / STAVES
        ]
    if part.shape == "mesh":
        return [_hull_piece(shrunk(points * part.scale)) for points in read_hulls(part.file)]
    if part.shape == "hull":
        return [_hull_piece(shrunk(part.points))]
    return [_hull_piece(_corners(part))]


def _corners(part: PartSpec) -> FloatArray:
    """Corners of a cone or prism whose faces are moved inwards by Bullet's margin, or as far as it is thick."""
    height = part.size[-1]
    bottom, top = part.size[0], part.size[-2]
    sides = ROUND if part.shape == "cone" else part.sides or 6
    flat = math.cos(math.pi / sides)
    margin = min(MARGIN, 0.2 * height, 0.2 * max(bottom, top))
    slope = (top - bottom) / height
    inwards = margin * math.hypot(1.0, slope * flat) / flat  # along a corner's radius

    def ring(z: float) -> FloatArray:
        radius = bottom + slope * (z + height / 2) - inwards
        if radius < 0:  # beyond the tip
            z, radius = z - radius / slope, 0.0
        return _ring(outline(radius, sides, sides), z)[: None if radius else 1]

    return np.concatenate([ring(margin - height / 2), ring(height / 2 - margin)])


def _hull_piece(points: FloatArray) -> Piece:
    corners = tuple((x, y, z) for x, y, z in points.tolist())
    return Piece("hull", (), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), corners)


def _staves(part: PartSpec) -> list[Piece]:
    """The wall of a tube as boxes side by side, which leave the hole free and overlap outside it."""
    bottom, top, wall, height = part.size
    sides = part.sides
    count = sides or STAVES
    flat = math.cos(math.pi / sides) if sides else 1.0  # how much nearer the middle of a side is than a corner
    middle = (bottom + top) / 2
    thickness = middle * flat - (middle - wall)
    width = 2 * max(bottom, top) * flat * math.tan(math.pi / count)
    lean = _turned("y", math.degrees(math.atan2(top - bottom, height)))
    place = pose_matrix((middle * flat - thickness / 2, 0.0, 0.0), lean[:3, :3])
    board = (thickness, width, math.hypot(height, top - bottom))
    stave = moved(Piece("box", board, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)), place)
    first = 180 / count if sides else 0.0  # an outline's first corner is at angle 0, so the middle of a side is not
    return [moved(stave, _turned("z", first + 360 * number / count)) for number in range(count)]


def _turned(axis: str, degrees: float) -> FloatArray:
    angles = [math.radians(degrees) if axis == name else 0.0 for name in "xyz"]
    return pose_matrix((0.0, 0.0, 0.0), rpy_to_matrix(angles))


def _about(axis: str, degrees: float) -> Quaternion:
    x, y, z, w = matrix_to_quaternion(_turned(axis, degrees)[:3, :3]).tolist()
    return x, y, z, w


# The surface --------------------------------------------------------------------------------------------------------


def mesh_of(part: PartSpec, count: int) -> Mesh:
    """The surface of a shape other than a box or a mesh; a round outline gets `count` corners."""
    if part.shape == "hull":
        return hull(part.points)
    if part.shape == "torus":
        ring, section = part.size
        angles = 2 * np.pi * np.arange(count // 2) / (count // 2)
        heights = section * np.sin(angles)
        radii = ring + section * np.cos(angles)
        rings = [_ring(outline(radius, 0, count), z) for radius, z in zip(radii, heights, strict=True)]
        return loft(rings, closed=True)
    if part.shape == "prism":
        radius, height = part.size
        sides = part.sides or 6
        return loft([_ring(outline(radius, sides, sides), z) for z in (-height / 2, height / 2)])
    if part.shape in ("sphere", "capsule"):
        radius, straight = part.size[0], part.size[1] / 2 if part.shape == "capsule" else 0.0
        angles = np.linspace(-np.pi / 2, np.pi / 2, count // 2 // 2 * 2)  # an even number: half of them on each end
        radii, heights = radius * np.cos(angles), radius * np.sin(angles) + straight * np.sign(angles)
        return loft([_ring(outline(r, 0, count), z) for r, z in zip(radii, heights, strict=True)])
    if part.shape in ("cone", "cylinder"):
        bottom, top, height = part.size if part.shape == "cone" else (part.size[0], *part.size)
        return loft([_ring(outline(bottom, 0, count), -height / 2), _ring(outline(top, 0, count), height / 2)])
    bottom, top, wall, height = part.size
    sides = part.sides or 0
    count = sides * math.ceil(count / sides) if sides else count
    low, high = -height / 2, height / 2
    outside = [_ring(outline(bottom, sides, count), low), _ring(outline(top, sides, count), high)]
    inside = [_ring(outline(top - wall, 0, count), high), _ring(outline(bottom - wall, 0, count), low)]
    return loft([*outside, *inside], closed=True)


def _ring(flat: FloatArray, z: float) -> FloatArray:
    return np.column_stack([flat, np.full(len(flat), z)])


# How large ----------------------------------------------------------------------------------------------------------


def bounds(parts: Sequence[PartSpec]) -> tuple[FloatArray, FloatArray]:
    """The lowest and highest corner `(3,)` of the box around parts, m, in the body's frame.

    What is only seen does not count, unless nothing else is there.
    """
    counted = [part for part in parts if part.collides] or list(parts)
    lows, highs = zip(*(_bounds_of(part) for part in counted), strict=True)
    return np.min(lows, axis=0), np.max(highs, axis=0)


def _bounds_of(part: PartSpec) -> tuple[FloatArray, FloatArray]:
    """Exact: of each shape how far it goes along the axes."""
    pose, size = pose_of(part), part.size
    rotation, place = pose[:3, :3], pose[:3, 3]
    axis = rotation[:, 2]
    across = np.sqrt(np.maximum(0.0, 1.0 - axis * axis))
    if part.shape in ("hull", "mesh", "prism") or part.sides:
        points = np.concatenate([p * part.scale for p in read_hulls(part.file)]) if part.shape == "mesh" else None
        corners = (part.points or mesh_of(part, ROUND).vertices) if points is None else points
        there = np.asarray(corners) @ rotation.T + place
        return there.min(axis=0), there.max(axis=0)
    if part.shape in ("cone", "tube"):
        bottom, top, height = size[0], size[1], size[-1]
        far = np.maximum(axis * height / 2 + top * across, -axis * height / 2 + bottom * across)
        near = np.maximum(-axis * height / 2 + top * across, axis * height / 2 + bottom * across)
        return place - near, place + far
    if part.shape == "box":
        far = np.abs(rotation) @ np.array(size) / 2
    elif part.shape == "sphere":
        far = np.full(3, size[0])
    elif part.shape == "cylinder":
        far = np.abs(axis) * size[1] / 2 + size[0] * across
    elif part.shape == "capsule":
        far = np.abs(axis) * size[1] / 2 + size[0]
    else:  # a torus
        far = size[0] * across + size[1]
    return place - far, place + far
