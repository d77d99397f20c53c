"""URDF tree of a robot as it is simulated: with tools mounted, and only the joints of arms and grippers moving."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

import numpy as np

from mygym.errors import AssetError, MygymError, bad_value
from mygym.models.file_cache import Stamp
from mygym.models.robot_descriptions import read_robot, robot_stamps
from mygym.models.robot_spec import GripperSpec, RobotSpec
from mygym.models.transforms import pose_matrix, quaternion_to_matrix
from mygym.models.urdf import (
    Joint,
    inertial,
    links_of,
    read_joints,
    root_link,
    set_inertial,
    set_origin,
    text_of,
)
from mygym.models.urdf_editing import add_prefix, attach, lock_joints

Function = TypeVar("Function", bound=Callable[..., Any])


def cached_by_model(function: Function) -> Function:
    """Cache a function of a robot until one of its URDF or mesh files changes; its results must not be changed.

    Environments are often made by the dozen with the same robot, and evaluation makes further ones.
    """

    @lru_cache(maxsize=64)
    def cached(stamps: tuple[tuple[Stamp, ...], ...], *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    @wraps(function)
    def call(spec: RobotSpec, *args: Any, **kwargs: Any) -> Any:
        try:
            stamps = tuple(robot_stamps(path) for path in (spec.urdf, *(mount.urdf for mount in spec.mounts)))
        except MygymError:  # the function describes what is missing
            return function(spec, *args, **kwargs)
        return cached(stamps, spec, *args, **kwargs)

    return cast("Function", call)


def robot_model(spec: RobotSpec, gripper: bool = True) -> ET.Element:
    """Return the `<robot>` element in which only the joints of the arms and grippers move.

    Args:
        spec: From `load_robot`.
        gripper: False to fix the fingers closed as well, which saves the solver a third of its work.
    """
    root = mounted_model(spec)
    positions = {name: rest_position(joint) for name, joint in read_joints(root).items() if joint.kind != "fixed"}
    positions |= spec.locked
    for arm in spec.arms:
        fingers = dict(zip(arm.gripper.joints, arm.gripper.closed, strict=True)) if arm.gripper else {}
        positions |= fingers
        for name in (*(joint.name for joint in arm.joints), *(fingers if gripper else ())):
            del positions[name]
        if arm.gripper:
            _set_friction(root, arm.gripper)
            _set_pads(root, arm.gripper)
    lock_joints(root, positions)
    base = next(link for link in root.findall("link") if link.get("name") == root_link(root))
    if inertial(base)[0] == 0:  # Bullet prints a warning at every load; the base is fixed, so its mass has no effect
        set_inertial(base, 1.0, np.zeros(3), np.eye(3))
    return root


def _set_friction(root: ET.Element, gripper: GripperSpec) -> None:
    for link in root.findall("link"):
        if link.get("name") in gripper.links and link.find("contact") is None:
            contact = ET.SubElement(link, "contact")
            ET.SubElement(contact, "lateral_friction", value=repr(gripper.friction))


def _set_pads(root: ET.Element, gripper: GripperSpec) -> None:
    """Replace the collision shapes of links that have pads, and of links that the URDF fixes to them, by the pads."""
    links = {link.get("name", ""): link for link in root.findall("link")}
    for name in {pad.link for pad in gripper.pads}:
        for link in _fixed_to(root, name):
            for collision in links[link].findall("collision"):
                links[link].remove(collision)
    for pad in gripper.pads:
        collision = ET.SubElement(links[pad.link], "collision")
        ET.SubElement(ET.SubElement(collision, "geometry"), "box", size=text_of(pad.size))
        set_origin(collision, pose_matrix(pad.position, quaternion_to_matrix(pad.orientation)))


def _fixed_to(root: ET.Element, link: str) -> Iterator[str]:
    yield link
    for joint in read_joints(root).values():
        if joint.parent == link and joint.kind == "fixed":
            yield from _fixed_to(root, joint.child)


def mounted_model(spec: RobotSpec) -> ET.Element:
    """Return the `<robot>` element with all tools mounted."""
    root = read_robot(spec.urdf).root
    for index, mount in enumerate(spec.mounts):
        check_name(f"mounts.{index}.link", mount.link, links_of(root), "link")
        pose = pose_matrix(mount.position, quaternion_to_matrix(mount.orientation))
        tool = read_robot(mount.urdf).root
        add_prefix(tool, mount.prefix)
        attach(root, tool, mount.link, pose)
    return root


def rest_position(joint: Joint) -> float:
    """Return the position of a joint outside arms and grippers, rad or m: zero or the nearest limit."""
    return 0.0 if joint.kind == "continuous" else float(np.clip(0.0, joint.lower, joint.upper))


def check_name(key: str, name: str, names: Collection[str], kind: str) -> None:
    """Raise an `AssetError` unless `name` is among the names of the URDF's links or joints (`kind`)."""
    if name not in names:
        raise AssetError(bad_value(key, name, list(names), f"is not a {kind} of the URDF"))
