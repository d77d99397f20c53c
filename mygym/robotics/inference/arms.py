"""Inference of a robot's arm, the joints between the body and the hand, and of its tool point."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mygym.robotics.inference.findings import Certainty
from mygym.robotics.inference.hands import ROTARY_JOINT_TYPES, Hand, carried
from mygym.robotics.robot_spec import EndEffectorSpec
from mygym.robotics.transforms import as_quaternion, as_vector, rotation_of_z_to
from mygym.robotics.urdf import MOVING_JOINT_TYPES, Joint
from mygym.types import FloatArray

FINGER_WORDS = ("finger", "jaw", "knuckle", "thumb")
"""Words in the names of fingers, with which an arm does not go on; names of joints may also contain `grip`."""

SENSOR_WORDS = ("camera", "optical", "sensor", "imu", "lidar", "laser", "cable", "hose", "screw", "light", "vision")
"""Words in the names of links that an arm carries beside its tool."""

TOOL_WORDS = ("tool", "tcp", "end_effector", "effector", "ee_", "_ee", "grasp", "flange", "tip")
"""Words in the names of links at which tools end."""

PAD = 0.01
"""m from the finger tips to the point at which fingers hold an object."""

FEW_JOINTS = 5
"""Joints of arms that hold their tool down only if it lies along the axis of the last joint."""

LEAST_COSINE = 0.8
"""Cosine of the largest angle between an axis of wrist or palm and the fingers, for the axis to be that of the tool."""

BODY_RADIUS = 0.08
"""m from the tool's axis: links farther beside it are not the arm's tool."""

FORK = 0.04
"""m: an object passes between the prongs of a fork that are at least as far apart."""

MIN_TOOL_LENGTH = 0.02
"""m: a last link that is not longer is a flange, whose z axis points out."""


def is_finger(joint: Joint) -> bool:
    """Return whether the names of a joint and its child suggest a finger."""
    name, child = joint.name.lower(), joint.child.lower()
    is_jaw = "grip" in child and "grip" in joint.parent.lower()  # a part of a gripper that moves on another part
    return "grip" in name or is_jaw or any(word in name or word in child for word in FINGER_WORDS)


def infer_tool(
    root: ET.Element, joints: Mapping[str, Joint], arm: Sequence[Joint], hand: Sequence[Joint]
) -> tuple[EndEffectorSpec, Certainty, str]:
    """Return the tool point at the end of a hand without a gripper or of the last link, how sure it is, and why.

    Its z axis points from the wrist to it.
    """
    wrist = arm[-1].child
    parts = Hand(root, joints, wrist)
    poses = parts.poses(parts.positions({}))
    clouds = [
        parts.points(joint.child) @ poses[joint.child][:3, :3].T + poses[joint.child][:3, 3]
        for joint in hand
        if len(parts.points(joint.child))
    ]
    if clouds:
        points = np.concatenate(clouds)
        centre = np.mean([(cloud.min(axis=0) + cloud.max(axis=0)) / 2 for cloud in clouds], axis=0)
        direction = centre / max(float(np.linalg.norm(centre)), 1e-6)
        if len(arm) <= FEW_JOINTS:
            direction = _along_axis(joints, wrist, direction)
        tool = _pointing_along(wrist, direction * (float((points @ direction).max()) - PAD))
        return tool, "likely", f"{100 * PAD:g} cm before the farthest tip of the fingers or jaws, which stay still"
    link = _last_link(joints, wrist)
    points = np.concatenate([np.zeros((1, 3)), parts.points(link)])
    reach = np.concatenate([points.max(axis=0), -points.min(axis=0)])
    longest = int((reach - np.roll(reach, 3)).argmax())  # an asymmetric extent
    is_face = (
        not _stays_upright(arm) and reach[2] < MIN_TOOL_LENGTH / 4 and reach[5] > reach[2]
    )  # the body ends at the origin along z: a flange
    if reach[longest] >= MIN_TOOL_LENGTH and not is_face:
        tool = _pointing_along(link, np.eye(3)[longest % 3] * (1 if longest < 3 else -1) * reach[longest])
        return tool, "likely", f"the farthest end of {link}, the last link, along one of its axes"
    # A bare flange: z points away from the wrist's origin, or stays the link's z axis.
    flange = poses[link]
    if np.linalg.norm(flange[:3, 3]) < MIN_TOOL_LENGTH:
        behind = [joint for joint in carried(joints, wrist) if joint.kind in MOVING_JOINT_TYPES]
        if not hand and any(len(parts.points(joint.child)) for joint in behind):  # a jaw that stays still
            return infer_tool(root, joints, arm, behind)
        why = f"{link}, the last link, ends as a flange does; that its z axis points out is a convention"
        return EndEffectorSpec(link), "guess", why
    outwards = flange[:3, :3].T @ flange[:3, 3]
    outwards /= np.linalg.norm(outwards)
    # The point is where the body ends: a frame in the air has nothing to push with, and before a frame inside a hand
    # the hand would meet the table.
    offset = (parts.points(wrist) - flange[:3, 3]) @ flange[:3, :3]
    ahead = offset @ outwards
    beside = np.linalg.norm(offset - ahead[:, None] * outwards, axis=1)
    end = float(ahead[beside < BODY_RADIUS].max(initial=-np.inf))
    along = end if np.isfinite(end) and abs(end) > PAD else 0.0
    point = along * outwards + _to_prong(offset, outwards, beside)
    tool = replace(_pointing_along(link, outwards), position=as_vector(point.round(4) + 0.0))
    return tool, "likely", f"where the arm's body ends, seen from the wrist towards {link}, the last link"


def _to_prong(points: FloatArray, outwards: FloatArray, beside: FloatArray) -> FloatArray:
    """Return the way `(3,)` m from the tool's axis to a prong of a fork, between whose prongs objects would pass.

    `points` `(n, 3)` m are on the tool, `beside` `(n,)` m from its axis, which has the direction `outwards` `(3,)`.
    """
    ahead, near = points @ outwards, beside < BODY_RADIUS
    at_end = near & (ahead > ahead[near].max(initial=-np.inf) - PAD)
    if not at_end.any() or beside[at_end].min() < FORK / 2:
        return np.zeros(3)
    nearest = points[at_end][int(beside[at_end].argmin())]
    prong = points[at_end & (np.linalg.norm(points - nearest, axis=1) < FORK)]
    middle: FloatArray = (prong.min(axis=0) + prong.max(axis=0)) / 2
    return middle - (middle @ outwards) * outwards


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
    return EndEffectorSpec(link, as_vector(offset.round(4)), as_quaternion(rotation, 6))


def _last_link(joints: Mapping[str, Joint], link: str) -> str:
    """Return the last link of the fixed joints behind a link: a frame of the tool's, if one has such a name.

    Cameras, sensors and cables are not followed, and frames of tools are preferred to other links.
    """
    children = [joint.child for joint in joints.values() if joint.parent == link and joint.kind == "fixed"]
    children = [child for child in children if not _has_word(child, SENSOR_WORDS)]
    if not children:
        return link
    named = [child for child in children if _has_word(child, TOOL_WORDS)]
    return _last_link(joints, (named or children)[0])


def _has_word(name: str, words: Sequence[str]) -> bool:
    return any(word in name.lower() for word in words)


ARM_JOINTS = 3
"""Smallest number of rotary joints of an arm on a torso or before a palm; heads and fingers may have fewer."""

ARM_LENGTH = 0.5
"""Smallest length of a second arm on a torso, as a share of the first arm's length; heads are shorter."""

