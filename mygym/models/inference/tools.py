"""Inference of a robot's gripper and tool point from its URDF."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mygym.models.inference.findings import Finding
from mygym.models.kinematics import rotation_of_z_to
from mygym.models.robot_model import rest_position
from mygym.models.robot_spec import EndEffectorSpec, GripperSpec
from mygym.models.transforms import axis_angle_to_matrix, matrix_to_quaternion
from mygym.models.urdf import Joint, inertial, origin_of
from mygym.types import FloatArray

MeshReader = Callable[[str, str], FloatArray]
"""File name and scale (`1 1 1`) of a mesh → points `(n, 3)` m with the same bounds as the mesh.

It is an argument, because the physics engine reads more formats than this room.
"""

ROTARY_JOINT_TYPES = ("revolute", "continuous")

FINGER_WORDS = ("finger", "jaw", "knuckle", "thumb")
"""Words in the names of a gripper's joints or links; names of joints may also contain `grip`."""

DEFAULT_FORCE = 20.0
"""N: assumed where a URDF has no limit."""

PAD = 0.01
"""m from the finger tips to the point at which fingers hold an object."""

TIP_RANGE = 0.02
"""m: links that end farther behind the finger tips are parts of a linkage."""

FEW_JOINTS = 5
"""Joints of arms that hold their tool down only if it lies along the axis of the last joint."""

LEAST_COSINE = 0.8
"""Cosine of the largest angle between this axis and the fingers, seen from the wrist."""

MIN_TOOL_LENGTH = 0.02
"""m: a last link that is not longer is a flange, whose z axis points out."""


def is_finger(joint: Joint) -> bool:
    """Return whether the names of a joint and its child suggest a finger."""
    name = joint.name.lower()
    return "grip" in name or any(word in name or word in joint.child.lower() for word in FINGER_WORDS)


def infer_gripper(
    root: ET.Element, joints: Mapping[str, Joint], wrist: str, findings: list[Finding], read_mesh: MeshReader
) -> GripperSpec | None:
    """Return the gripper of the fingers behind a link, or None.

    Prismatic fingers with limits are preferred to revolute fingers. One line about the result is added to `findings`.
    """
    named = [joint for joint in carried(joints, wrist) if is_finger(joint)]
    limited = [joint for joint in named if math.isfinite(joint.lower) and joint.lower < joint.upper < math.inf]
    fingers = [joint for joint in limited if joint.kind == "prismatic"]
    fingers = fingers or [joint for joint in limited if joint.kind == "revolute"]
    if not fingers:
        findings.append(Finding("no gripper", "gripper"))
        return None
    low, high = (_spread(root, joints, wrist, fingers, end) for end in ("lower", "upper"))
    opens_at_upper = high > low if len(fingers) > 1 else fingers[0].upper > -fingers[0].lower
    ranges = [(joint.lower, joint.upper) if opens_at_upper else (joint.upper, joint.lower) for joint in fingers]
    names = [joint.name for joint in fingers]
    closed, opened = (dict(zip(names, ends, strict=True)) for ends in zip(*ranges, strict=True))
    tips = _finger_tips(root, joints, wrist, fingers, closed, read_mesh)
    if fingers[0].kind == "prismatic":
        width = sum(abs(high - low) for low, high in ranges)
    else:
        width = max(_opening(joints, wrist, tips, closed, opened), 0.01)
    findings.append(Finding(f"a gripper of {', '.join(names)} that opens {100 * width:.1f} cm", "gripper"))
    speeds = [joint.velocity for joint in fingers if 0 < joint.velocity < math.inf]
    forces = [joint.effort for joint in fingers if 0 < joint.effort < math.inf]
    return GripperSpec(
        joints=tuple(names),
        links=tuple(tips),
        closed=tuple(closed.values()),
        open=tuple(opened.values()),
        width=round(width, 4),
        force=min(forces, default=DEFAULT_FORCE),
        velocity=min(speeds, default=0.1),
    )


def _finger_tips(
    root: ET.Element,
    joints: Mapping[str, Joint],
    wrist: str,
    fingers: list[Joint],
    closed: dict[str, float],
    read_mesh: MeshReader,
) -> dict[str, FloatArray]:
    """Return the links at the finger tips, and the tip `(3,)` m of each in its frame.

    Fingers of several links end in their last link, and linkages have links that end before the tips.
    """
    centre = np.mean(_centres(root, joints, wrist, closed), axis=0)
    direction = centre / max(float(np.linalg.norm(centre)), 1e-6)
    tips, reaches = {}, {}
    for joint in fingers:
        if any(other.name in closed for other in carried(joints, joint.child)):
            continue
        for pose in _poses(joints, wrist, closed, joint.child):
            shapes = [np.zeros((1, 3)), *_shapes(root, joints, joint.child, np.eye(4), read_mesh)]
            points = np.concatenate(shapes[1:] or shapes)
            along = (points @ pose[:3, :3].T + pose[:3, 3]) @ direction
            tips[joint.child] = points[along > along.max() - PAD].mean(axis=0)
            reaches[joint.child] = float(along.max())
    farthest = max(reaches.values())
    return {link: tip for link, tip in tips.items() if reaches[link] > farthest - TIP_RANGE}


