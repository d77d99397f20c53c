"""Edits of a URDF tree: merging fixed joints, keeping only collisions or visuals, locking joints, mounting tools.

Bullet's `URDF_MERGE_FIXED_LINKS` adds masses without moving centres of mass, so merging is done here.
"""

from __future__ import annotations

import copy
import xml.etree.ElementTree as ET

import numpy as np

from mygym.errors import AssetError, bad_value
from mygym.models.transforms import axis_angle_to_matrix
from mygym.models.urdf import inertial, origin_of, read_joints, root_link, set_inertial, set_origin
from mygym.models.urdf_validation import link_at
from mygym.types import FloatArray

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
        position, axis = positions[joint.name], np.array(joint.axis)
        moved = np.eye(4)
        if joint.kind == "prismatic":
            moved[:3, 3] = position * axis
        else:
            moved[:3, :3] = axis_angle_to_matrix(axis, position)
        set_origin(element, joint.origin @ moved)
        element.set("type", "fixed")


def attach(root: ET.Element, tool: ET.Element, link: str, pose: FloatArray) -> None:
    """Mount another URDF's tree on a link by a fixed joint, in place.

    Args:
        root: From `read_urdf`; changed.
        tool: From `read_urdf`; its elements are moved to `root`.
        link: Link of `root` on which the tool is mounted.
        pose: `(4, 4)` of the tool's root link in the frame of `link`.

    Raises:
        AssetError: Both trees have a link or a joint of the same name.
    """
    for kind in ("link", "joint"):
        taken = {element.get("name") for element in root.findall(kind)}
        duplicate = next((name for element in tool.findall(kind) if (name := element.get("name")) in taken), None)
        if duplicate is not None:
            allowed = f"a tool whose {kind} names differ from the robot's, or a prefix"
            raise AssetError(bad_value("mounts", duplicate, allowed, f"is a {kind} of both"))
    joint = ET.SubElement(root, "joint", name=f"{link}_to_{root_link(tool)}", type="fixed")
    ET.SubElement(joint, "parent", link=link)
    ET.SubElement(joint, "child", link=root_link(tool))
    set_origin(joint, pose)
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