ENOUGH_ROTARY = 6
"""Rotary joints with which an arm holds every pose of its tool."""

FINGER_LENGTH = 0.3
"""Largest length of a finger, as a share of the length of the arm with this finger."""


@dataclass(frozen=True)
class Arm:
    """Result of the inference of an arm."""

    joints: tuple[Joint, ...]
    """Rotary joints and slides from the base to the tip; empty if the robot has no arm."""
    hand: tuple[Joint, ...] = ()
    """Moving joints behind the palm of a hand with fingers that have other names; empty without such a hand."""
    reason: str = field(default="", compare=False)
    """Why it has these joints."""


def infer_arm(joints: Mapping[str, Joint]) -> Arm:
    """Return the arm on the longest chain of joints from the root to a tip; fingers do not count.

    A slide belongs to it, e.g. a quill; but a lift or a rail below an arm of six rotary joints stays still, because it
    is slow, and not needed. The arm begins behind the torso, from which several arms go, and ends at the palm, from
    which several fingers go.
    """
    joint_of = {joint.child: joint for joint in joints.values()}

    def chain_to(link: str) -> list[Joint]:
        return [*chain_to(joint_of[link].parent), joint_of[link]] if link in joint_of else []

    rotary = [
        [joint for joint in chain_to(tip) if _is_of_arm(joints, joint) and not _moves_finger(joints, joint)]
        for tip in joint_of
    ]
    longest = max(rotary, key=len, default=[])
    chain = chain_to(longest[-1].child) if longest else []
    palm = next((number for number in range(len(chain)) if _is_finger_on_palm(joints, chain, number)), len(chain))
    has_hand, chain = palm < len(chain), chain[:palm]
    torsos = [number for number in range(len(chain)) if _is_on_torso(joints, chain[number:])]
    arm = tuple(joint for joint in chain[torsos[-1] if torsos else 0 :] if _is_of_arm(joints, joint))
    reasons = ["the longest chain of joints from the root to a tip, without fingers"]
    if torsos:
        reasons.append(f"behind {chain[torsos[-1]].parent}, which carries several arms")
    if has_hand and arm:
        reasons.append(f"up to the palm {arm[-1].child}, which carries several fingers")
    while arm and arm[0].kind == "prismatic" and sum(map(_is_rotary, arm)) >= ENOUGH_ROTARY:
        reasons.append(f"without the slide {arm[0].name}, because the other joints hold every pose")
        arm = arm[1:]
    behind = carried(joints, arm[-1].child) if has_hand else ()
    return Arm(arm, tuple(joint for joint in behind if joint.kind in MOVING_JOINT_TYPES), "; ".join(reasons))


