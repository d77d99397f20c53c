"""`Hand`: the links behind a wrist, how their joints depend on each other, and where their surfaces are."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mygym.robotics.robot_spec import positions_of
from mygym.robotics.surface_points import points_of_links
from mygym.robotics.urdf import MOVING_JOINT_TYPES, Joint
from mygym.types import FloatArray

ROTARY_JOINT_TYPES = ("revolute", "continuous")

UNLIMITED = math.pi / 2
"""rad: a finger turns as far to either side if nothing limits it."""

Positions = Mapping[str, float]
"""Joint → position, rad or m."""


def carried(joints: Mapping[str, Joint], link: str) -> Iterator[Joint]:
    """Yield all joints behind a link, each before the joints that it carries."""
    for joint in joints.values():
        if joint.parent == link:
            yield joint
            yield from carried(joints, joint.child)


@dataclass(frozen=True, eq=False)
class Finger:
    """A moving link on the palm, and all links behind it."""

    joints: tuple[Joint, ...]
    """Moving joints, each before the joints that it carries."""

    @property
    def links(self) -> tuple[str, ...]:
        """Links that move, without the links that are fixed to them."""
        return tuple(joint.child for joint in self.joints)


class Hand:
    """Links and joints that a wrist carries; all poses are in the frame of the wrist, the last link of the arm."""

    def __init__(self, root: ET.Element, joints: Mapping[str, Joint], wrist: str) -> None:
        self.root, self.joints, self.wrist = root, joints, wrist
        self.order = tuple(carried(joints, wrist))
        self._points: dict[str, FloatArray] = {}

    @cached_property
    def fingers(self) -> tuple[Finger, ...]:
        """The moving links on the palm."""
        palm = {self.wrist}
        fingers = []
        for joint in self.order:
            if joint.parent in palm and joint.kind == "fixed":
                palm.add(joint.child)
            elif joint.parent in palm and joint.kind in MOVING_JOINT_TYPES:
                behind = (other for other in carried(self.joints, joint.child) if other.kind in MOVING_JOINT_TYPES)
                fingers.append(Finger((joint, *behind)))
        return tuple(fingers)

    def driver(self, joint: Joint) -> str:
        """Return the name of the joint that a joint follows; of a joint that follows none, its name."""
        seen = {joint.name}
        while joint.mimic and joint.mimic.joint in self.joints and joint.mimic.joint not in seen:
            seen.add(joint.mimic.joint)
            joint = self.joints[joint.mimic.joint]
        return joint.name

    def limits(self, driver: str) -> tuple[float, float]:
        """Return the range of a joint that others follow, rad or m; that of the followers if it has no limits."""
        joint = self.joints[driver]
        low, high = joint.lower, joint.upper
        if joint.kind == "continuous" or not (math.isfinite(low) and math.isfinite(high) and low < high):
            low, high = (-UNLIMITED, UNLIMITED) if joint.kind in ROTARY_JOINT_TYPES else (0.0, 0.0)
        if joint.kind in ROTARY_JOINT_TYPES:
            low, high = max(low, -math.pi), min(high, math.pi)
        return low, high

    def positions(self, drivers: Positions) -> dict[str, float]:
        """Return the positions of all moving joints behind the wrist, from those of the joints that they follow."""
        moving = [joint.name for joint in self.order if joint.kind in MOVING_JOINT_TYPES]
        return positions_of(self.joints, moving, drivers)

    def poses(self, positions: Positions) -> dict[str, FloatArray]:
        """Return the poses `(4, 4)` of all links behind the wrist; joints without a position are at zero."""
        poses = {self.wrist: np.eye(4)}
        for joint in self.order:
            moved = joint.motion(positions.get(joint.name, 0.0))
            poses[joint.child] = poses[joint.parent] @ joint.origin @ moved
        return poses

    def rigid(self, link: str) -> Iterator[tuple[str, FloatArray]]:
        """Yield a link and the links that are fixed to it, each with its pose `(4, 4)` in the frame of the link."""
        poses = {link: np.eye(4)}
        yield link, poses[link]
        for joint in carried(self.joints, link):
            if joint.parent in poses and joint.kind == "fixed":
                poses[joint.child] = poses[joint.parent] @ joint.origin
                yield joint.child, poses[joint.child]

    def points(self, link: str) -> FloatArray:
        """Return points `(n, 3)` m on a link and the links that are fixed to it, in its frame."""
        if link not in self._points:
            self._points[link] = points_of_links(self.root, self.rigid(link))
        return self._points[link]

    def has_primitives(self, link: str) -> bool:
        """Return whether a link and the links that are fixed to it have collision shapes, and no meshes among them."""
        bodies = [self.root.find(f"link[@name='{name}']") for name, _ in self.rigid(link)]
        shapes = [shape.tag for body in bodies if body is not None for shape in body.findall("collision/geometry/*")]
        return bool(shapes) and "mesh" not in shapes
