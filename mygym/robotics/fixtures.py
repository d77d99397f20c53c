"""Fixtures of a workspace: geoms and articulated parts such as drawers and levers; their checks and URDF."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from mygym.errors import AssetError, bad_value
from mygym.robotics.assets import STRICT, Color, FiniteVector, NonNegative, Number, Positive, find_beside
from mygym.robotics.inertia import Inertial, mass_properties
from mygym.robotics.links import link_element
from mygym.robotics.shapes import GeomSpec, Shape, check_geom, with_files
from mygym.robotics.transforms import as_quaternion, pose_matrix, rpy_to_matrix
from mygym.robotics.urdf import (
    MOVING_JOINT_TYPES,
    Joint,
    add_tiny_visual,
    light_urdf,
    numbers_of,
    read_joints,
    read_urdf,
    text_of,
)
from mygym.types import FloatArray, Vector


@dataclass(frozen=True)
class SpringSpec:
    """A spring that pulls to its rest position."""

    __pydantic_config__ = STRICT

    stiffness: Positive
    """N/m along a slide, N m/rad about a hinge."""
    rest: Number = 0.0
    """m or rad: position without force."""


@dataclass(frozen=True)
class FixtureJoint:
    """Articulated part of a fixture: a drawer, a door or a lever.

    Positions are in the fixture's frame, with the joint at zero. The part does not collide with the rest of its
    fixture; `range` stops it.
    """

    __pydantic_config__ = STRICT

    type: Literal["slide", "hinge"]
    axis: FiniteVector
    """Direction of sliding, or of rotation by the right-hand rule; any length but zero."""
    range: tuple[Number, Number]
    """Lowest and highest position: m of a slide, rad of a hinge."""
    parts: tuple[GeomSpec, ...]
    """Geoms that move."""
    mass: Positive
    """kg, of all geoms together."""
    handle: FiniteVector
    """m: point at which it is gripped."""
    force: Positive
    """N along a slide, N m about a hinge: moves the part from end to end, which `mygym check workspace` verifies."""
    pivot: FiniteVector = (0.0, 0.0, 0.0)
    """m: a point on a hinge's axis."""
    rest: Number = 0.0
    """m or rad: position after a reset."""
    friction: NonNegative = 0.0
    """N or N m: dry friction, which holds the position."""
    damping: NonNegative = 0.0
    """N s/m or N m s/rad."""
    spring: SpringSpec | None = None


@dataclass(frozen=True)
class FixtureSpec:
    """Fixture of a workspace: one shape, several shapes, or a URDF. Its base is fixed; its joints move."""

    __pydantic_config__ = STRICT

    shape: Shape = "box"
    size: tuple[NonNegative, ...] = ()
    """m, of a single shape: edges along x, y, z of a box; see `mygym.robotics.shapes.SIZES`."""
    parts: tuple[GeomSpec, ...] = ()
    """Geoms of several shapes, in the fixture's frame."""
    joints: dict[str, FixtureJoint] = field(default_factory=dict)
    """Articulated parts by name."""
    urdf: str = ""
    """In place of shapes and joints: a file beside the YAML, or `pybullet_data/...`. Absolute after loading."""
    handles: dict[str, FiniteVector] = field(default_factory=dict)
    """m, of a URDF: joint → point at which its child link is gripped, in that link's frame; by default the origin."""
    position: FiniteVector = (0.0, 0.0, 0.0)
    """m: the frame's origin in the world; the centre of a single shape."""
    euler: FiniteVector = (0.0, 0.0, 0.0)
    """Degrees about the fixed axes x, y, z in this order: URDF's roll, pitch and yaw."""
    friction: NonNegative = 0.8
    """Friction of the surfaces; ignored for a URDF."""
    color: Color = (0.7, 0.7, 0.7, 1.0)
    """Default colour of the geoms."""
    collides: bool = True
    """False for a visual fixture."""
    visible: bool = True
    """False for an invisible fixture, such as a panel in place of a net."""


def base_geoms(spec: FixtureSpec) -> tuple[GeomSpec, ...]:
    """Return the geoms of a fixture that do not move, in its frame."""
    return spec.parts or ((GeomSpec(spec.shape, spec.size),) if spec.size else ())


