"""Rigid objects as data: `load_object("cube") -> ObjectSpec`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mygym.errors import AssetError, bad_value
from mygym.models.assets import (
    ASSETS,
    STRICT,
    Color,
    FiniteVector,
    Number,
    asset_names,
    find_asset,
    find_beside,
    read_asset,
)
from mygym.models.bounding_box import bounds
from mygym.models.inertia import Inertial, mass_properties, volume
from mygym.models.object_urdf import read_object_urdf
from mygym.models.rigid import RigidBody, rigid_body
from mygym.models.shapes import GeomSpec, NonNegative, Shape, check_geom

DEFAULT_COLOR = (0.85, 0.25, 0.2, 1.0)

GRIPPER_WIDTH = 0.075
"""m: largest width between the fingers of a parallel gripper that opens by 8 cm."""

ROOM = 0.001
"""m by which a hand opens wider than an object that it grasps: fingers would land on an object as wide."""

BALL_SHARE = 0.8
"""Share of a ball's width that a hand must open: it grasps the ball above its middle."""

HAND = 0.1
"""m: a longer edge of an object is not gripped across."""

SAME_CENTRE = 0.002
"""m: a centre of mass that is closer to the middle of the volume is that middle."""

TOP_TOLERANCE = 0.001
"""m: geoms whose tops are lower by less count as the top."""


@dataclass(frozen=True)
class ObjectFile:
    """YAML file of an object: one `shape`, or `parts`, or a `urdf`; SI units."""

    __pydantic_config__ = STRICT

    shape: Shape | None = None
    size: tuple[NonNegative, ...] = ()
    """m: see `mygym.models.shapes.SIZES`."""
    sides: int | None = None
    points: tuple[FiniteVector, ...] = ()
    file: str = ""
    scale: FiniteVector = (1.0, 1.0, 1.0)
    parts: tuple[GeomSpec, ...] = ()
    """Geoms of a compound, in place of `shape`."""
    urdf: str = ""
    """A URDF file beside this file, or `pybullet_data/...`, in place of `shape`."""
    mass: Annotated[Number, Field(gt=0)] | None = None
    """kg. Omitted if every geom has its mass; replaces mass and inertia of a URDF."""
    friction: NonNegative | None = None
    """Sliding friction; Bullet multiplies the values of the two bodies in contact. Optional for a URDF."""
    rolling_friction: NonNegative | None = None
    """m: rolling resistance of round shapes."""
    spinning_friction: NonNegative | None = None
    """m: resistance to spinning about the contact normal."""
    restitution: Annotated[Number, Field(ge=0, le=1)] | None = None
    color: Color | None = None
    """Default colour of the geoms; colour of all visuals of a URDF."""
    category: str = ""
    """Category; by default, for built-in objects, the folder's name."""
    name: str = ""
    """Name; by default the file's stem."""


@dataclass(frozen=True, eq=False)
class ObjectSpec:
    """A rigid object, in SI units. Its pose is the position of its centre of mass and the orientation of its model."""

    name: str
    category: str
    geoms: tuple[GeomSpec, ...]
    inertial: Inertial
    friction: float
    rolling_friction: float
    spinning_friction: float
    restitution: float
    color: Color | None
    """Default colour of the geoms; a mesh of a URDF may have another."""

    @property
    def mass(self) -> float:
        """Kg."""
        return self.inertial.mass

    @cached_property
    def size(self) -> FiniteVector:
        """m: edges of the bounding box in the model's orientation."""
        low, high = bounds(self.geoms)
        x, y, z = (high - low).tolist()
        return x, y, z

    @cached_property
    def half_height(self) -> float:
        """m: height of the centre of mass above the table in the model's orientation."""
        return float(self.inertial.centre[2] - bounds(self.geoms)[0][2])

    @cached_property
    def middle(self) -> FiniteVector:
        """m: from the centre of mass to the middle of the volume, in the model's orientation.

        Along an edge that is longer than a hand it is 0: a hammer is grasped where it is balanced.
        """
        plain = [replace(geom, mass=None) for geom in self.geoms]
        x, y, z = (mass_properties(plain, self.mass).centre - self.inertial.centre).tolist()
        x, y = (0.0 if edge > HAND else offset for offset, edge in zip((x, y), self.size[:2], strict=True))
        return (x, y, z) if math.hypot(x, y, z) > SAME_CENTRE else (0.0, 0.0, 0.0)

    @property
    def grasp_width(self) -> float:
        """m: the narrower horizontal edge, across which a gripper closes."""
        return min(self.size[:2])

    @property
    def needed_opening(self) -> float:
        """m: by how much a hand must open to grasp the object."""
        shapes = [geom.shape for geom in self.geoms if geom.collides]
        return (BALL_SHARE if shapes == ["sphere"] else 1.0) * self.grasp_width + ROOM

    @property
    def graspable(self) -> bool:
        """Whether the object fits between the fingers of a parallel gripper that opens by 8 cm."""
        return self.grasp_width <= GRIPPER_WIDTH

    @cached_property
    def flat_top(self) -> bool:
        """Whether another object can rest on top, in the model's orientation: the top is no ball, tip or roll."""
        solid = [geom for geom in self.geoms if geom.collides]
        tops = [float(bounds([geom])[1][2]) for geom in solid]
        return any(
            not _is_round(geom) for geom, top in zip(solid, tops, strict=True) if top > max(tops) - TOP_TOLERANCE
        )

    def in_color(self, color: Color) -> ObjectSpec:
        """Return the object in one colour; a mesh of a URDF may keep another."""
        return replace(self, color=color, geoms=tuple(replace(geom, color=None) for geom in self.geoms))

    @cached_property
    def body(self) -> RigidBody:
        """The body that is simulated."""
        return rigid_body(self.geoms, self.inertial)