def _opening(
    joints: Mapping[str, Joint],
    wrist: str,
    tips: dict[str, FloatArray],
    closed: dict[str, float],
    opened: dict[str, float],
) -> float:
    """Return how far the finger tips move apart, m; the opposite of a single finger is fixed."""
    shut, wide = (
        np.array([(pose @ [*tip, 1.0])[:3] for link, tip in tips.items() for pose in _poses(joints, wrist, at, link)])
        for at in (closed, opened)
    )
    if len(tips) == 1:
        return float(np.linalg.norm(wide - shut))
    spreads = [2 * np.linalg.norm(points - points.mean(axis=0), axis=1).mean() for points in (wide, shut)]
    return float(spreads[0] - spreads[1])


def carried(joints: Mapping[str, Joint], link: str) -> Iterator[Joint]:
    """Yield all joints behind a link."""
    for joint in joints.values():
        if joint.parent == link:
            yield joint
            yield from carried(joints, joint.child)


def _spread(root: ET.Element, joints: Mapping[str, Joint], wrist: str, fingers: list[Joint], end: str) -> float:
    """Return twice the mean distance of the fingers' centres of mass from their middle, m.

    The middle of a single finger is the wrist.
    """
    centres = np.array(_centres(root, joints, wrist, {joint.name: getattr(joint, end) for joint in fingers}))
    middle = centres.mean(axis=0) if len(fingers) > 1 else np.zeros(3)
    return 2 * float(np.linalg.norm(centres - middle, axis=1).mean())


def _centres(
    root: ET.Element, joints: Mapping[str, Joint], wrist: str, positions: dict[str, float]
) -> list[FloatArray]:
    """Return centres of mass `(3,)` of the child links of joints at positions, in the frame of the wrist."""
    centres = {link.get("name"): inertial(link)[1] for link in root.findall("link")}
    children = [joints[name].child for name in positions]
    return [
        (pose @ [*centres[child], 1.0])[:3] for child in children for pose in _poses(joints, wrist, positions, child)
    ]


def _poses(joints: Mapping[str, Joint], wrist: str, positions: dict[str, float], link: str) -> Iterator[FloatArray]:
    """Yield the pose `(4, 4)` of a link behind the wrist in the wrist's frame, joints at `positions` or at zero."""
    poses = {wrist: np.eye(4)}
    for joint in carried(joints, wrist):
        moved = np.eye(4)
        if joint.kind == "prismatic":
            moved[:3, 3] = positions.get(joint.name, 0.0) * np.array(joint.axis)
        elif joint.kind in ROTARY_JOINT_TYPES:
            moved[:3, :3] = axis_angle_to_matrix(joint.axis, positions.get(joint.name, 0.0))
        poses[joint.child] = poses[joint.parent] @ joint.origin @ moved
        if joint.child == link:
            yield poses[link]


