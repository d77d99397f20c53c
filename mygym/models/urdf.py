"""URDF trees as `ElementTree` elements: reading a file, and access to joints, links, poses and inertias."""

from __future__ import annotations

import codecs
import copy
import re
import warnings
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from mygym.errors import AssetError, bad_value
from mygym.models.mesh_lookup import MESH_PATH, find_mesh
from mygym.models.transforms import matrix_to_rpy, pose_matrix, rpy_to_matrix
from mygym.models.urdf_validation import check_urdf, link_at
from mygym.types import FloatArray, Vector

INERTIA_ENTRIES = {"ixx": (0, 0), "iyy": (1, 1), "izz": (2, 2), "ixy": (0, 1), "ixz": (0, 2), "iyz": (1, 2)}
"""Attribute of `<inertia>` → its index in the `(3, 3)` matrix."""


@dataclass(frozen=True)
class Mimic:
    """A joint that another joint follows: its position is `multiplier` times that joint's plus `offset`."""

    joint: str
    multiplier: float = 1.0
    offset: float = 0.0
    """rad or m."""


@dataclass(frozen=True)
class Joint:
    """A joint of a URDF tree. Limits are in rad or m, rad/s or m/s, and N m or N; infinite where missing."""

    name: str
    kind: str
    """Joint type of the URDF, such as `revolute`."""
    parent: str
    child: str
    origin: FloatArray
    """`(4, 4)` pose of the child frame in the parent frame at position zero."""
    axis: Vector
    """In the joint's frame."""
    lower: float
    upper: float
    effort: float
    velocity: float
    mimic: Mimic | None = None
    """The joint that this joint follows; None: none."""


_DECLARATION = re.compile(rb"""^\s*(?:<!--(?:(?!-->).)*-->\s*)*<\?xml.*?\?>""", re.DOTALL)
"""An XML declaration with the text before it; the parser refuses text before it, and the version 0.0 of some files."""

MAX_BYTES = 50_000_000
"""Maximum size of a robot's file."""


def read_urdf(path: Path) -> ET.Element:
    """Read and validate a URDF file; return its `<robot>` element with absolute mesh file names.

    Raises:
        AssetError: The file does not exist or is not XML, has no `<robot>`, invalid numbers, links that do not form a
            tree, or a missing mesh.
    """
    root = read_xml(path)
    if root.tag != "robot":
        raise AssetError(f"{path}: not a URDF file: it begins with <{root.tag}>, not with <robot>")
    try:
        check_urdf(root)
    except AssetError as error:
        raise AssetError(f"{path}: {error}") from error
    for link in root.iter("link"):
        _drop_missing_visuals(path, link)
    for mesh in root.iter("mesh"):
        mesh.set("filename", str(_find_mesh(path, mesh.get("filename", ""))))
    return root


def read_xml(path: Path) -> ET.Element:
    """Read an XML file: with a byte order mark, or with lines before the XML declaration, as well.

    Raises:
        AssetError: The file does not exist, is not XML, is very large, or declares entities.
    """
    if not path.is_file():
        raise AssetError(bad_value("urdf", str(path), "an existing file", "is not a file"))
    try:
        content = path.read_bytes()
    except OSError as error:
        raise AssetError(bad_value("urdf", str(path), "a file that can be read", f"({error})")) from error
    if len(content) > MAX_BYTES:
        raise AssetError(bad_value("urdf", str(path), f"at most {MAX_BYTES:,} bytes", f"has {len(content):,} bytes"))
    if b"<!ENTITY" in content:
        raise AssetError(bad_value("urdf", str(path), "XML without <!ENTITY>", "declares entities"))
    content = content.removeprefix(codecs.BOM_UTF8)
    match = _DECLARATION.match(content)
    if match and b"encoding" not in match.group():
        content = content[match.end() :]
    elif match:
        content = content[match.group().index(b"<?xml") :]
    try:
        content.decode()
    except UnicodeDecodeError:  # without an encoding in the declaration; such files are of old editors
        if match is None or b"encoding" not in match.group():
            content = content.decode("latin-1").encode()
    try:
        return ET.fromstring(content)  # noqa: S314  robot files that a user names are trusted
    except (ET.ParseError, ValueError, LookupError) as error:
        raise AssetError(f"{path}: not a URDF file: {error}") from error


def _drop_missing_visuals(urdf: Path, link: ET.Element) -> None:
    """Remove visuals whose mesh is missing, with a warning; a link without visuals gets its collisions as visuals."""
    visuals = link.findall("visual")
    for visual in visuals:
        for mesh in visual.iter("mesh"):
            try:
                _find_mesh(urdf, mesh.get("filename", ""))
            except AssetError as error:
                warnings.warn(f"{error}; the link's collisions are drawn", stacklevel=2)
                link.remove(visual)
                break
    if visuals and link.find("visual") is None:
        draw_collisions(link)


def draw_collisions(link: ET.Element) -> None:
    """Add copies of a link's collisions as visuals, in place."""
    for collision in link.findall("collision"):
        drawn = copy.deepcopy(collision)
        drawn.tag = "visual"
        link.append(drawn)


