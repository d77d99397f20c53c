"""Rigid objects as data, `load_object("cube") -> ObjectSpec`, and their URDF files."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from mygym.errors import AssetError, bad_value
from mygym.registry import registry
from mygym.robotics.assets import (
    ASSETS,
    STRICT,
    Color,
    FiniteVector,
    NonNegative,
    Number,
    Positive,
    asset_names,
    find_asset,
    find_beside,
    read_asset,
)
from mygym.robotics.inertia import Inertial, RigidBody, mass_properties, rigid_body, volume
from mygym.robotics.shapes import GeomSpec, Shape, bounds, check_geom, with_files
from mygym.robotics.transforms import as_vector, matrix_to_rpy
from mygym.robotics.urdf import inertial, merge_fixed_joints, origin_of, read_urdf

DEFAULT_FRICTION = 0.5
"""Friction of a URDF without Bullet's `<contact>`, which is not standard URDF."""

GEOMETRIES = ("box", "sphere", "cylinder", "capsule", "mesh")


def _read_urdf(path: Path, with_inertial: bool) -> tuple[tuple[GeomSpec, ...], Inertial | None, float]:
    """Read a URDF with fixed joints only as one rigid body: its geoms, its inertia if asked for, and its friction.

    Raises:
        AssetError: The file or a mesh is missing or invalid; a joint moves; a collision shape is missing; or the
            mass or a moment of inertia is not positive.
    """
    root = read_urdf(path)
    try:
        geoms, link = _geoms_of(root)
        contact = link.find("contact/lateral_friction")
        friction = DEFAULT_FRICTION if contact is None else float(contact.get("value", DEFAULT_FRICTION))
        return geoms, _inertial(link, geoms) if with_inertial else None, friction
    except AssetError as error:
        raise AssetError(f"{path}: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        why = f"cannot be read ({type(error).__name__}: {error})"
        raise AssetError(f"{path}: {bad_value('urdf', path.name, 'a URDF of one rigid body', why)}") from error


def _geoms_of(root: ET.Element) -> tuple[tuple[GeomSpec, ...], ET.Element]:
    """Return the geoms of the only body of a URDF, and its link."""
    for joint in root.findall("joint"):
        if joint.get("type") != "fixed":
            name, kind = joint.get("name", ""), joint.get("type")
            raise AssetError(bad_value("joint", name, "an object is one rigid body: fixed joints only", f"is {kind}"))
    merge_fixed_joints(root)
    links = root.findall("link")
    if len(links) != 1:
        names = [link.get("name", "") for link in links]
        raise AssetError(bad_value("link", names, "one rigid body: links joined by fixed joints", "are not connected"))
    (link,) = links
    colors = {material.get("name", ""): _color_of(material) for material in root.findall("material")}
    solid = [replace(geom_of(element), visible=False) for element in link.findall("collision")]
    visuals = [
        replace(geom_of(element), collides=False, color=_material(element, colors))
        for element in link.findall("visual")
    ]
    if not solid:
        allowed = "a <link> with a <collision>; copy its <visual> if the shape is simple"
        raise AssetError(bad_value("collision", None, allowed, "is missing"))
    for number, geom in enumerate(solid):
        check_geom(geom, f"collision.{number}.")
    for number, geom in enumerate(visuals):
        check_geom(geom, f"visual.{number}.")
    if not visuals:
        solid = [replace(geom, visible=True) for geom in solid]
    return (*visuals, *solid), link


def _inertial(link: ET.Element, geoms: Sequence[GeomSpec]) -> Inertial:
    mass, centre, inertia = inertial(link)
    if not mass > 0:
        why = "is not above 0: an object that never moves belongs to a workspace"
        raise AssetError(bad_value("mass", mass, "<inertial><mass value=.../> in kg", why))
    moments = np.linalg.eigvalsh(inertia)
    if not (moments > 0).all():
        low, high = bounds(geoms)
        x, y, z = np.square(high - low)
        box = mass / 12 * np.array([y + z, x + z, x + y])
        example = ", ".join(f"{name}={value:.3g}" for name, value in zip(("ixx", "iyy", "izz"), box, strict=True))
        allowed = f"<inertia .../> with moments above 0 kg m² (a box of its size and mass has {example})"
        raise AssetError(
            bad_value("inertia", moments.round(9).tolist(), allowed, "are not principal moments of a body")
        )
    return Inertial(mass, centre, inertia)


def geom_of(element: ET.Element) -> GeomSpec:
    """Return the geom of a `<collision>` or `<visual>`."""
    geometry = element.find("geometry")
    shape = next(iter(geometry), None) if geometry is not None else None
    if shape is None or shape.tag not in GEOMETRIES:
        raise AssetError(bad_value(f"{element.tag} geometry", None if shape is None else shape.tag, GEOMETRIES))
    pose = origin_of(element)
    euler = as_vector(np.degrees(matrix_to_rpy(pose[:3, :3])))
    geom = GeomSpec(shape.tag, position=as_vector(pose[:3, 3]), euler=euler)  # type: ignore[arg-type]
    if shape.tag == "mesh":
        scale = as_vector([float(word) for word in shape.get("scale", "1 1 1").split()])
        return replace(geom, file=shape.get("filename", ""), scale=scale)
    if shape.tag == "box":
        return replace(geom, size=tuple(float(word) for word in shape.get("size", "").split()))
    keys = ("radius",) if shape.tag == "sphere" else ("radius", "length")
    return replace(geom, size=tuple(float(shape.attrib[key]) for key in keys))


def _material(element: ET.Element, known: Mapping[str, Color | None]) -> Color | None:
    material = element.find("material")
    if material is None:
        return None
    return _color_of(material) or known.get(material.get("name", ""))


def _color_of(material: ET.Element) -> Color | None:
    color = material.find("color")
    if color is None:
        return None
    r, g, b, a = (float(word) for word in color.get("rgba", "0.7 0.7 0.7 1").split())
    return r, g, b, a


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
    """m: see `mygym.robotics.shapes.SIZES`."""
    sides: int | None = None
    points: tuple[FiniteVector, ...] = ()
    file: str = ""
    scale: FiniteVector = (1.0, 1.0, 1.0)
    parts: tuple[GeomSpec, ...] = ()
    """Geoms of a compound, in place of `shape`."""
    urdf: str = ""
    """A URDF file beside this file, or `pybullet_data/...`, in place of `shape`."""
    mass: Positive | None = None
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
        return as_vector(high - low)

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
    """Return the names of the built-in objects whose files are installed."""
    missing = {entry.name for entry in registry("object") if entry.missing_extras}
    return tuple(name for name in asset_names("objects") if name not in missing)


def objects_for_hand(opening: float, wanted: ObjectSpec) -> list[str]:
    """Return the built-in objects that fit into a hand `opening` m wide in place of an object, the most similar first.

    Single blocks come before compounds and balls, which may topple and roll.
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
        return _object(Path(name), ObjectFile(urdf=str(Path(name).absolute()), name=Path(name).stem))
    path = find_asset("objects", name)
    file = read_asset(ObjectFile, path)
    category = file.category or (path.parent.name if path.is_relative_to(ASSETS) else "")
    file = replace(file, name=file.name or path.stem, category=category)
    try:
        return _object(path, file)
    except AssetError as error:
        text = str(error)
        raise AssetError(text if text.startswith(str(path)) else f"{path}: {text}") from error


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
        geoms, inertial, own = _read_urdf(find_beside(path, file.urdf), with_inertial=file.mass is None)
        friction = own if friction is None else friction
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
    geoms = with_files(geoms, path)
    for number, geom in enumerate(geoms):
        check_geom(geom, f"parts.{number}." if file.parts else "")
    return geoms


def density(spec: ObjectSpec) -> float:
    """Return the density in kg/m³; the volume of a hollow object is the volume of its walls."""
    return spec.mass / volume(spec.geoms)
