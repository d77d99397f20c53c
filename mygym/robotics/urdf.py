"""URDF trees as `ElementTree` elements: reading, editing and checks."""

from __future__ import annotations

import codecs
import copy
import math
import re
import warnings
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from mygym.errors import AssetError, bad_value
from mygym.robotics.mesh_files import MESH_PATH, find_mesh
from mygym.robotics.transforms import (
    as_vector,
    axis_angle_to_matrix,
    inertia_beside,
    matrix_to_rpy,
    pose_matrix,
    rpy_to_matrix,
)
from mygym.types import FloatArray, Vector

MOVING_JOINT_TYPES = ("revolute", "continuous", "prismatic")
JOINT_TYPES = (*MOVING_JOINT_TYPES, "fixed", "floating", "planar", "spherical")
"""URDF's joint types, and Bullet's `spherical`."""

NUMBER_COUNTS = {
    "origin": {"xyz": 3, "rpy": 3},
    "axis": {"xyz": 3},
    "mass": {"value": 1},
    "inertia": dict.fromkeys(("ixx", "iyy", "izz", "ixy", "ixz", "iyz"), 1),
    "limit": dict.fromkeys(("lower", "upper", "effort", "velocity"), 1),
    "dynamics": dict.fromkeys(("damping", "friction"), 1),
    "lateral_friction": {"value": 1},
    "rolling_friction": {"value": 1},
    "spinning_friction": {"value": 1},
    "mimic": dict.fromkeys(("multiplier", "offset"), 1),
    "box": {"size": 3},
    "cylinder": {"radius": 1, "length": 1},
    "capsule": {"radius": 1, "length": 1},
    "sphere": {"radius": 1},
    "mesh": {"scale": 3},
}
"""Element → attribute → number of its values; other attributes are ignored."""

MAX_NUMBER = 1e6
"""Largest number in a URDF, in SI units; limits may be infinite."""

NOT_NEGATIVE = ("size", "radius", "length", "velocity", "effort")
"""Attributes whose values are at least 0."""

LONGEST_NAME = 200
"""Maximum length of the name of a link or a joint; Bullet truncates long names."""


MOST_MISTAKES = 8
"""Mistakes in one message."""


def check_urdf(root: ET.Element) -> None:
    """Validate the names and numbers of a `<robot>` element, and that its joints connect its links to one tree.

    Raises:
        AssetError: The file has mistakes; one message describes all of one kind.
    """
    mistakes = list(_number_mistakes(root)) or list(_tree_mistakes(root))
    more = f"; and {len(mistakes) - MOST_MISTAKES} more" if len(mistakes) > MOST_MISTAKES else ""
    if mistakes:
        raise AssetError("; ".join(mistakes[:MOST_MISTAKES]) + more)


def _number_mistakes(root: ET.Element) -> Iterator[str]:
    """Describe each name that is too long, each invalid number, and each inertia that lacks a moment."""
    for parent in (*root.findall("link"), *root.findall("joint")):
        if len(parent.get("name", "")) > LONGEST_NAME:
            why = f"is longer than {LONGEST_NAME} characters"
            yield bad_value(f"{parent.tag}: name", parent.get("name", "")[:20] + "…", "a shorter name", why)
        where = f"{parent.tag} {parent.get('name', '')}"
        for element in parent.iter():
            before, largest = f"{where}: {element.tag}", math.inf if element.tag == "limit" else MAX_NUMBER
            problems = [
                problem
                for key, count in NUMBER_COUNTS.get(element.tag, {}).items()
                if (text := element.get(key)) is not None
                and (problem := _number_mistake(f"{before} {key}", text, count, largest))
            ]
            yield from problems
            if problems:
                continue
            if element.tag == "limit" and float(element.get("lower", 0)) > float(element.get("upper", "inf")):
                given = f"{element.get('lower')} to {element.get('upper')}"
                yield bad_value(before, given, "lower below upper", "is reversed")
            if element.tag == "inertia" and not {"ixx", "iyy", "izz"} <= set(element.keys()):
                yield bad_value(before, element.attrib, "ixx, iyy and izz", "lacks a moment")


