"""Geoms: shapes with a pose, colour and mass, from which objects and fixtures are made.

Derived from geoms: `collision_pieces` (convex collision shapes), `surfaces` (triangle meshes), `bounding_box`,
`inertia` and `links` (URDF).
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
from mygym.robotics.assets import STRICT, Color, FiniteVector, NonNegative, Positive, Quaternion, find_beside
from mygym.robotics.mesh_files import read_hulls
from mygym.robotics.meshes import MARGIN, Mesh, hull, loft, outline, ring_at, shrunk
from mygym.robotics.transforms import as_quaternion, as_vector, pose_matrix, quaternion_to_matrix, rpy_to_matrix
from mygym.types import FloatArray, Vector

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
"""Shape → the numbers of its `size`, m. Shapes stand along z with their centre at the origin. A sphere with a second
number is hollow: the thickness of its wall."""


@dataclass(frozen=True)
class GeomSpec:
    """A shape in the frame of its body; SI units. An entry of the YAML key `parts`."""

    __pydantic_config__ = STRICT

    shape: Shape
    size: tuple[NonNegative, ...] = ()
    """m: see `SIZES`."""
    position: FiniteVector = (0.0, 0.0, 0.0)
    """m: its centre; for a hull or mesh the origin of its points."""
    euler: FiniteVector = (0.0, 0.0, 0.0)
    """Degrees about the fixed axes x, y, z in this order: URDF's roll, pitch and yaw."""
    color: Color | None = None
    """Colour; by default the body's."""
    mass: Positive | None = None
    """kg; by default a share, by volume, of the body's mass without the masses of other geoms."""
    sides: Annotated[int, Field(ge=3, le=24)] | None = None
    """Of a prism (default 6), or of a tube with corners outside, such as a nut."""
    points: tuple[FiniteVector, ...] = ()
    """m: corners of a hull; points inside it have no effect."""
    file: str = ""
    """A mesh file (OBJ, STL, DAE) beside the YAML file. It collides as convex hulls, one for each group of an OBJ."""
    scale: FiniteVector = (1.0, 1.0, 1.0)
    """Of a mesh, along x, y, z."""
    collides: bool = True
    """False for a visual geom, which has no mass."""
    visible: bool = True
    """False for an invisible geom."""


def with_files(geoms: Sequence[GeomSpec], path: Path) -> tuple[GeomSpec, ...]:
    """Return the geoms of a YAML file `path` with absolute names of mesh files, see `find_beside`."""
    return tuple(replace(geom, file=str(find_beside(path, geom.file))) if geom.file else geom for geom in geoms)


def check_geom(geom: GeomSpec, key: str) -> None:
    """Validate a geom; the file name of a mesh is absolute; `key` begins the keys in messages, such as `parts.3.`.

    Raises:
        AssetError: Wrong numbers in `size`, a wall thicker than the radius, a hull without volume, a key of another
            shape, or an unreadable mesh.
    """
    names, size = SIZES[geom.shape], geom.size
    counts = (1, 2) if geom.shape == "sphere" else (len(names),)
    if len(size) not in counts:
        wanted = f"{len(names) or 'no'} numbers for a {geom.shape}" + (f": {', '.join(names)}" if names else "")
        raise AssetError(bad_value(f"{key}size", list(size), wanted))
    zeros = [number for number in size if number <= 0]
    if zeros and not (geom.shape == "cone" and size[2] > 0 and len(zeros) == 1):
        raise AssetError(bad_value(f"{key}size", list(size), "lengths above 0 m (one radius of a cone may be 0)"))
    if geom.shape == "tube" and not _has_hole(geom):
        why = "a wall thinner than both radii and, with `sides`, thicker than the difference of corner and side radius"
        raise AssetError(bad_value(f"{key}size", list(size), why))
    if geom.shape == "torus" and size[1] >= size[0]:
        raise AssetError(bad_value(f"{key}size", list(size), "a section smaller than the ring"))
    if geom.shape == "sphere" and len(size) == 2 and size[1] >= size[0]:
        raise AssetError(bad_value(f"{key}size", list(size), "a wall thinner than the radius"))
    for other, value, shapes in (
        ("points", geom.points, ("hull",)),
        ("file", geom.file, ("mesh",)),
        ("sides", geom.sides, ("prism", "tube")),
    ):
        if value and geom.shape not in shapes:
            raise AssetError(bad_value(f"{key}{other}", value, shapes, f"is not a key of a {geom.shape}"))
    if geom.shape == "hull":
        try:
            hull(geom.points)
        except ValueError as error:
            raise AssetError(bad_value(f"{key}points", f"{len(geom.points)} points", str(error))) from error
    if geom.shape == "mesh":
        if 0 in geom.scale:
            raise AssetError(bad_value(f"{key}scale", list(geom.scale), "numbers other than 0"))
        if not Path(geom.file).is_file():
            raise AssetError(bad_value(f"{key}file", geom.file, "an OBJ, STL or DAE file", "is not a file"))
        if geom.collides:
            read_hulls(geom.file)


