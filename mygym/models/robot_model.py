"""The URDF tree of a robot as it is simulated: tools mounted, and what is of no arm held still."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mygym.errors import AssetError, bad_value
from mygym.models.transforms import pose_matrix, quaternion_to_matrix
from mygym.models.urdf import (
    DYNAMIC,
    Joint,
    add_prefix,
    attach,
    inertial,
    links_of,
    lock_joints,
    merge_fixed_joints,
    read_joints,
    read_urdf,
    set_inertial,
)

if TYPE_CHECKING:
    from mygym.models.robot import ArmSpec, GripperSpec, RobotSpec


def robot_model(spec: RobotSpec, gripper: bool = True) -> ET.Element:
    """The `<robot>` element, whose only joints that move are those of the arms and of the grippers.

    Args:
        spec: From `load_robot`.
        gripper: False to hold the fingers shut as well, which saves the solver a third of its work.
    """
    root = _mounted(spec)
    positions = {name: _rest(joint) for name, joint in read_joints(root).items() if joint.kind != "fixed"}
    positions |= spec.locked
    for arm in spec.arms:
        fingers = dict(zip(arm.gripper.joints, arm.gripper.closed, strict=True)) if arm.gripper else {}
        positions |= fingers
        for name in (*(joint.name for joint in arm.joints), *(fingers if gripper else ())):
            del positions[name]
        if arm.gripper:
            _give_friction(root, arm.gripper)
    lock_joints(root, positions)
    for link in root.findall("link"):
        _mend_inertia(link)
    return root


def _mend_inertia(link: ET.Element) -> None:
    """Give principal moments that no body can have, the largest above the sum of the others, to the nearest that can.

    Some robots' published files have such; Bullet would take zero instead.
    """
    mass, centre, inertia = inertial(link)
    moments, axes = np.linalg.eigh(inertia)
    if moments[0] > 0 and moments[2] > moments[0] + moments[1]:
        missing = moments[2] - moments[0] - moments[1]
        moments += missing * np.array([1.001, 1.001, -1.0]) / 3
        set_inertial(link, mass, centre, axes @ np.diag(moments) @ axes.T)


def _give_friction(root: ET.Element, gripper: GripperSpec) -> None:
    for link in root.findall("link"):
        if link.get("name") in gripper.links and link.find("contact") is None:
            contact = ET.SubElement(link, "contact")
            ET.SubElement(contact, "lateral_friction", value=repr(gripper.friction))


def _mounted(spec: RobotSpec) -> ET.Element:
    root = read_urdf(Path(spec.urdf))
    for index, mount in enumerate(spec.mounts):
        _demand_among(f"mounts.{index}.link", mount.link, links_of(root), "link")
        pose = pose_matrix(mount.position, quaternion_to_matrix(mount.orientation))
        tool = read_urdf(Path(mount.urdf))
        add_prefix(tool, mount.prefix)
        attach(root, tool, mount.link, pose)
    return root


def _rest(joint: Joint) -> float:
    return 0.0 if joint.kind == "continuous" else float(np.clip(0.0, joint.lower, joint.upper))


def check_model(spec: RobotSpec) -> None:
    """Demand that all that a description says of its URDF is true.

    Raises:
        AssetError: It names a joint or link that is not there or of another kind, an arm is not one chain, a number is
            missing, or a link that moves has no mass or inertia.
    """
    root = _mounted(spec)
    joints, links = read_joints(root), links_of(root)
    if not any(joint.kind in DYNAMIC for joint in joints.values()):
        raise AssetError(bad_value("urdf", spec.urdf, "a URDF with joints that move", "has none"))
    for name in spec.locked:
        _demand_among("locked", name, joints, "joint")
    for index, arm in enumerate(spec.arms):
        _check_arm("second_arm." if index else "", arm, joints, links)
    moving = robot_model(spec)
    placed = merge_fixed_joints(moving)
    for index, arm in enumerate(spec.arms):
        _check_chain("second_arm." if index else "", arm, read_joints(moving), placed[arm.end_effector.link][0])
    lightest = next(weightless(moving), None)
    if lightest is not None:
        raise AssetError(f"{spec.urdf}: {lightest}: give its <inertial> in the URDF")


def _check_arm(key: str, arm: ArmSpec, joints: dict[str, Joint], links: list[str]) -> None:
    if not arm.joints:
        raise AssetError(bad_value(f"{key}joints", [], "the arm's joints, from the base to the tip", "is empty"))
    for index, joint in enumerate(arm.joints):
        _check_joint(f"{key}joints.{index}", joint.name, joints, ("revolute", "continuous"))
        if not joint.lower <= joint.home <= joint.upper:
            raise AssetError(bad_value(f"{key}joints.{index}.home", joint.home, f"{joint.lower} to {joint.upper}"))
    _demand_among(f"{key}end_effector.link", arm.end_effector.link, links, "link")
    gripper = arm.gripper
    if gripper is None:
        return
    for index, name in enumerate(gripper.joints):
        _check_joint(f"{key}gripper.joints.{index}", name, joints, ("revolute", "prismatic"))
    for index, name in enumerate(gripper.links):
        _demand_among(f"{key}gripper.links.{index}", name, links, "link")
    for name in ("closed", "open"):
        numbers = getattr(gripper, name)
        if len(numbers) != len(gripper.joints):
            raise AssetError(bad_value(f"{key}gripper.{name}", list(numbers), "one number for each joint"))
    if any(closed == opened for closed, opened in zip(gripper.closed, gripper.open, strict=True)):
        raise AssetError(bad_value(f"{key}gripper.open", list(gripper.open), "other positions than closed"))


def _check_joint(key: str, name: str, joints: dict[str, Joint], kinds: tuple[str, ...]) -> None:
    _demand_among(f"{key}.name", name, joints, "joint")
    if joints[name].kind not in kinds:
        raise AssetError(
            bad_value(f"{key}.name", name, f"a joint that is {' or '.join(kinds)}", f"is {joints[name].kind}")
        )


def _demand_among(key: str, name: str, there: dict[str, Joint] | list[str], kind: str) -> None:
    if name not in there:
        raise AssetError(bad_value(key, name, there, f"is not a {kind} of the URDF"))


def _check_chain(key: str, arm: ArmSpec, joints: dict[str, Joint], tip: str) -> None:
    """Each joint of an arm is behind the one before, and the tool behind the last."""
    for index, (before, after) in enumerate(zip(arm.joints, arm.joints[1:], strict=False), start=1):
        if joints[after.name].parent != joints[before.name].child:
            allowed = f"a joint behind {before.name}, with none that moves between them"
            raise AssetError(bad_value(f"{key}joints.{index}.name", after.name, allowed))
    if tip != joints[arm.joints[-1].name].child:
        allowed = f"a link that {arm.joints[-1].name} carries"
        raise AssetError(bad_value(f"{key}end_effector.link", arm.end_effector.link, allowed))


def weightless(root: ET.Element) -> Iterator[str]:
    """What of the moving links' masses and inertias no body has, in words; fixed joints must have been merged."""
    moving = {joint.child for joint in read_joints(root).values() if joint.kind in DYNAMIC}
    for link in root.findall("link"):
        name = link.get("name", "")
        if name not in moving:
            continue
        mass, _, inertia = inertial(link)
        moments = np.linalg.eigvalsh(inertia)
        if not mass > 0:
            yield f"link {name} has a mass of {mass:g} kg"
        elif not (moments > 0).all():
            yield f"link {name} has principal moments of inertia of {moments.tolist()} kg m²"
