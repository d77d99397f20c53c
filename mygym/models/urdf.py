"""URDF made light: fixed joints merged with correct inertias, and either collisions or visuals kept.

Bullet's own `URDF_MERGE_FIXED_LINKS` adds masses without moving centres of mass, so merging is done here.
"""

from __future__ import annotations

import copy
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mygym.errors import AssetError, bad_value
from mygym.models.transforms import axis_angle_to_matrix, matrix_to_rpy, pose_matrix, rpy_to_matrix

Matrix = NDArray[np.float64]

DYNAMIC = ("revolute", "continuous", "prismatic")
KINDS = (*DYNAMIC, "fixed", "floating", "planar", "spherical")
"""Of joints: the format's, and Bullet's `spherical`."""

NUMBERS = {
    "origin": {"xyz": 3, "rpy": 3},
    "axis": {"xyz": 3},
    "mass": {"value": 1},
    "inertia": dict.fromkeys(("ixx", "iyy", "izz", "ixy", "ixz", "iyz"), 1),
    "limit": dict.fromkeys(("lower", "upper", "effort", "velocity"), 1),
    "box": {"size": 3},
    "cylinder": {"radius": 1, "length": 1},
    "capsule": {"radius": 1, "length": 1},
    "sphere": {"radius": 1},
    "mesh": {"scale": 3},
}
"""Element → attribute → how many numbers it holds."""

NAMING = {"link": "name", "joint": "name", "material": "name", "parent": "link", "child": "link", "mimic": "joint"}
"""Attributes of elements that name a link, a joint or a material."""


@dataclass(frozen=True)
class Joint:
    """A joint of a URDF tree; `origin` is the 4 x 4 pose of the child frame in the parent frame at position zero."""

    name: str
    kind: str
    parent: str
    child: str
    origin: Matrix
    axis: tuple[float, float, float]
    lower: float
    upper: float
    effort: float
    velocity: float
    mimics: bool


def read_urdf(path: Path) -> ET.Element:
    """The `<robot>` element, with mesh file names made absolute.

    Raises:
        AssetError: no such file, not XML, no `<robot>`, words in place of numbers, joints that do not make a tree of
            the links, or a mesh that does not exist.
    """
    if not path.is_file():
        raise AssetError(bad_value("urdf", str(path), "an existing file", "is not a file"))
    try:
        root = ET.parse(path).getroot()  # noqa: S314  the robot files that a user names are trusted
    except ET.ParseError as error:
        raise AssetError(f"{path}: not a URDF file: {error}") from error
    if root.tag != "robot":
        raise AssetError(f"{path}: not a URDF file: it begins with <{root.tag}>, not with <robot>")
    try:
        _check_numbers(root)
        _check_tree(root)
    except AssetError as error:
        raise AssetError(f"{path}: {error}") from error
    for mesh in root.iter("mesh"):
        name = mesh.get("filename", "")
        mesh.set("filename", str(_find_mesh(path, name)))
    return root


def _check_numbers(root: ET.Element) -> None:
    for part in (*root.findall("link"), *root.findall("joint")):
        where = f"{part.tag} {part.get('name', '')}"
        for element in part.iter():
            for key, count in NUMBERS.get(element.tag, {}).items():
                text = element.get(key)
                if text is not None and not _are_numbers(text, count):
                    allowed = "a number" if count == 1 else f"{count} numbers"
                    raise AssetError(bad_value(f"{where}: {element.tag} {key}", text, allowed))
            if element.tag == "inertia" and not {"ixx", "iyy", "izz"} <= set(element.keys()):
                raise AssetError(bad_value(f"{where}: inertia", element.attrib, "ixx, iyy and izz", "lacks a moment"))


def _are_numbers(text: str, count: int) -> bool:
    try:
        return len(_numbers(text)) == count
    except ValueError:
        return False


def _check_tree(root: ET.Element) -> None:
    links, above = links_of(root), {}
    for element in root.findall("joint"):
        name, kind = element.get("name", ""), element.get("type", "")
        if kind not in KINDS:
            raise AssetError(bad_value(f"joint {name}: type", kind, KINDS))
        for end in ("parent", "child"):
            if _link_of(element, end) not in links:
                raise AssetError(bad_value(f"joint {name}: {end}", _link_of(element, end), links, "is not a link"))
        child = _link_of(element, "child")
        if child in above:
            raise AssetError(bad_value(f"joint {name}: child", child, "one joint for each link", "hangs on two joints"))
        above[child] = _link_of(element, "parent")
        if kind in DYNAMIC and not any(_read_joint(element).axis):
            raise AssetError(bad_value(f"joint {name}: axis", "0 0 0", "a direction, such as '0 0 1'"))
    for link in links:
        way = [link]
        while way[-1] in above:
            way.append(above[way[-1]])
            if way[-1] == link:
                raise AssetError(bad_value("joint", " - ".join(way), "a tree of links", "goes in a circle"))


