"""Validation of a robot's description against its URDF."""

from __future__ import annotations

import numpy as np

from mygym.errors import AssetError, bad_value
from mygym.models.robot_model import cached_by_model, check_name, mounted_model, robot_model
from mygym.models.robot_spec import ArmSpec, MountedCameraSpec, RobotSpec
from mygym.models.urdf import Joint, links_of, read_joints
from mygym.models.urdf_editing import merge_fixed_joints
from mygym.models.urdf_validation import MOVING_JOINT_TYPES


@cached_by_model
def check_model(spec: RobotSpec) -> None:
    """Validate a robot's description against its URDF.

    Raises:
        AssetError: A named joint or link is missing or of another type, an arm is not one chain, or a number is
            missing.
    """
    root = mounted_model(spec)
    joints, links = read_joints(root), links_of(root)
    if not any(joint.kind in MOVING_JOINT_TYPES for joint in joints.values()):
        raise AssetError(bad_value("urdf", spec.urdf, "a URDF with moving joints", "has none"))
    for name in spec.locked:
        check_name("locked", name, joints, "joint")
    for index, arm in enumerate(spec.arms):
        _check_arm("second_arm." if index else "", arm, joints, links)
    for name, camera in spec.cameras.items():
        _check_camera(f"cameras.{name}", camera, links)
    moving = robot_model(spec)
    placed = merge_fixed_joints(moving)
    for index, arm in enumerate(spec.arms):
        _check_chain("second_arm." if index else "", arm, read_joints(moving), placed[arm.end_effector.link][0])


def _check_arm(key: str, arm: ArmSpec, joints: dict[str, Joint], links: list[str]) -> None:
    if not arm.joints:
        raise AssetError(bad_value(f"{key}joints", [], "the arm's joints, from the base to the tip", "is empty"))
    for index, joint in enumerate(arm.joints):
        _check_joint(f"{key}joints.{index}", joint.name, joints, MOVING_JOINT_TYPES)
        if not joint.lower <= joint.home <= joint.upper:
            raise AssetError(bad_value(f"{key}joints.{index}.home", joint.home, f"{joint.lower} to {joint.upper}"))
    check_name(f"{key}end_effector.link", arm.end_effector.link, links, "link")
    gripper = arm.gripper
    if gripper is None:
        return
    for index, name in enumerate(gripper.joints):
        _check_joint(f"{key}gripper.joints.{index}", name, joints, ("revolute", "prismatic"))
    for index, name in enumerate(gripper.links):
        check_name(f"{key}gripper.links.{index}", name, links, "link")
    for index, pad in enumerate(gripper.pads):
        check_name(f"{key}gripper.pads.{index}.link", pad.link, links, "link")
        if not all(edge > 0 for edge in pad.size):
            raise AssetError(bad_value(f"{key}gripper.pads.{index}.size", list(pad.size), "edges above 0 m"))
    for name in ("closed", "open"):
        numbers = getattr(gripper, name)
        if len(numbers) != len(gripper.joints):
            raise AssetError(bad_value(f"{key}gripper.{name}", list(numbers), "one number for each joint"))
    if any(closed == opened for closed, opened in zip(gripper.closed, gripper.open, strict=True)):
        raise AssetError(bad_value(f"{key}gripper.open", list(gripper.open), "positions other than `closed`"))


def _check_camera(key: str, camera: MountedCameraSpec, links: list[str]) -> None:
    check_name(f"{key}.link", camera.link, links, "link")
    forward = np.subtract(camera.target, camera.position)
    if not np.linalg.norm(forward) > 0:
        raise AssetError(bad_value(f"{key}.target", list(camera.target), "a point other than `position`"))
    if np.linalg.norm(np.cross(forward, camera.up)) < 1e-3 * np.linalg.norm(forward) * np.linalg.norm(camera.up):
        raise AssetError(bad_value(f"{key}.up", list(camera.up), "a direction other than that of the view"))


def _check_joint(key: str, name: str, joints: dict[str, Joint], types: tuple[str, ...]) -> None:
    check_name(f"{key}.name", name, joints, "joint")
    if joints[name].kind not in types:
        raise AssetError(
            bad_value(f"{key}.name", name, f"a joint that is {' or '.join(types)}", f"is {joints[name].kind}")
        )


def _check_chain(key: str, arm: ArmSpec, joints: dict[str, Joint], tip: str) -> None:
    """Validate that each joint of an arm carries the next, and the last joint the tool."""
    for index, (before, after) in enumerate(zip(arm.joints, arm.joints[1:], strict=False), start=1):
        if joints[after.name].parent != joints[before.name].child:
            allowed = f"a joint behind {before.name}, with no moving joint between them"
            raise AssetError(bad_value(f"{key}joints.{index}.name", after.name, allowed))
    if tip != joints[arm.joints[-1].name].child:
        allowed = f"a link behind {arm.joints[-1].name}"
        raise AssetError(bad_value(f"{key}end_effector.link", arm.end_effector.link, allowed))
