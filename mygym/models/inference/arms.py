"""Inference of a robot's arm from its URDF: the joints between the body and the hand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mygym.models.inference.hands import ROTARY_JOINT_TYPES, carried
from mygym.models.inference.tools import is_finger
from mygym.models.urdf import Joint
from mygym.models.urdf_validation import MOVING_JOINT_TYPES

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