def _find_mesh(urdf: Path, name: str) -> Path:
    """Resolve a mesh beside the URDF; `package://` is looked up in every folder above it."""
    relative = name.removeprefix("package://")
    folders = urdf.parents if name.startswith("package://") else (urdf.parent,)
    for folder in folders:
        if (folder / relative).is_file():
            return folder / relative
    raise AssetError(f"{urdf}: {bad_value('mesh filename', name, f'a file below {urdf.parent}', 'is not a file')}")


def read_joints(root: ET.Element) -> dict[str, Joint]:
    """All joints by name."""
    return {joint.name: joint for joint in map(_read_joint, root.findall("joint"))}


def _read_joint(element: ET.Element) -> Joint:
    limit, axis = element.find("limit"), element.find("axis")
    values = {} if limit is None else {key: float(value) for key, value in limit.attrib.items()}
    x, y, z = _numbers("1 0 0" if axis is None else axis.get("xyz", "1 0 0"))
    return Joint(
        name=element.get("name", ""),
        kind=element.get("type", ""),
        parent=_link_of(element, "parent"),
        child=_link_of(element, "child"),
        origin=origin_of(element),
        axis=(x, y, z),
        lower=values.get("lower", -np.inf),
        upper=values.get("upper", np.inf),
        effort=values.get("effort", np.inf),
        velocity=values.get("velocity", np.inf),
        mimics=element.find("mimic") is not None,
    )


def light_urdf(root: ET.Element, keep: str) -> str:
    """The text of the same robot with fixed joints merged and only its collisions or its visuals kept.

    Args:
        root: From `read_urdf`; not changed.
        keep: `"collision"` for a physics client (each link then gets a speck of a visual, see `TINY_BOX`),
            `"visual"` for a client that only draws.
    """
    root = copy.deepcopy(root)
    for link in root.findall("link"):
        for shape in link.findall("visual" if keep == "collision" else "collision"):
            link.remove(shape)
    merge_fixed_joints(root)
    if keep == "collision":
        for link in root.findall("link"):
            if link.find("collision") is not None:
                visual = ET.SubElement(link, "visual")
                ET.SubElement(ET.SubElement(visual, "geometry"), "box", size="0.0002 0.0002 0.0002")
    return ET.tostring(root, encoding="unicode")


def lock_joints(root: ET.Element, positions: dict[str, float]) -> None:
    """Turn joints into fixed ones at the given positions (rad or m), in place: the motor solver then has less to do."""
    for element in root.findall("joint"):
        joint = _read_joint(element)
        if joint.name not in positions:
            continue
        position, axis = positions[joint.name], np.array(joint.axis)
        moved = np.eye(4)
        if joint.kind == "prismatic":
            moved[:3, 3] = position * axis
        else:
            moved[:3, :3] = axis_angle_to_matrix(axis, position)
        set_origin(element, joint.origin @ moved)
        element.set("type", "fixed")


def attach(root: ET.Element, tool: ET.Element, link: str, pose: Matrix) -> None:
    """Fix another URDF's tree to a link, in place.

    Args:
        root: From `read_urdf`; changed.
        tool: From `read_urdf`; its elements go over to `root`.
        link: Of `root`, which carries the tool.
        pose: `(4, 4)` of the tool's root link in the frame of `link`.

    Raises:
        AssetError: A link or joint of this name is there already.
    """
    for kind in ("link", "joint"):
        taken = {element.get("name") for element in root.findall(kind)}
        twice = next((element.get("name") for element in tool.findall(kind) if element.get("name") in taken), None)
        if twice is not None:
            allowed = f"a tool whose {kind}s have names of their own, or a prefix"
            raise AssetError(bad_value("mounts", twice, allowed, "is there twice"))
    joint = ET.SubElement(root, "joint", name=f"{link}_to_{root_link(tool)}", type="fixed")
    ET.SubElement(joint, "parent", link=link)
    ET.SubElement(joint, "child", link=root_link(tool))
    set_origin(joint, pose)
    root.extend(tool.findall("link") + tool.findall("joint") + tool.findall("material"))


def add_prefix(root: ET.Element, prefix: str) -> None:
    """Put a prefix before the names of all links, joints and materials, wherever they are named, in place."""
    for element in root.iter():
        key = NAMING.get(element.tag, "")
        if key in element.attrib:
            element.set(key, prefix + element.attrib[key])


def links_of(root: ET.Element) -> list[str]:
    """Names of all links."""
    return [link.get("name", "") for link in root.findall("link")]


def root_link(root: ET.Element) -> str:
    """The link that no joint carries.

    Raises:
        AssetError: There is none, or more than one.
    """
    carried = {_link_of(joint, "child") for joint in root.findall("joint")}
    free = [name for name in links_of(root) if name not in carried]
    if len(free) != 1:
        raise AssetError(f"a URDF has one root link, this one has {len(free)}: {', '.join(free)}")
    return free[0]