def _find_mesh(urdf: Path, name: str) -> Path:
    """Return the file of a mesh.

    Raises:
        AssetError: It is not found.
    """
    file = find_mesh(urdf, name)
    if file is None:
        allowed = f"a file in a folder above {urdf.name}, in ROS_PACKAGE_PATH, or below {MESH_PATH}"
        raise AssetError(f"{urdf}: {bad_value('mesh filename', name, allowed, 'is not a file')}")
    return file


def read_joints(root: ET.Element) -> dict[str, Joint]:
    """Return all joints by name."""
    return {joint.name: joint for joint in map(_read_joint, root.findall("joint"))}


def _read_joint(element: ET.Element) -> Joint:
    limit, axis, mimic = element.find("limit"), element.find("axis"), element.find("mimic")
    values = {} if limit is None else {key: float(value) for key, value in limit.attrib.items()}
    x, y, z = _numbers("1 0 0" if axis is None else axis.get("xyz", "1 0 0"))
    return Joint(
        name=element.get("name", ""),
        kind=element.get("type", ""),
        parent=link_at(element, "parent"),
        child=link_at(element, "child"),
        origin=origin_of(element),
        axis=(x, y, z),
        lower=values.get("lower", -np.inf),
        upper=values.get("upper", np.inf),
        effort=values.get("effort", np.inf),
        velocity=values.get("velocity", np.inf),
        mimic=None if mimic is None else _read_mimic(mimic),
    )


def _read_mimic(element: ET.Element) -> Mimic:
    multiplier, offset = (float(element.get(key, default)) for key, default in (("multiplier", "1"), ("offset", "0")))
    return Mimic(element.get("joint", ""), multiplier, offset)


def links_of(root: ET.Element) -> list[str]:
    """Return the names of all links."""
    return [link.get("name", "") for link in root.findall("link")]


def root_link(root: ET.Element) -> str:
    """Return the name of the link without a parent joint.

    Raises:
        AssetError: No link or several links have no parent joint.
    """
    children = {link_at(joint, "child") for joint in root.findall("joint")}
    roots = [name for name in links_of(root) if name not in children]
    if len(roots) != 1:
        raise AssetError(f"a URDF has one root link, this URDF has {len(roots)}: {', '.join(roots)}")
    return roots[0]


def inertial(link: ET.Element) -> tuple[float, FloatArray, FloatArray]:
    """Return mass in kg, centre of mass `(3,)` m and inertia `(3, 3)` kg m² about it, both in the link's frame."""
    element = link.find("inertial")
    mass = None if element is None else element.find("mass")
    tensor = None if element is None else element.find("inertia")
    if element is None or mass is None or tensor is None:
        return 0.0, np.zeros(3), np.zeros((3, 3))
    pose = origin_of(element)
    value = {key: float(number) for key, number in tensor.attrib.items()}
    ixy, ixz, iyz = (value.get(key, 0.0) for key in ("ixy", "ixz", "iyz"))
    inertia = np.array([[value["ixx"], ixy, ixz], [ixy, value["iyy"], iyz], [ixz, iyz, value["izz"]]])
    return float(mass.get("value", "0")), pose[:3, 3], pose[:3, :3] @ inertia @ pose[:3, :3].T


def set_inertial(link: ET.Element, mass: float, centre: FloatArray, inertia: FloatArray) -> None:
    """Set a link's `<inertial>`: kg, centre of mass `(3,)` m and inertia `(3, 3)` kg m², both in the link's frame."""
    old = link.find("inertial")
    if old is not None:
        link.remove(old)
    element = ET.SubElement(link, "inertial")
    ET.SubElement(element, "origin", xyz=text_of(centre), rpy="0 0 0")
    ET.SubElement(element, "mass", value=repr(float(mass)))
    ET.SubElement(element, "inertia", {name: repr(float(inertia[at])) for name, at in INERTIA_ENTRIES.items()})


def _numbers(text: str) -> list[float]:
    return [float(word) for word in text.split()]


def text_of(values: ArrayLike) -> str:
    """Return numbers as a URDF attribute, exact to the last digit."""
    return " ".join(repr(float(value)) for value in np.asarray(values, dtype=float))


def origin_of(element: ET.Element) -> FloatArray:
    """Return the `(4, 4)` pose of an element's `<origin>`."""
    origin = element.find("origin")
    if origin is None:
        return np.eye(4)
    rotation = rpy_to_matrix(np.array(_numbers(origin.get("rpy", "0 0 0"))))
    return pose_matrix(np.array(_numbers(origin.get("xyz", "0 0 0"))), rotation)


def set_origin(element: ET.Element, pose: FloatArray) -> None:
    """Set an element's `<origin>` to a `(4, 4)` pose."""
    origin = element.find("origin")
    if origin is None:
        origin = ET.SubElement(element, "origin")
    origin.set("xyz", text_of(pose[:3, 3]))
    origin.set("rpy", text_of(matrix_to_rpy(pose[:3, :3])))