def _tree_mistakes(root: ET.Element) -> Iterator[str]:
    """Describe unknown joint types and links, names that are used twice, cycles, and joints without an axis.

    Several root links are described if nothing else is wrong.
    """
    links = [link.get("name", "") for link in root.findall("link")]
    names = [joint.get("name", "") for joint in root.findall("joint")]
    if not links:
        yield bad_value("link", 0, "a <robot> with links", "links are in the file")
    for kind, used in (("link", links), ("joint", names)):
        if "" in used:
            yield bad_value(f"{kind}: name", "", f"a name for every {kind}", "is missing")
        twice = sorted(name for name, count in Counter(used).items() if name and count > 1)
        if twice:
            yield bad_value(kind, ", ".join(twice), f"one {kind} of each name", "is used for several")
    known, parents, is_tree = set(links), {}, True
    for element in root.findall("joint"):
        name, joint_type = element.get("name", ""), element.get("type", "")
        if joint_type not in JOINT_TYPES:
            yield bad_value(f"joint {name}: type", joint_type, JOINT_TYPES)
        for end in ("parent", "child"):
            if link_at(element, end) not in known:
                is_tree = False
                yield bad_value(f"joint {name}: {end}", link_at(element, end), links, "is not a link")
        child = link_at(element, "child")
        if child in parents:
            is_tree = False
            yield bad_value(f"joint {name}: child", child, "one joint for each link", "has two parent joints")
        parents[child] = link_at(element, "parent")
        axis = element.find("axis")
        if joint_type in MOVING_JOINT_TYPES and axis is not None and not any(map(float, axis.get("xyz", "1").split())):
            yield bad_value(f"joint {name}: axis", "0 0 0", "a direction, such as '0 0 1'")
    cycle = _cycle(links, parents) if is_tree else []
    if cycle:
        yield bad_value("joint", " - ".join(cycle), "a tree of links", "is a cycle")
    roots = [link for link in links if link not in parents]
    if is_tree and not cycle and len(roots) > 1 and names:
        yield bad_value("link", ", ".join(roots), "one link without a parent joint", "are not connected by joints")


def _cycle(links: list[str], parents: dict[str, str]) -> list[str]:
    """Return the links of a cycle, the first again at the end; empty for a tree."""
    for link in links:
        ancestors = [link]
        while ancestors[-1] in parents and len(ancestors) <= len(links):
            ancestors.append(parents[ancestors[-1]])
            if ancestors[-1] == link:
                return ancestors
    return []


def link_at(joint: ET.Element, end: str) -> str:
    """Return the link at the `parent` or `child` end of a `<joint>`; empty if it names none."""
    element = joint.find(end)
    return "" if element is None else element.get("link", "")


def _number_mistake(key: str, text: str, count: int, largest: float) -> str:
    """Describe the mistake in the text of an attribute of `count` numbers; empty if it is correct."""
    low = 0.0 if key.endswith(NOT_NEGATIVE) else -largest
    allowed = "a number" if count == 1 else f"{count} numbers"
    try:
        values = [float(word) for word in text.split()]
    except ValueError:
        values = []
    if len(values) != count:
        return bad_value(key, text, allowed)
    if not all(low <= value <= largest for value in values):  # nan is not in any range
        return bad_value(key, text, f"{allowed} from {low:g} to {largest:g}", "is out of range")
    return ""


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
    """Unit vector in the joint's frame."""
    lower: float
    upper: float
    effort: float
    velocity: float
    mimic: Mimic | None = None
    """The joint that this joint follows; None: none."""

    def motion(self, position: float) -> FloatArray:
        """Return the motion `(4, 4)` of the child frame from position zero to a position, rad or m."""
        moved = np.eye(4)
        if self.kind == "prismatic":
            moved[:3, 3] = position * np.array(self.axis)
        else:
            moved[:3, :3] = axis_angle_to_matrix(self.axis, position)
        return moved


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
    normalize_axes(root)
    for link in root.iter("link"):
        _find_meshes(path, link)
    return root


def normalize_axes(root: ET.Element) -> None:
    """Give the axes of joints a length of 1, in place: Bullet multiplies the positions of slides by it."""
    for axis in root.findall("joint/axis"):
        direction = np.array(_numbers(axis.get("xyz", "1 0 0")))
        length = float(np.linalg.norm(direction))
        if length > 0 and not math.isclose(length, 1.0, rel_tol=1e-6):
            axis.set("xyz", text_of(direction / length))


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
    except UnicodeDecodeError:  # old editors state no encoding in the declaration
        if match is None or b"encoding" not in match.group():
            content = content.decode("latin-1").encode()
    try:
        return ET.fromstring(content)  # noqa: S314  robot files that a user names are trusted
    except (ET.ParseError, ValueError, LookupError) as error:
        raise AssetError(f"{path}: not a URDF file: {error}") from error