def infer_tool(
    root: ET.Element,
    joints: Mapping[str, Joint],
    arm: Sequence[Joint],
    gripper: GripperSpec | None,
    hand: Sequence[Joint],
    read_mesh: MeshReader,
) -> EndEffectorSpec:
    """Return the tool point: between the closed fingers, or at the end of the hand or the last link; z points to it."""
    wrist = arm[-1].child
    if gripper or hand:
        fingers = dict(zip(gripper.joints, gripper.closed, strict=True)) if gripper else {}
        fingers = fingers or {joint.name: rest_position(joint) for joint in hand}
        centre = np.mean(_centres(root, joints, wrist, fingers), axis=0)
        direction = centre / max(float(np.linalg.norm(centre)), 1e-6)
        if len(arm) <= FEW_JOINTS:
            direction = _along_axis(joints, wrist, direction)
        links = gripper.links if gripper else [joint.child for joint in hand]
        poses = [(link, pose) for link in links for pose in _poses(joints, wrist, fingers, link)]
        reaches = [
            float((points @ direction).max())
            for link, pose in poses
            for points in _shapes(root, joints, link, pose, read_mesh)
        ]
        return _pointing_along(wrist, direction * (max(reaches) - PAD if reaches else float(centre @ direction)))
    link = _behind_fixed(joints, wrist)
    points = np.concatenate([np.zeros((1, 3)), *_shapes(root, joints, link, np.eye(4), read_mesh)])
    reach = np.concatenate([points.max(axis=0), -points.min(axis=0)])
    longest = int((reach - np.roll(reach, 3)).argmax())  # an asymmetric extent
    is_face = (
        not _stays_upright(arm) and reach[2] < MIN_TOOL_LENGTH / 4 and reach[5] > reach[2]
    )  # the body ends at the origin along z: a flange
    if reach[longest] >= MIN_TOOL_LENGTH and not is_face:
        return _pointing_along(link, np.eye(3)[longest % 3] * (1 if longest < 3 else -1) * reach[longest])
    # A bare flange: z points away from the wrist's origin, or stays the link's z axis.
    flange = next(_poses(joints, wrist, {}, link), np.eye(4))
    if np.linalg.norm(flange[:3, 3]) < MIN_TOOL_LENGTH:
        return EndEffectorSpec(link)
    return replace(_pointing_along(link, flange[:3, :3].T @ flange[:3, 3]), position=(0.0, 0.0, 0.0))


def _stays_upright(arm: Sequence[Joint]) -> bool:
    """Return whether no joint tilts the tool, as of a SCARA, whose tool hangs below the last link."""
    turned, axes = np.eye(3), []
    for joint in arm:
        turned = turned @ joint.origin[:3, :3]
        axes += [turned @ np.array(joint.axis)] if joint.kind in ROTARY_JOINT_TYPES else []
    return len(axes) > 1 and all(abs(axis[2]) > 0.99 for axis in axes)


def _along_axis(joints: Mapping[str, Joint], wrist: str, direction: FloatArray) -> FloatArray:
    """Return the axis of the joint that moves the wrist, if it is close to a direction `(3,)`; else the direction."""
    axis = next(np.array(joint.axis) for joint in joints.values() if joint.child == wrist)
    axis = axis / np.linalg.norm(axis)
    cosine = float(axis @ direction)
    return axis * np.sign(cosine) if abs(cosine) > LEAST_COSINE else direction


def _pointing_along(link: str, offset: FloatArray) -> EndEffectorSpec:
    """Return the tool point at an offset `(3,)` m in a link's frame, its z axis along the offset."""
    length = float(np.linalg.norm(offset))
    if length < 1e-6:
        return EndEffectorSpec(link)
    rotation = rotation_of_z_to(offset / length, tolerance=1e-6)
    x, y, z, w = (float(value) for value in matrix_to_quaternion(rotation).round(6))
    px, py, pz = (float(value) for value in offset.round(4))
    return EndEffectorSpec(link, (px, py, pz), (x, y, z, w))


def _behind_fixed(joints: Mapping[str, Joint], link: str) -> str:
    """Return the last link of the chain of fixed joints behind a link."""
    child = next((joint.child for joint in joints.values() if joint.parent == link and joint.kind == "fixed"), None)
    return link if child is None else _behind_fixed(joints, child)


def _shapes(
    root: ET.Element, joints: Mapping[str, Joint], link: str, pose: FloatArray, read_mesh: MeshReader
) -> Iterator[FloatArray]:
    """Yield points `(n, 3)` m on the collision shapes of a link and of all links behind it."""
    for collision in root.findall(f"link[@name='{link}']/collision"):
        shape_pose = pose @ origin_of(collision)
        for shape in collision.findall("geometry/*"):
            points = _points(shape, read_mesh)
            yield points @ shape_pose[:3, :3].T + shape_pose[:3, 3]
    for joint in joints.values():
        if joint.parent == link:
            yield from _shapes(root, joints, joint.child, pose @ joint.origin, read_mesh)


def _points(shape: ET.Element, read_mesh: MeshReader) -> FloatArray:
    """Return points `(n, 3)` m with the same bounds as a shape, in the shape's frame."""
    if shape.tag == "mesh":
        return read_mesh(shape.get("filename", ""), shape.get("scale", "1 1 1"))
    radius, length = float(shape.get("radius", "0")), float(shape.get("length", "0"))
    half = np.array([radius, radius, length / 2])
    if shape.tag == "box":
        half = np.array([float(edge) for edge in shape.get("size", "0 0 0").split()]) / 2
    elif shape.tag in ("sphere", "capsule"):
        half = np.array([radius, radius, radius + length / 2])
    corners: FloatArray = np.array(np.meshgrid(*([-1.0, 1.0],) * 3)).reshape(3, -1).T * half
    return corners
