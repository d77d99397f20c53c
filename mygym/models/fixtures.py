"""What stands in a workspace, as data: shapes put together, and what of them slides or turns."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from mygym.errors import AssetError, bad_value
from mygym.models.assets import STRICT, Color, Number, Vector
from mygym.models.inertia import Inertial, mass_properties
from mygym.models.links import link_element
from mygym.models.shapes import PartSpec, Shape, check_part
from mygym.models.transforms import matrix_to_quaternion, pose_matrix, rpy_to_matrix
from mygym.models.urdf import DYNAMIC, Joint, light_urdf, read_joints, read_urdf

Positive = Annotated[Number, Field(gt=0)]
NonNegative = Annotated[Number, Field(ge=0)]

KINDS = {"slide": "prismatic", "hinge": "revolute"}
"""What URDF calls the types of joints."""


@dataclass(frozen=True)
class SpringSpec:
    """A spring that pulls to where it rests."""

    __pydantic_config__ = STRICT

    stiffness: Positive
    """N/m along a slide, N m/rad about a hinge."""
    rest: Number = 0.0
    """m or rad: where it does not pull."""


@dataclass(frozen=True)
class FixtureJoint:
    """What of a fixture moves along or about an axis: a drawer, a door, a lever.

    Positions are in the fixture's frame, with the joint at zero. It passes through the rest of its fixture: the range
    stops it.
    """

    __pydantic_config__ = STRICT

    type: Literal["slide", "hinge"]
    axis: Vector
    """Direction along which it slides, or about which it turns by the right-hand rule; of any length but zero."""
    range: tuple[Number, Number]
    """m of a slide, rad of a hinge: lowest and highest position."""
    parts: tuple[PartSpec, ...]
    """The shapes that move."""
    mass: Positive
    """kg: of all parts together."""
    handle: Vector
    """m: where it is taken hold of."""
    force: Positive
    """N along a slide, N m about a hinge: what moves it from end to end; `mygym check workspace` tries."""
    pivot: Vector = (0.0, 0.0, 0.0)
    """m: a point on a hinge's axis."""
    rest: Number = 0.0
    """m or rad: where it is after a reset."""
    friction: NonNegative = 0.0
    """N or N m: dry friction, which keeps it where it was left."""
    damping: NonNegative = 0.0
    """N s/m or N m s/rad."""
    spring: SpringSpec | None = None


@dataclass(frozen=True)
class FixtureSpec:
    """What stands in a workspace: a shape, several shapes, or a URDF. Its base never moves; its joints do."""

    __pydantic_config__ = STRICT

    shape: Shape = "box"
    size: tuple[NonNegative, ...] = ()
    """m, of a fixture of one shape: edges along x, y, z of a box; see `mygym.models.shapes.SIZES`."""
    parts: tuple[PartSpec, ...] = ()
    """Of a fixture of several shapes, in its frame."""
    joints: dict[str, FixtureJoint] = field(default_factory=dict)
    """What of it moves, by name."""
    urdf: str = ""
    """In place of shapes and joints: a file beside the YAML, or `pybullet_data/...`. Absolute once loaded."""
    handles: dict[str, Vector] = field(default_factory=dict)
    """m, of a URDF: joint → where its child link is taken hold of, in that link's frame (without it the origin)."""
    position: Vector = (0.0, 0.0, 0.0)
    """m: the frame's origin in the world; the centre of a single shape."""
    euler: Vector = (0.0, 0.0, 0.0)
    """Degrees about the fixed axes x, y, z in this order: URDF's roll, pitch and yaw."""
    friction: NonNegative = 0.8
    """Of its surfaces; of a URDF what that says."""
    color: Color = (0.7, 0.7, 0.7, 1.0)
    """Of parts that have none of their own."""
    collides: bool = True
    """False for what is only seen."""
    visible: bool = True
    """False for what is only felt, such as a panel in the place of a net."""


@dataclass(frozen=True, eq=False)
class Movable:
    """A joint of a fixture, as the engine needs it."""

    name: str
    """In the URDF."""
    handle: Vector
    """m, in the frame of the link that it moves."""
    axis: Vector
    """Unit vector in that frame, whose origin is on the axis of a hinge."""
    slides: bool
    """Along the axis; or else it turns about it."""
    lower: float
    upper: float
    rest: float
    """m or rad."""
    force: float | None
    """N or N m; None: the URDF's limit says none."""
    friction: float
    """N or N m."""
    spring: SpringSpec | None
    lifts: bool
    """Whether its weight works along it; others carry none, which is cheaper."""