def without_friction(root: ET.Element) -> None:
    """Take damping and friction from all joints, in place."""
    for joint in root.findall("joint"):
        for dynamics in joint.findall("dynamics"):
            joint.remove(dynamics)


def merge_fixed_joints(root: ET.Element) -> dict[str, tuple[str, Matrix]]:
    """Merge every link behind a fixed joint into its parent, in place: shapes moved, inertias added.

    Returns:
        For every original link the link that now contains it, and its 4 x 4 pose in that link's frame.
    """
    links = {link.get("name", ""): link for link in root.findall("link")}
    placed: dict[str, tuple[str, Matrix]] = {name: (name, np.eye(4)) for name in links}
    for element in root.findall("joint"):
        if element.get("type") != "fixed":
            continue
        parent, child, pose = _link_of(element, "parent"), _link_of(element, "child"), origin_of(element)
        for shape in [*links[child].findall("visual"), *links[child].findall("collision")]:
            set_origin(shape, pose @ origin_of(shape))
            links[parent].append(shape)
        _merge_inertial(links[parent], links[child], pose)
        root.remove(element)
        root.remove(links[child])
        for other in root.findall("joint"):
            if _link_of(other, "parent") == child:
                set_origin(other, pose @ origin_of(other))
                other.find("parent").set("link", parent)  # type: ignore[union-attr]
        for name, (holder, local) in placed.items():
            if holder == child:
                placed[name] = (parent, pose @ local)
    return placed


def _merge_inertial(parent: ET.Element, child: ET.Element, pose: Matrix) -> None:
    """Add the child's mass and inertia to the parent's by the parallel axis theorem."""
    mass_a, centre_a, inertia_a = inertial(parent)
    mass_b, centre_b, inertia_b = inertial(child)
    if mass_b == 0.0:
        return
    centre_b = pose[:3, :3] @ centre_b + pose[:3, 3]
    inertia_b = pose[:3, :3] @ inertia_b @ pose[:3, :3].T
    mass = mass_a + mass_b
    centre = (mass_a * centre_a + mass_b * centre_b) / mass
    inertia = sum(
        (
            inertia + m * ((c - centre) @ (c - centre) * np.eye(3) - np.outer(c - centre, c - centre))
            for m, c, inertia in ((mass_a, centre_a, inertia_a), (mass_b, centre_b, inertia_b))
        ),
        np.zeros((3, 3)),
    )
    set_inertial(parent, mass, centre, inertia)


def set_inertial(link: ET.Element, mass: float, centre: Matrix, inertia: Matrix) -> None:
    """Give a link its `<inertial>`: kg, centre of mass `(3,)` m and `(3, 3)` kg m², both in the link's frame."""
    old = link.find("inertial")
    if old is not None:
        link.remove(old)
    element = ET.SubElement(link, "inertial")
    ET.SubElement(element, "origin", xyz=text_of(centre), rpy="0 0 0")
    ET.SubElement(element, "mass", value=repr(float(mass)))
    names = {"ixx": (0, 0), "iyy": (1, 1), "izz": (2, 2), "ixy": (0, 1), "ixz": (0, 2), "iyz": (1, 2)}
    ET.SubElement(element, "inertia", {name: repr(float(inertia[at])) for name, at in names.items()})


def inertial(link: ET.Element) -> tuple[float, Matrix, Matrix]:
    """Mass in kg, centre of mass in m and 3 x 3 inertia in kg m², both in the link's frame."""
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


def _numbers(text: str) -> list[float]:
    return [float(word) for word in text.split()]


def text_of(values: Matrix) -> str:
    """Numbers as URDF has them, to the last digit."""
    return " ".join(repr(float(value)) for value in values)


def _link_of(joint: ET.Element, which: str) -> str:
    element = joint.find(which)
    return "" if element is None else element.get("link", "")


def origin_of(element: ET.Element) -> Matrix:
    """The `(4, 4)` pose that an element's `<origin>` gives."""
    origin = element.find("origin")
    if origin is None:
        return np.eye(4)
    rotation = rpy_to_matrix(np.array(_numbers(origin.get("rpy", "0 0 0"))))
    return pose_matrix(np.array(_numbers(origin.get("xyz", "0 0 0"))), rotation)


def set_origin(element: ET.Element, pose: Matrix) -> None:
    """Give an element the `<origin>` of a `(4, 4)` pose."""
    origin = element.find("origin")
    if origin is None:
        origin = ET.SubElement(element, "origin")
    origin.set("xyz", text_of(pose[:3, 3]))
    origin.set("rpy", text_of(matrix_to_rpy(pose[:3, :3])))