def with_absolute_files(spec: FixtureSpec, path: Path) -> FixtureSpec:
    """Return the fixture of a YAML file `path` with absolute file names; see `find_beside`."""
    return replace(
        spec,
        urdf=spec.urdf and str(find_beside(path, spec.urdf)),
        parts=with_files(spec.parts, path),
        joints={name: replace(joint, parts=with_files(joint.parts, path)) for name, joint in spec.joints.items()},
    )


URDF_JOINT_TYPES = {"slide": "prismatic", "hinge": "revolute"}
"""Type of a fixture's joint → joint type in URDF."""


@dataclass(frozen=True, eq=False)
class ArticulatedPart:
    """Articulated part of a fixture, as the simulator needs it."""

    name: str
    """Name of its joint in the URDF."""
    handle: Vector
    """m, in the frame of the moved link."""
    axis: Vector
    """Unit vector in the frame of the moved link; for a hinge through its origin."""
    slides: bool
    """Whether the part slides along the axis; else it rotates about the axis."""
    lower: float
    upper: float
    rest: float
    """m or rad."""
    force: float | None
    """N or N m; None if the URDF has no limit."""
    friction: float
    """N or N m."""
    spring: SpringSpec | None
    lifts: bool
    """Whether its weight acts along the joint; otherwise it is simulated without weight, which is cheaper."""


def fixture_pose(spec: FixtureSpec) -> tuple[Vector, tuple[float, float, float, float]]:
    """Return a fixture's position in m and orientation as a quaternion, in the world."""
    return spec.position, as_quaternion(rpy_to_matrix(np.radians(spec.euler)))


def fixture_urdf(spec: FixtureSpec, keep: Literal["collision", "visual"]) -> str:
    """Return the URDF text of a fixture with only its collisions, or only its visuals."""
    if spec.urdf:
        return light_urdf(read_urdf(Path(spec.urdf)), keep)
    kept = {"collisions": keep == "collision", "visuals": keep == "visual"}
    root = ET.Element("robot", name="fixture")
    links = [link_element("base", base_geoms(spec), spec.color, Inertial(1.0, np.zeros(3), np.eye(3)), **kept)]
    for name, joint in spec.joints.items():
        frame = pose_matrix([-value for value in _origin(joint)], np.eye(3))
        inertial = mass_properties(joint.parts, joint.mass)
        links.append(link_element(name, joint.parts, spec.color, inertial, **kept, origin=frame))
        element = ET.SubElement(root, "joint", name=name, type=URDF_JOINT_TYPES[joint.type])
        ET.SubElement(element, "parent", link="base")
        ET.SubElement(element, "child", link=name)
        ET.SubElement(element, "origin", xyz=text_of(_origin(joint)))
        ET.SubElement(element, "axis", xyz=text_of(np.array(joint.axis) / np.linalg.norm(joint.axis)))
        lower, upper = map(repr, joint.range)
        ET.SubElement(element, "limit", lower=lower, upper=upper, effort=repr(joint.force), velocity="10")
        ET.SubElement(element, "dynamics", damping=repr(joint.damping), friction=repr(joint.friction))
    for link in links:
        if keep == "collision":
            ET.SubElement(ET.SubElement(link, "contact"), "lateral_friction", value=repr(spec.friction))
            add_tiny_visual(link)
    root[:0] = links
    return ET.tostring(root, encoding="unicode")


def articulated_parts(spec: FixtureSpec) -> tuple[ArticulatedPart, ...]:
    """Return the articulated parts of a fixture, in the order of its joints."""
    if spec.urdf:
        root = ET.fromstring(fixture_urdf(spec, "collision"))  # noqa: S314  written by us
        dynamics = {joint.get("name"): joint.find("dynamics") for joint in root.findall("joint")}
        moving = [joint for joint in read_joints(root).values() if joint.kind in MOVING_JOINT_TYPES]
        return tuple(_from_urdf(spec, joint, dynamics[joint.name]) for joint in moving)
    rotation = rpy_to_matrix(np.radians(spec.euler))
    return tuple(_from_joint(name, joint, rotation) for name, joint in spec.joints.items())