def with_files(spec: FixtureSpec, folder: Path) -> FixtureSpec:
    """The fixture with the files that it names made absolute; those in `pybullet_data/` are in that package."""
    return replace(
        spec,
        urdf=spec.urdf and _file(spec.urdf, folder),
        parts=_with_files(spec.parts, folder),
        joints={name: replace(one, parts=_with_files(one.parts, folder)) for name, one in spec.joints.items()},
    )


def _with_files(parts: tuple[PartSpec, ...], folder: Path) -> tuple[PartSpec, ...]:
    return tuple(replace(part, file=_file(part.file, folder)) if part.file else part for part in parts)


def _file(name: str, folder: Path) -> str:
    beside = folder / name
    if not beside.is_file() and name.startswith("pybullet_data/"):
        return str(Path(import_module("pybullet_data").getDataPath()) / name.removeprefix("pybullet_data/"))
    return str(beside.resolve())


def check_fixture(spec: FixtureSpec, key: str) -> None:
    """Refuse a fixture that cannot be.

    Args:
        spec: What the file says, with absolute file names.
        key: Where it says so, with its dot: `fixtures.cabinet.`.

    Raises:
        AssetError: No shape or two kinds of them, a wrong size, an axis without direction, a range the wrong way
            round, a rest outside it, a URDF that cannot be read or lacks a joint that is named.
    """
    said = [name for name, value in (("size", spec.size), ("parts", spec.parts), ("urdf", spec.urdf)) if value]
    if len(said) > 1 or not (said or spec.joints):
        raise AssetError(bad_value(f"{key.removesuffix('.')}", said, "one of size, parts, urdf", "is not one of them"))
    if spec.joints and spec.urdf:
        raise AssetError(bad_value(f"{key}joints", list(spec.joints), "nothing beside a urdf, which has its own"))
    for name in ("collides", "visible"):
        if (spec.joints or spec.urdf) and not getattr(spec, name):
            raise AssetError(bad_value(f"{key}{name}", False, "true for a fixture with joints or a urdf"))
    for index, part in enumerate(base_parts(spec)):
        check_part(part, key if spec.size else f"{key}parts.{index}.")
    for name, joint in spec.joints.items():
        _check_joint(joint, f"{key}joints.{name}.")
    if not spec.urdf:
        if spec.handles:
            raise AssetError(bad_value(f"{key}handles", list(spec.handles), "a fixture with a urdf: joints say theirs"))
        return
    moving = [one.name for one in movables(spec)]
    for name in spec.handles:
        if name not in moving:
            raise AssetError(bad_value(f"{key}handles", name, moving, "is not a joint of the URDF that moves"))


def _check_joint(joint: FixtureJoint, key: str) -> None:
    lower, upper = joint.range
    if not any(joint.axis):
        raise AssetError(bad_value(f"{key}axis", list(joint.axis), "a direction"))
    if not lower < upper:
        raise AssetError(bad_value(f"{key}range", list(joint.range), "the lowest position, then the highest"))
    if not lower <= joint.rest <= upper:
        raise AssetError(bad_value(f"{key}rest", joint.rest, f"{lower:g} to {upper:g}, its range"))
    if joint.force <= joint.friction:
        raise AssetError(bad_value(f"{key}force", joint.force, f"more than the friction of {joint.friction:g}"))
    if not joint.parts:
        raise AssetError(bad_value(f"{key}parts", [], "one shape at least"))
    for index, part in enumerate(joint.parts):
        check_part(part, f"{key}parts.{index}.")
    mass_properties(joint.parts, joint.mass, f"{key}mass")


def base_parts(spec: FixtureSpec) -> tuple[PartSpec, ...]:
    """The shapes of a fixture that never move, in its frame."""
    return spec.parts or ((PartSpec(spec.shape, spec.size),) if spec.size else ())


def fixture_pose(spec: FixtureSpec) -> tuple[Vector, tuple[float, float, float, float]]:
    """Position in m and quaternion in the world."""
    x, y, z, w = matrix_to_quaternion(rpy_to_matrix(np.radians(spec.euler))).tolist()
    return spec.position, (x, y, z, w)


