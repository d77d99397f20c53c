"""Geoms: shapes with a pose, colour and mass, from which objects and fixtures are made.

Derived from geoms: `collision_pieces` (convex collision shapes), `surfaces` (triangle meshes), `bounding_box`,
`inertia` and `links` (URDF).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from mygym.errors import AssetError, bad_value
from mygym.models.assets import STRICT, Color, FiniteVector, Number
from mygym.models.mesh_files import read_hulls
from mygym.models.meshes import hull
from mygym.models.transforms import pose_matrix, rpy_to_matrix
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
"""Shape → the numbers of its `size`, m. Shapes stand along z with their centre at the origin. A sphere with a second
number is hollow: the thickness of its wall."""

NonNegative = Annotated[Number, Field(ge=0)]


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
    mass: Annotated[Number, Field(gt=0)] | None = None
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


def check_geom(geom: GeomSpec, key: str) -> None:
    """Validate a geom.

    Args:
        geom: The geom; the file name of a mesh must be absolute.
        key: Prefix of the keys in messages, with its dot, such as `parts.3.`; empty for a single shape.

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