def _from_joint(name: str, joint: FixtureJoint, rotation: FloatArray) -> ArticulatedPart:
    x, y, z = (handle - origin for handle, origin in zip(joint.handle, _origin(joint), strict=True))
    verticality = abs((rotation @ np.array(joint.axis))[2]) / float(np.linalg.norm(joint.axis))
    return ArticulatedPart(
        name,
        (x, y, z),
        _unit(joint.axis),
        joint.type == "slide",
        *joint.range,
        rest=joint.rest,
        force=joint.force,
        friction=joint.friction,
        spring=joint.spring,
        lifts=verticality > 1e-6 if joint.type == "slide" else verticality < 1 - 1e-9,
    )


def _from_urdf(spec: FixtureSpec, joint: Joint, dynamics: ET.Element | None) -> ArticulatedPart:
    values = numbers_of(dynamics)
    lower, upper = (-np.inf, np.inf) if joint.kind == "continuous" else (joint.lower, joint.upper)
    return ArticulatedPart(
        joint.name,
        spec.handles.get(joint.name, (0.0, 0.0, 0.0)),
        _unit(joint.axis),
        joint.kind == "prismatic",
        lower,
        upper,
        rest=min(max(0.0, lower), upper),
        force=joint.effort if 0 < joint.effort < np.inf else None,
        friction=values.get("friction", 0.0),
        spring=None,
        lifts=True,
    )


def _unit(axis: Sequence[float]) -> Vector:
    x, y, z = axis
    length = math.hypot(x, y, z)
    return x / length, y / length, z / length


def _origin(joint: FixtureJoint) -> Vector:
    """Return the origin of the moved link's frame in the fixture's frame, with the joint at zero."""
    return joint.pivot if joint.type == "hinge" else (0.0, 0.0, 0.0)


def check_fixture(spec: FixtureSpec, key: str) -> None:
    """Validate a fixture with absolute file names; `key` begins the keys in messages, such as `fixtures.cabinet.`.

    Raises:
        AssetError: None or several of size, parts and urdf; a wrong size; an axis without direction; a reversed range;
            a rest position outside it; or a URDF that is invalid or lacks a named joint.
    """
    sources = [name for name, value in (("size", spec.size), ("parts", spec.parts), ("urdf", spec.urdf)) if value]
    if len(sources) > 1 or not (sources or spec.joints):
        raise AssetError(bad_value(key.removesuffix("."), sources, "exactly one of size, parts, urdf"))
    if spec.joints and spec.urdf:
        raise AssetError(bad_value(f"{key}joints", list(spec.joints), "no joints beside a urdf"))
    for name in ("collides", "visible"):
        if (spec.joints or spec.urdf) and not getattr(spec, name):
            raise AssetError(bad_value(f"{key}{name}", False, "true for a fixture with joints or a urdf"))
    for index, geom in enumerate(base_geoms(spec)):
        check_geom(geom, key if spec.size else f"{key}parts.{index}.")
    for name, joint in spec.joints.items():
        _check_joint(joint, f"{key}joints.{name}.")
    if not spec.urdf:
        if spec.handles:
            raise AssetError(
                bad_value(f"{key}handles", list(spec.handles), "a fixture with a urdf; else `joints` have handles")
            )
        return
    moving = [part.name for part in articulated_parts(spec)]
    for name in spec.handles:
        if name not in moving:
            raise AssetError(bad_value(f"{key}handles", name, moving, "is not a moving joint of the URDF"))


def _check_joint(joint: FixtureJoint, key: str) -> None:
    lower, upper = joint.range
    if not any(joint.axis):
        raise AssetError(bad_value(f"{key}axis", list(joint.axis), "a direction"))
    if not lower < upper:
        raise AssetError(bad_value(f"{key}range", list(joint.range), "the lowest position, then the highest"))
    if not lower <= joint.rest <= upper:
        raise AssetError(bad_value(f"{key}rest", joint.rest, f"{lower:g} to {upper:g}, the range"))
    if joint.force <= joint.friction:
        raise AssetError(bad_value(f"{key}force", joint.force, f"more than the friction of {joint.friction:g}"))
    if not joint.parts:
        raise AssetError(bad_value(f"{key}parts", [], "at least one shape"))
    for index, geom in enumerate(joint.parts):
        check_geom(geom, f"{key}parts.{index}.")
    mass_properties(joint.parts, joint.mass, f"{key}mass")