def fixture_urdf(spec: FixtureSpec, keep: Literal["collision", "visual"]) -> str:
    """The text of a fixture's URDF with only its collisions, or only what is seen of it."""
    if spec.urdf:
        return light_urdf(read_urdf(Path(spec.urdf)), keep)
    kept = {"collisions": keep == "collision", "visuals": keep == "visual"}
    root = ET.Element("robot", name="fixture")
    links = [link_element("base", base_parts(spec), spec.color, Inertial(1.0, np.zeros(3), np.eye(3)), **kept)]
    for name, joint in spec.joints.items():
        frame = pose_matrix([-value for value in _origin(joint)], np.eye(3))
        inertial = mass_properties(joint.parts, joint.mass)
        links.append(link_element(name, joint.parts, spec.color, inertial, **kept, origin=frame))
        element = ET.SubElement(root, "joint", name=name, type=KINDS[joint.type])
        ET.SubElement(element, "parent", link="base")
        ET.SubElement(element, "child", link=name)
        ET.SubElement(element, "origin", xyz=" ".join(map(repr, _origin(joint))))
        axis = np.array(joint.axis) / np.linalg.norm(joint.axis)
        ET.SubElement(element, "axis", xyz=" ".join(map(repr, axis.tolist())))
        lower, upper = map(repr, joint.range)
        ET.SubElement(element, "limit", lower=lower, upper=upper, effort=repr(joint.force), velocity="10")
        ET.SubElement(element, "dynamics", damping=repr(joint.damping), friction=repr(joint.friction))
    for link in links:
        if keep == "collision":
            contact = ET.SubElement(link, "contact")
            ET.SubElement(contact, "lateral_friction", value=repr(spec.friction))
            visual = ET.SubElement(link, "visual")  # without one Bullet tessellates the shapes
            ET.SubElement(ET.SubElement(visual, "geometry"), "box", size="0.0002 0.0002 0.0002")
    root[:0] = links
    return ET.tostring(root, encoding="unicode")


def movables(spec: FixtureSpec) -> tuple[Movable, ...]:
    """What of a fixture moves, in the order of its joints."""
    if spec.urdf:
        root = ET.fromstring(fixture_urdf(spec, "collision"))  # noqa: S314  ours
        dynamics = {joint.get("name"): joint.find("dynamics") for joint in root.findall("joint")}
        moving = [joint for joint in read_joints(root).values() if joint.kind in DYNAMIC]
        return tuple(_of_urdf(spec, joint, dynamics[joint.name]) for joint in moving)
    turned = rpy_to_matrix(np.radians(spec.euler))
    return tuple(_of_joint(name, joint, turned) for name, joint in spec.joints.items())


def _of_joint(name: str, joint: FixtureJoint, turned: NDArray[np.float64]) -> Movable:
    x, y, z = (at - start for at, start in zip(joint.handle, _origin(joint), strict=True))
    upright = abs((turned @ np.array(joint.axis))[2]) / float(np.linalg.norm(joint.axis))
    return Movable(
        name,
        (x, y, z),
        _unit(joint.axis),
        joint.type == "slide",
        *joint.range,
        rest=joint.rest,
        force=joint.force,
        friction=joint.friction,
        spring=joint.spring,
        lifts=upright > 1e-6 if joint.type == "slide" else upright < 1 - 1e-9,
    )


def _of_urdf(spec: FixtureSpec, joint: Joint, dynamics: ET.Element | None) -> Movable:
    said = {} if dynamics is None else {key: float(value) for key, value in dynamics.attrib.items()}
    lower, upper = (-np.inf, np.inf) if joint.kind == "continuous" else (joint.lower, joint.upper)
    return Movable(
        joint.name,
        spec.handles.get(joint.name, (0.0, 0.0, 0.0)),
        _unit(joint.axis),
        joint.kind == "prismatic",
        lower,
        upper,
        rest=min(max(0.0, lower), upper),
        force=joint.effort if 0 < joint.effort < np.inf else None,
        friction=said.get("friction", 0.0),
        spring=None,
        lifts=True,
    )


def _unit(axis: Sequence[float]) -> Vector:
    x, y, z = axis
    length = math.hypot(x, y, z)
    return x / length, y / length, z / length


def _origin(joint: FixtureJoint) -> Vector:
    """Where the moved link's frame is in the fixture's, at zero."""
    return joint.pivot if joint.type == "hinge" else (0.0, 0.0, 0.0)
