"""URDF of a fixture, and its articulated parts as the simulator needs them."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from mygym.models.fixtures import FixtureJoint, FixtureSpec, SpringSpec, base_geoms
from mygym.models.inertia import Inertial, mass_properties
from mygym.models.links import link_element
from mygym.models.transforms import matrix_to_quaternion, pose_matrix, rpy_to_matrix
from mygym.models.urdf import Joint, read_joints, read_urdf, text_of
from mygym.models.urdf_editing import add_tiny_visual, light_urdf
from mygym.models.urdf_validation import MOVING_JOINT_TYPES
from mygym.types import FloatArray, Vector

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
    x, y, z, w = matrix_to_quaternion(rpy_to_matrix(np.radians(spec.euler))).tolist()
    return spec.position, (x, y, z, w)


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
            contact = ET.SubElement(link, "contact")
            ET.SubElement(contact, "lateral_friction", value=repr(spec.friction))
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
    values = {} if dynamics is None else {key: float(value) for key, value in dynamics.attrib.items()}
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