def _is_round(geom: GeomSpec) -> bool:
    """Return whether a shape is round at its top."""
    is_tilted = any(angle % 180 for angle in geom.euler[:2])
    return {"cylinder": is_tilted, "sphere": True, "capsule": True, "cone": is_tilted or geom.size[1:2] == (0.0,)}.get(
        geom.shape, False
    )


def object_names() -> tuple[str, ...]:
    """Return the names of the built-in objects."""
    return asset_names("objects")


def objects_for_hand(opening: float, wanted: ObjectSpec) -> list[str]:
    """Return the names of built-in objects that fit into a hand in place of an object, the most similar first.

    Single blocks come before compounds and balls, which may topple and roll.

    Args:
        opening: m between the open fingers.
        wanted: The object that is too wide.
    """

    def difference(spec: ObjectSpec) -> tuple[bool, float]:
        edges = sum(abs(edge - other) for edge, other in zip(spec.size, wanted.size, strict=True))
        return len(spec.geoms) > 1 or not spec.flat_top, edges

    fitting = [spec for spec in map(load_object, object_names()) if spec.needed_opening < opening]
    return [spec.name for spec in sorted(fitting, key=difference)]


def load_object(name: str | Path) -> ObjectSpec:
    """Load a built-in object by name, or an object from a YAML or URDF file.

    Raises:
        AssetError: Unknown name; an unknown, missing or invalid key; a missing or invalid URDF or mesh; or a URDF that
            is no rigid body with a mass.
    """
    if Path(name).suffix.lower() == ".urdf":
        return _from_urdf(Path(name))
    path = find_asset("objects", name)
    file = read_asset(ObjectFile, path)
    category = file.category or (path.parent.name if path.is_relative_to(ASSETS) else "")
    file = replace(file, name=file.name or path.stem, category=category)
    try:
        return _object(path, file)
    except AssetError as error:
        text = str(error)
        raise AssetError(text if text.startswith(str(path)) else f"{path}: {text}") from error


def _from_urdf(path: Path) -> ObjectSpec:
    return _object(path, ObjectFile(urdf=str(path.absolute()), name=path.stem))


def _object(path: Path, file: ObjectFile) -> ObjectSpec:
    """Validate an object file and return its object."""
    sources = {"shape": file.shape, "parts": file.parts, "urdf": file.urdf}
    given = [source for source, value in sources.items() if value]
    if len(given) != 1:
        why = "is missing" if not given else "exclude each other"
        raise AssetError(bad_value(" and ".join(given) or "shape", None, f"exactly one of {', '.join(sources)}", why))
    for key in ("size", "sides", "points", "file") if file.shape is None else ():
        if value := getattr(file, key):
            raise AssetError(bad_value(key, value, "with `shape`, or within one of `parts`", "belongs to no shape"))
    friction, inertial = file.friction, None
    if file.urdf:
        body = read_object_urdf(find_beside(path, file.urdf), with_inertial=file.mass is None)
        geoms, inertial = body.geoms, body.inertial
        friction = body.friction if friction is None else friction
        if file.color is not None:
            geoms = tuple(replace(geom, color=file.color) for geom in geoms)
    else:
        geoms = _geoms(path, file)
    if not any(geom.collides for geom in geoms):
        raise AssetError(bad_value("parts", "no collision shape", "one shape or more with `collides: true`"))
    if friction is None:
        raise AssetError(bad_value("friction", None, "a number, e.g. 0.5", "is missing"))
    return ObjectSpec(
        file.name,
        file.category,
        geoms,
        inertial or mass_properties(geoms, file.mass),
        friction,
        file.rolling_friction or 0.0,
        file.spinning_friction or 0.0,
        file.restitution or 0.0,
        file.color if file.color is not None or file.urdf else DEFAULT_COLOR,
    )


def _geoms(path: Path, file: ObjectFile) -> tuple[GeomSpec, ...]:
    """Return the validated geoms of `shape` or of `parts`, with absolute mesh file names."""
    geoms = file.parts
    if file.shape is not None:
        geoms = (
            GeomSpec(file.shape, file.size, sides=file.sides, points=file.points, file=file.file, scale=file.scale),
        )
    geoms = tuple(replace(geom, file=str(find_beside(path, geom.file))) if geom.file else geom for geom in geoms)
    for number, geom in enumerate(geoms):
        check_geom(geom, f"parts.{number}." if file.parts else "")
    return geoms


def density(spec: ObjectSpec) -> float:
    """Return the density in kg/m³; the volume of a hollow object is the volume of its walls."""
    return spec.mass / volume(spec.geoms)