def _is_of_arm(joints: Mapping[str, Joint], joint: Joint) -> bool:
    """Return whether a joint may belong to an arm: a rotary joint, or a slide that is no finger beside another."""
    if joint.kind != "prismatic":
        return _is_rotary(joint)
    if joint.mimic or not joint.lower < joint.upper < math.inf:
        return False
    beside = _beside(joints, joint)
    return not any(other.kind == "prismatic" for other in beside) and _farthest(joints, joint)[0] > 0


def _is_rotary(joint: Joint) -> bool:
    return joint.kind in ROTARY_JOINT_TYPES


def _moves_finger(joints: Mapping[str, Joint], joint: Joint) -> bool:
    """Return whether a joint moves a finger; a wrist that carries several fingers may have the name of a gripper."""
    return is_finger(joint) and (bool(_beside(joints, joint)) or len(list(_moving_on(joints, joint.child))) < 2)


def _is_on_torso(joints: Mapping[str, Joint], chain: Sequence[Joint]) -> bool:
    """Return whether the body that carries a chain also carries another arm, or a leg."""
    if not _is_rotary(chain[0]):
        return False
    shortest = ARM_LENGTH * _length(chain)
    siblings = [joint for joint in _beside(joints, chain[0]) if joint.mimic is None]
    return any(
        count >= ARM_JOINTS and length >= shortest for count, length in (_farthest(joints, other) for other in siblings)
    )


def _is_finger_on_palm(joints: Mapping[str, Joint], chain: Sequence[Joint], number: int) -> bool:
    """Return whether a joint of a chain is the first joint of a finger, beside other fingers."""
    if not _is_rotary(chain[number]) or sum(map(_is_rotary, chain[:number])) < ARM_JOINTS:
        return False
    _, finger = _farthest(joints, chain[number])
    return bool(_beside(joints, chain[number])) and finger <= FINGER_LENGTH * (_length(chain[: number + 1]) + finger)


def _length(chain: Sequence[Joint]) -> float:
    """Return the length of a chain from its first joint to its last, m."""
    return sum(float(np.linalg.norm(joint.origin[:3, 3])) for joint in chain[1:])


def _farthest(joints: Mapping[str, Joint], joint: Joint) -> tuple[int, float]:
    """Return the largest number of rotary joints in a chain that begins with a joint, and the largest length, m."""
    behind = [(other, *_farthest(joints, other)) for other in joints.values() if other.parent == joint.child]
    lengths = [float(np.linalg.norm(other.origin[:3, 3])) + length for other, _, length in behind]
    return _is_rotary(joint) + max((count for _, count, _ in behind), default=0), max(lengths, default=0.0)


def _beside(joints: Mapping[str, Joint], joint: Joint) -> list[Joint]:
    """Return the other moving joints on the rigid body that carries a joint."""
    joint_of = {other.child: other for other in joints.values()}
    body = joint.parent
    while body in joint_of and joint_of[body].kind == "fixed":
        body = joint_of[body].parent
    return [other for other in _moving_on(joints, body) if other.name != joint.name]


def _moving_on(joints: Mapping[str, Joint], link: str) -> Iterator[Joint]:
    """Yield the moving joints on a link and on the links that are fixed to it."""
    for joint in joints.values():
        if joint.parent == link and joint.kind == "fixed":
            yield from _moving_on(joints, joint.child)
        elif joint.parent == link and joint.kind in MOVING_JOINT_TYPES:
            yield joint