def _find_meshes(urdf: Path, link: ET.Element) -> None:
    """Set the files of a link's meshes; a visual without its mesh is removed, with a warning.

    A link without visuals gets its collisions as visuals.
    """
    visuals = link.findall("visual")
    for shape in [*visuals, *link.findall("collision")]:
        for mesh in shape.iter("mesh"):
            name = mesh.get("filename", "")
            if file := find_mesh(urdf, name):
                mesh.set("filename", str(file))
                continue
            allowed = f"a file in a folder above {urdf.name}, in ROS_PACKAGE_PATH, or below {MESH_PATH}"
            message = f"{urdf}: {bad_value('mesh filename', name, allowed, 'is not a file')}"
            if shape.tag == "collision":
                raise AssetError(message)
            warnings.warn(f"{message}; the link's collisions are drawn", stacklevel=2)
            link.remove(shape)
            break
    if visuals and link.find("visual") is None:
        copy_shapes(link, "collision", "visual")


def copy_shapes(link: ET.Element, source: str, target: str) -> None:
    """Add copies of a link's shapes, in place: of its `collision` as `visual`, or the other way round."""
    for shape in link.findall(source):
        copied = copy.deepcopy(shape)
        copied.tag = target
        link.append(copied)


def read_joints(root: ET.Element) -> dict[str, Joint]:
    """Return all joints by name."""
    return {joint.name: joint for joint in map(_read_joint, root.findall("joint"))}


def _read_joint(element: ET.Element) -> Joint:
    limit, axis, mimic = element.find("limit"), element.find("axis"), element.find("mimic")
    values = numbers_of(limit)
    followed = None
    if mimic is not None:
        followed = Mimic(mimic.get("joint", ""), float(mimic.get("multiplier", 1)), float(mimic.get("offset", 0)))
    return Joint(
        name=element.get("name", ""),
        kind=element.get("type", ""),
        parent=link_at(element, "parent"),
        child=link_at(element, "child"),
        origin=origin_of(element),
        axis=as_vector(_numbers("1 0 0" if axis is None else axis.get("xyz", "1 0 0"))),
        lower=values.get("lower", -np.inf),
        upper=values.get("upper", np.inf),
        effort=values.get("effort", np.inf),
        velocity=values.get("velocity", np.inf),
        mimic=followed,
    )


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
    value = numbers_of(tensor)
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


def numbers_of(element: ET.Element | None) -> dict[str, float]:
    """Return the numbers in the attributes of a validated element, of those in `NUMBER_COUNTS`; empty for None."""
    if element is None:
        return {}
    return {key: float(element.get(key, "")) for key in NUMBER_COUNTS.get(element.tag, {}) if key in element.attrib}


def number_in(text: str | None, otherwise: float = 0.0) -> float:
    """Return the number in an attribute that is not validated yet; `otherwise` if it is missing or is no number."""
    try:
        return float(text or "")
    except ValueError:
        return otherwise


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


NAME_ATTRIBUTES = {
    "link": "name",
    "joint": "name",
    "material": "name",
    "parent": "link",
    "child": "link",
    "mimic": "joint",
}
"""Element → its attribute that names a link, a joint or a material."""


def light_urdf(root: ET.Element, keep: str) -> str:
    """Return the robot's URDF text with fixed joints merged, and only its collisions or only its visuals.

    Args:
        root: From `read_urdf`; not changed.
        keep: `"collision"` for a physics client, `"visual"` for a client that only draws. A robot without any visual is
            drawn by its collisions: it would be invisible in videos.
    """
    root = copy.deepcopy(root)
    if keep == "visual" and root.find("link/visual") is None:
        for shape in root.findall("link/collision"):
            shape.tag = "visual"
    for link in root.findall("link"):
        for shape in link.findall("visual" if keep == "collision" else "collision"):
            link.remove(shape)
    merge_fixed_joints(root)
    if keep == "collision":
        for link in root.findall("link"):
            if link.find("collision") is not None:
                add_tiny_visual(link)
    return ET.tostring(root, encoding="unicode")


def add_tiny_visual(link: ET.Element) -> None:
    """Add a box of 0.2 mm as visual to a link, in place: without a visual Bullet tessellates the collision shapes."""
    visual = ET.SubElement(link, "visual")
    ET.SubElement(ET.SubElement(visual, "geometry"), "box", size="0.0002 0.0002 0.0002")