def _has_hole(geom: GeomSpec) -> bool:
    bottom, top, wall, _ = geom.size
    flat = math.cos(math.pi / geom.sides) if geom.sides else 1.0
    return all(wall < radius and radius * flat > radius - wall for radius in (bottom, top))


def pose_of(geom: GeomSpec) -> FloatArray:
    """Return the `(4, 4)` pose of a geom in the frame of its body."""
    return pose_matrix(geom.position, rpy_to_matrix(np.radians(geom.euler)))


DRAWN_CORNERS = 36
"""Corners of a round outline in a picture."""


def mesh_of(geom: GeomSpec, count: int) -> Mesh:
    """Return the surface of a shape other than a box or a mesh; a round outline has `count` corners."""
    if geom.shape == "hull":
        return hull(geom.points)
    if geom.shape == "torus":
        ring, section = geom.size
        angles = 2 * np.pi * np.arange(count // 2) / (count // 2)
        heights = section * np.sin(angles)
        radii = ring + section * np.cos(angles)
        rings = [ring_at(outline(radius, 0, count), z) for radius, z in zip(radii, heights, strict=True)]
        return loft(rings, closed=True)
    if geom.shape == "prism":
        radius, height = geom.size
        sides = geom.sides or 6
        return loft([ring_at(outline(radius, sides, sides), z) for z in (-height / 2, height / 2)])
    if geom.shape in ("sphere", "capsule"):
        radius, straight = geom.size[0], geom.size[1] / 2 if geom.shape == "capsule" else 0.0
        angles = np.linspace(
            -np.pi / 2, np.pi / 2, count // 2 // 2 * 2
        )  # an even number: half of the rings on each end
        radii, heights = radius * np.cos(angles), radius * np.sin(angles) + straight * np.sign(angles)
        return loft([ring_at(outline(r, 0, count), z) for r, z in zip(radii, heights, strict=True)])
    if geom.shape in ("cone", "cylinder"):
        bottom, top, height = geom.size if geom.shape == "cone" else (geom.size[0], *geom.size)
        return loft([ring_at(outline(bottom, 0, count), -height / 2), ring_at(outline(top, 0, count), height / 2)])
    bottom, top, wall, height = geom.size
    sides = geom.sides or 0
    count = sides * math.ceil(count / sides) if sides else count
    low, high = -height / 2, height / 2
    outside = [ring_at(outline(bottom, sides, count), low), ring_at(outline(top, sides, count), high)]
    inside = [ring_at(outline(top - wall, 0, count), high), ring_at(outline(bottom - wall, 0, count), low)]
    return loft([*outside, *inside], closed=True)


OUTLINE_CORNERS = 24
"""Smallest number of corners of an outline; bounds are exact, because only shapes with corners use it."""


def bounds(geoms: Sequence[GeomSpec]) -> tuple[FloatArray, FloatArray]:
    """Return the lowest and highest corner `(3,)` m of the box around geoms, in the frame of their body.

    Geoms that do not collide count only if no geom collides.
    """
    counted = [geom for geom in geoms if geom.collides] or list(geoms)
    lows, highs = zip(*(_bounds_of(geom) for geom in counted), strict=True)
    return np.min(lows, axis=0), np.max(highs, axis=0)


def _bounds_of(geom: GeomSpec) -> tuple[FloatArray, FloatArray]:
    """Return the exact bounds of one geom."""
    pose, size = pose_of(geom), geom.size
    rotation, position = pose[:3, :3], pose[:3, 3]
    axis = rotation[:, 2]
    across = np.sqrt(np.maximum(0.0, 1.0 - axis * axis))
    if geom.shape in ("hull", "mesh", "prism") or geom.sides:
        points = np.concatenate([p * geom.scale for p in read_hulls(geom.file)]) if geom.shape == "mesh" else None
        corners = (geom.points or mesh_of(geom, OUTLINE_CORNERS).vertices) if points is None else points
        vertices = np.asarray(corners) @ rotation.T + position
        return vertices.min(axis=0), vertices.max(axis=0)
    if geom.shape in ("cone", "tube"):
        bottom, top, height = size[0], size[1], size[-1]
        far = np.maximum(axis * height / 2 + top * across, -axis * height / 2 + bottom * across)
        near = np.maximum(-axis * height / 2 + top * across, axis * height / 2 + bottom * across)
        return position - near, position + far
    if geom.shape == "box":
        far = np.abs(rotation) @ np.array(size) / 2
    elif geom.shape == "sphere":
        far = np.full(3, size[0])
    elif geom.shape == "cylinder":
        far = np.abs(axis) * size[1] / 2 + size[0] * across
    elif geom.shape == "capsule":
        far = np.abs(axis) * size[1] / 2 + size[0]
    else:  # a torus
        far = size[0] * across + size[1]
    return position - far, position + far


HULL_CORNERS = 24
"""Corners of a round outline in a hull."""

STAVES = 16
"""Boxes of a tube's wall, and capsules of a torus."""


@dataclass(frozen=True)
class Piece:
    """Convex collision shape of the simulator, in the frame of its body."""

    shape: Literal["box", "sphere", "cylinder", "capsule", "hull"]
    size: tuple[float, ...]
    """m: as in `SIZES`; empty for a hull."""
    position: Vector = (0.0, 0.0, 0.0)
    """m."""
    orientation: Quaternion = (0.0, 0.0, 0.0, 1.0)
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
    moved = pose @ pose_matrix(piece.position, quaternion_to_matrix(piece.orientation))
    return replace(piece, position=as_vector(moved[:3, 3]), orientation=as_quaternion(moved[:3, :3]))


def _pieces_of(geom: GeomSpec) -> list[Piece]:
    """Return the pieces of a geom in the geom's frame."""
    if geom.shape in ("box", "sphere", "cylinder", "capsule"):
        count = len(SIZES[geom.shape])
        return [Piece(geom.shape, geom.size[:count])]
    if geom.shape == "tube":
        return _staves(geom)
    if geom.shape == "torus":
        ring, section = geom.size
        length = 2 * ring * math.sin(math.pi / STAVES)
        apothem = ring * math.cos(math.pi / STAVES)
        lying = as_quaternion(_rotation_about("x", 90.0)[:3, :3])
        part = Piece("capsule", (section, length), (apothem, 0.0, 0.0), lying)
        return [transformed(part, _rotation_about("z", angle)) for angle in np.arange(STAVES) * 360 / STAVES]
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
    return Piece("hull", (), points=corners)


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
    stave = transformed(Piece("box", board), pose_of_stave)
    first = 180 / count if sides else 0.0  # the first corner, not the first side, is at angle 0
    return [transformed(stave, _rotation_about("z", first + 360 * number / count)) for number in range(count)]


def _rotation_about(axis: str, degrees: float) -> FloatArray:
    angles = [math.radians(degrees) if axis == name else 0.0 for name in "xyz"]
    return pose_matrix((0.0, 0.0, 0.0), rpy_to_matrix(angles))
