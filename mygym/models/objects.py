"""Rigid objects as data: `load_object("cube") -> ObjectSpec`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mygym.errors import AssetError, bad_value
from mygym.models.assets import ASSETS, STRICT, Color, Number, Vector, asset_names, find_asset, find_beside, read_asset
from mygym.models.inertia import Inertial, mass_properties, volume
from mygym.models.object_urdf import read_object_urdf
from mygym.models.rigid import RigidBody, rigid_body
from mygym.models.shapes import NonNegative, PartSpec, Shape, bounds, check_part

COLOR = (0.85, 0.25, 0.2, 1.0)
"""Of what says none."""

GRIPPER_WIDTH = 0.075
"""m: what fits between the fingers of a parallel gripper that opens by 8 cm."""

LEVEL = 0.001
"""m: what is lower than the top by less is at the top."""


@dataclass(frozen=True)
class ObjectFile:
    """What an object's YAML file says: one shape, or `parts`, or a `urdf`; SI units."""

    __pydantic_config__ = STRICT

    shape: Shape | None = None
    size: tuple[NonNegative, ...] = ()
    """m: of the one shape, see `mygym.models.shapes.SIZES`."""
    sides: int | None = None
    points: tuple[Vector, ...] = ()
    file: str = ""
    scale: Vector = (1.0, 1.0, 1.0)
    parts: tuple[PartSpec, ...] = ()
    """What a compound is made of, in place of `shape`."""
    urdf: str = ""
    """A URDF file beside this one, or `pybullet_data/...`, in place of `shape`."""
    mass: Annotated[Number, Field(gt=0)] | None = None
    """kg. Left out where every part says its own; for a URDF in place of its mass and inertia."""
    friction: NonNegative | None = None
    """Sliding friction; Bullet multiplies the values of the two bodies in contact. A URDF may say it."""
    rolling_friction: NonNegative | None = None
    """m: rolling resistance of round shapes."""
    spinning_friction: NonNegative | None = None
    """m: resistance to turning on the spot."""
    restitution: Annotated[Number, Field(ge=0, le=1)] | None = None
    color: Color | None = None
    """Of parts that have none of their own; of all that is seen of a URDF."""
    category: str = ""
    """Of those that come with the package the folder's name."""
    name: str = ""
    """The file's stem, unless given."""


@dataclass(frozen=True, eq=False)
class ObjectSpec:
    """A rigid object, in SI units. Its position is that of its centre of mass, its orientation that of its model."""

    name: str
    category: str
    parts: tuple[PartSpec, ...]
    inertial: Inertial
    friction: float
    rolling_friction: float
    spinning_friction: float
    restitution: float
    color: Color | None
    """Of parts that have none; a mesh of a URDF may have its own."""

    @property
    def mass(self) -> float:
        """Kg."""
        return self.inertial.mass

    @cached_property
    def size(self) -> Vector:
        """m: edges of the box around it as it is modelled."""
        low, high = bounds(self.parts)
        x, y, z = (high - low).tolist()
        return x, y, z

    @cached_property
    def half_height(self) -> float:
        """Height of the centre of mass above the table when the object lies as modelled, m."""
        return float(self.inertial.centre[2] - bounds(self.parts)[0][2])

    @property
    def grasp_width(self) -> float:
        """m: its narrower horizontal edge as it lies, across which a gripper would close."""
        return min(self.size[:2])

    @property
    def graspable(self) -> bool:
        """Whether it fits between the fingers of a parallel gripper that opens by 8 cm."""
        return self.grasp_width <= GRIPPER_WIDTH

    @cached_property
    def flat_top(self) -> bool:
        """Whether something may stay on top of it, as it is modelled: there it is more than a ball, a tip or a roll."""
        solid = [part for part in self.parts if part.collides]
        tops = [float(bounds([part])[1][2]) for part in solid]
        return any(not _is_round(part) for part, top in zip(solid, tops, strict=True) if top > max(tops) - LEVEL)

    def in_color(self, color: Color) -> ObjectSpec:
        """The same all in one colour; a mesh of a URDF may keep its own."""
        return replace(self, color=color, parts=tuple(replace(part, color=None) for part in self.parts))

    @cached_property
    def body(self) -> RigidBody:
        """What is simulated."""
        return rigid_body(self.parts, self.inertial)