def lock_joints(root: ET.Element, positions: dict[str, float]) -> None:
    """Make joints fixed at positions (rad or m), in place: the motor solver then has less to do."""
    joints = read_joints(root)
    for element in root.findall("joint"):
        joint = joints[element.get("name", "")]
        if joint.name not in positions:
            continue
        set_origin(element, joint.origin @ joint.motion(positions[joint.name]))
        element.set("type", "fixed")


def add_joint(root: ET.Element, name: str, kind: str, parent: str, child: str, pose: FloatArray) -> ET.Element:
    """Join two links by a joint, in place, and return it; `pose` `(4, 4)` is that of the child in the parent frame."""
    element = ET.SubElement(root, "joint", name=name, type=kind)
    ET.SubElement(element, "parent", link=parent)
    ET.SubElement(element, "child", link=child)
    set_origin(element, pose)
    return element


def attach(root: ET.Element, tool: ET.Element, link: str, pose: FloatArray) -> None:
    """Mount a tool on a link by a fixed joint; its elements are moved to `root`.

    `pose` `(4, 4)` is that of the tool's root link in the frame of `link`.

    Raises:
        AssetError: Both trees have a link or a joint of the same name.
    """
    for kind in ("link", "joint"):
        taken = {element.get("name") for element in root.findall(kind)}
        duplicate = next((name for element in tool.findall(kind) if (name := element.get("name")) in taken), None)
        if duplicate is not None:
            allowed = f"a tool whose {kind} names differ from the robot's, or a prefix"
            raise AssetError(bad_value("mounts", duplicate, allowed, f"is a {kind} of both"))
    add_joint(root, f"{link}_to_{root_link(tool)}", "fixed", link, root_link(tool), pose)
    root.extend(tool.findall("link") + tool.findall("joint") + tool.findall("material"))


def add_prefix(root: ET.Element, prefix: str) -> None:
    """Prefix the names of all links, joints and materials and all references to them, in place."""
    for element in root.iter():
        key = NAME_ATTRIBUTES.get(element.tag, "")
        if key in element.attrib:
            element.set(key, prefix + element.attrib[key])


def remove_joint_dynamics(root: ET.Element) -> None:
    """Remove damping and friction from all joints, in place."""
    for joint in root.findall("joint"):
        for dynamics in joint.findall("dynamics"):
            joint.remove(dynamics)


def merge_fixed_joints(root: ET.Element) -> dict[str, tuple[str, FloatArray]]:
    """Merge the child link of every fixed joint into the parent link, in place: move shapes, add inertias.

    Returns:
        Original link → the link that now contains it, and its `(4, 4)` pose in that link's frame.
    """
    links = {link.get("name", ""): link for link in root.findall("link")}
    placed: dict[str, tuple[str, FloatArray]] = {name: (name, np.eye(4)) for name in links}
    for element in root.findall("joint"):
        if element.get("type") != "fixed":
            continue
        parent, child, pose = link_at(element, "parent"), link_at(element, "child"), origin_of(element)
        for shape in [*links[child].findall("visual"), *links[child].findall("collision")]:
            set_origin(shape, pose @ origin_of(shape))
            links[parent].append(shape)
        _merge_inertial(links[parent], links[child], pose)
        root.remove(element)
        root.remove(links[child])
        for other in root.findall("joint"):
            if link_at(other, "parent") == child:
                set_origin(other, pose @ origin_of(other))
                other.find("parent").set("link", parent)  # type: ignore[union-attr]
        for name, (holder, local) in placed.items():
            if holder == child:
                placed[name] = (parent, pose @ local)
    return placed


def _merge_inertial(parent: ET.Element, child: ET.Element, pose: FloatArray) -> None:
    """Add the child's mass and inertia to the parent's."""
    mass_a, centre_a, inertia_a = inertial(parent)
    mass_b, centre_b, inertia_b = inertial(child)
    if mass_b == 0.0:
        return
    centre_b = pose[:3, :3] @ centre_b + pose[:3, 3]
    inertia_b = pose[:3, :3] @ inertia_b @ pose[:3, :3].T
    mass = mass_a + mass_b
    centre = (mass_a * centre_a + mass_b * centre_b) / mass
    inertia = inertia_beside(inertia_a, mass_a, centre_a - centre) + inertia_beside(
        inertia_b, mass_b, centre_b - centre
    )
    set_inertial(parent, mass, centre, inertia)