def _is_round(part: PartSpec) -> bool:
    """Whether a shape is round where it is highest."""
    lies = any(angle % 180 for angle in part.euler[:2])
    return {"cylinder": lies, "sphere": True, "capsule": True, "cone": lies or part.size[1:2] == (0.0,)}.get(
        part.shape, False
    )


def object_names() -> tuple[str, ...]:
    """Objects that come with the package."""
    return asset_names("objects")


def load_object(name: str | Path) -> ObjectSpec:
    """The object of this name, or of this YAML or URDF file.

    Raises:
        AssetError: unknown name; a file with an unknown, missing or wrong key; a URDF or mesh that is missing or
            damaged, or is no rigid body with a mass.
    """
    if Path(name).suffix == ".urdf":
        return _from_urdf(Path(name))
    path = find_asset("objects", name)
    said = read_asset(ObjectFile, path)
    category = said.category or (path.parent.name if path.is_relative_to(ASSETS) else "")
    said = replace(said, name=said.name or path.stem, category=category)
    try:
        return _settled(path, said)
    except AssetError as error:
        text = str(error)
        raise AssetError(text if text.startswith(str(path)) else f"{path}: {text}") from error


def _from_urdf(path: Path) -> ObjectSpec:
    return _settled(path, ObjectFile(urdf=str(path.absolute()), name=path.stem))


def _settled(path: Path, said: ObjectFile) -> ObjectSpec:
    ways = {"shape": said.shape, "parts": said.parts, "urdf": said.urdf}
    given = [way for way, value in ways.items() if value]
    if len(given) != 1:
        why = "is missing" if not given else "is given twice"
        raise AssetError(bad_value(" and ".join(given) or "shape", None, f"exactly one of {', '.join(ways)}", why))
    for key in ("size", "sides", "points", "file") if said.shape is None else ():
        if value := getattr(said, key):
            raise AssetError(bad_value(key, value, "with `shape`, or within one of `parts`", "belongs to no shape"))
    friction, inertial = said.friction, None
    if said.urdf:
        found = read_object_urdf(find_beside(path, said.urdf), weighs=said.mass is None)
        parts, inertial = found.parts, found.inertial
        friction = found.friction if friction is None else friction
        if said.color is not None:
            parts = tuple(replace(part, color=said.color) for part in parts)
    elif said.shape is not None:
        parts = (
            PartSpec(said.shape, said.size, sides=said.sides, points=said.points, file=said.file, scale=said.scale),
        )
    else:
        parts = said.parts
    if not said.urdf:
        parts = tuple(replace(one, file=str(find_beside(path, one.file))) if one.file else one for one in parts)
        for number, part in enumerate(parts):
            check_part(part, f"parts.{number}." if said.parts else "")
    if not any(part.collides for part in parts):
        raise AssetError(bad_value("parts", "nothing that collides", "one part or more with `collides: true`"))
    if friction is None:
        raise AssetError(bad_value("friction", None, "a number, e.g. 0.5", "is missing"))
    return ObjectSpec(
        said.name,
        said.category,
        parts,
        inertial or mass_properties(parts, said.mass),
        friction,
        said.rolling_friction or 0.0,
        said.spinning_friction or 0.0,
        said.restitution or 0.0,
        said.color if said.color is not None or said.urdf else COLOR,
    )


def density(spec: ObjectSpec) -> float:
    """kg/m³ of what it is made of; hollow ones are made of their walls."""
    return spec.mass / volume(spec.parts)
