"""`RobotSpec`: description of a robot; its checks against the URDF, and the URDF as it is simulated."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from pydantic import Field

from mygym.errors import AssetError, ConfigError, MygymError, bad_value
from mygym.robotics.assets import STRICT, FiniteVector, Number, Positive, Quaternion
from mygym.robotics.files import Stamp, cached_by
from mygym.robotics.robot_descriptions import read_robot, robot_stamps
from mygym.robotics.transforms import as_vector, pose_matrix, quaternion_to_matrix
from mygym.robotics.urdf import (
    MOVING_JOINT_TYPES,
    Joint,
    add_prefix,
    attach,
    inertial,
    links_of,
    lock_joints,
    merge_fixed_joints,
    read_joints,
    root_link,
    set_inertial,
    set_origin,
    text_of,
)

AS_IN_URDF = math.nan
"""Limit of a joint whose YAML file states none, until the file is loaded; see `mygym.robotics.robot.resolved`."""


@dataclass(frozen=True)
class JointSpec:
    """One commanded joint of the arm; of a prismatic joint, m, m/s and N stand for rad, rad/s and N m.

    Limits that a YAML file leaves out are the URDF's.
    """

    __pydantic_config__ = STRICT

    name: str
    """The joint's name in the URDF."""
    home: Number
    """rad: position after a reset, and target of the null-space motion."""
    lower: Number = AS_IN_URDF
    """rad: lower position limit."""
    upper: Number = AS_IN_URDF
    """rad: upper position limit."""
    velocity: Positive = AS_IN_URDF
    """rad/s: largest speed."""
    effort: Positive = AS_IN_URDF
    """N m: largest torque."""


@dataclass(frozen=True)
class EndEffectorSpec:
    """Tool point in the frame of a link: between the finger tips, or at the tip of a tool; z points outwards."""

    __pydantic_config__ = STRICT

    link: str
    position: FiniteVector = (0.0, 0.0, 0.0)
    """m, in the link's frame."""
    orientation: Quaternion = (0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True)
class PadSpec:
    """A box that collides in place of the shapes of a link, and of the links that are fixed to it."""

    __pydantic_config__ = STRICT

    link: str
    size: FiniteVector
    """m: its edges."""
    position: FiniteVector = (0.0, 0.0, 0.0)
    """m: its centre, in the link's frame."""
    orientation: Quaternion = (0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True)
class GripperSpec:
    """Fingers that open and close together."""

    __pydantic_config__ = STRICT

    joints: tuple[str, ...]
    links: tuple[str, ...]
    """Finger links whose contacts are observed, in the order of `State.finger_contact`."""
    closed: tuple[Number, ...]
    """m or rad: joint positions when closed."""
    open: tuple[Number, ...]
    """m or rad: joint positions when open."""
    width: Positive
    """m between the fingers when open; 0 when closed."""
    force: Positive
    """N or N m: largest force of each finger."""
    velocity: Positive
    """m/s or rad/s: largest speed of each finger."""
    friction: Positive = 1.0
    """Friction of finger links whose URDF has none; Bullet multiplies it by the object's."""
    pads: tuple[PadSpec, ...] = ()
    """Boxes that collide in place of the meshes of fingers and palm, whose enclosing shapes would fill the gap."""
    closed_tip: FiniteVector = (0.0, 0.0, 0.0)
    """m, in the frame of the tool point: where the fingers meet when closed, e.g. at the fixed jaw of a hand with one
    moving jaw. It is the tool point of tasks that keep the hand closed."""


@dataclass(frozen=True)
class MotorSpec:
    """Motor control: the arm follows velocities, the fingers positions."""

    __pydantic_config__ = STRICT

    position_gain: Positive = 50.0
    """1/s, of the fingers: inverse of the time in which an error falls to 37 %, within the limits."""
    acceleration: Positive = 60.0
    """rad/s²: deceleration limit of the arm. Larger values follow closer and overshoot more."""
    velocity_gain: Annotated[Number, Field(gt=0, le=1)] = 1.0
    """Share of the velocity error that is corrected in a physics step."""


@dataclass(frozen=True)
class ArmSpec:
    """One arm of several on the same body."""

    __pydantic_config__ = STRICT

    joints: tuple[JointSpec, ...]
    """From the base to the tip."""
    end_effector: EndEffectorSpec
    gripper: GripperSpec | None = None


@dataclass(frozen=True)
class MountSpec:
    """A tool or a second arm from another URDF, fixed to a link of the robot."""

    __pydantic_config__ = STRICT

    urdf: str
    """As `RobotSpec.urdf`."""
    link: str
    """Link of the robot on which the tool's root link is mounted."""
    position: FiniteVector = (0.0, 0.0, 0.0)
    """m, in that link's frame."""
    orientation: Quaternion = (0.0, 0.0, 0.0, 1.0)
    prefix: str = ""
    """Prefix of the names of the tool's links and joints, needed if the robot has links or joints of these names."""


@dataclass(frozen=True)
class MountedCameraSpec:
    """A camera on a link of the robot; all vectors are in the link's frame."""

    __pydantic_config__ = STRICT

    link: str
    position: FiniteVector
    """m."""
    target: FiniteVector
    """m: a point that the camera looks at."""
    up: FiniteVector
    """A direction that points up in the image."""
    fov: Annotated[Number, Field(gt=1, lt=170)] = 60.0
    """Vertical field of view, degrees."""


@dataclass(frozen=True)
class RobotSpec:
    """One or two arms on a fixed base, in SI units.

    Collision and visual shapes are the URDF's. Collision meshes are replaced by their smallest enclosing primitives,
    because every reset loads the robot again.
    """

    __pydantic_config__ = STRICT

    urdf: str
    """File name, relative to the YAML file; `pybullet_data/...`, `example_robot_data/...` and `mygym/...` (its
    `assets`) are looked up in these packages. Absolute after loading."""
    base_position: FiniteVector
    """m, of the URDF's root link."""
    base_orientation: Quaternion
    joints: tuple[JointSpec, ...]
    """The arm, from the base to the tip."""
    end_effector: EndEffectorSpec
    gripper: GripperSpec | None = None
    second_arm: ArmSpec | None = None
    """In actions, its commands follow the commands of the first arm; tasks for one arm use the first arm."""
    mounts: tuple[MountSpec, ...] = ()
    cameras: dict[str, MountedCameraSpec] = field(default_factory=dict, hash=False)
    """Cameras that move with a link, by name, e.g. `wrist`."""
    locked: dict[str, Number] = field(default_factory=dict, hash=False)
    """rad or m: positions of joints outside arms and grippers; by default zero or the nearest limit."""
    motor: MotorSpec = MotorSpec()
    area_scale: Annotated[Number, Field(gt=0, le=1)] = 1.0
    """Size of the areas for a short arm, in workspaces that shrink; see `WorkspaceSpec.fit`."""
    cannot: tuple[str, ...] = ()
    """Stages that the robot's shape does not allow; a comment in its file states the reason."""
    name: str = ""
    """Name; by default the file's stem."""

    @property
    def arms(self) -> tuple[ArmSpec, ...]:
        """The first arm and, if any, the second."""
        first = ArmSpec(self.joints, self.end_effector, self.gripper)
        return (first, self.second_arm) if self.second_arm else (first,)

    @property
    def all_joints(self) -> tuple[JointSpec, ...]:
        """Joints of all arms."""
        return tuple(joint for arm in self.arms for joint in arm.joints)

    def with_joints(self, joints: Sequence[JointSpec]) -> RobotSpec:
        """Return the robot with other joints of all arms."""
        first, second = tuple(joints[: len(self.joints)]), tuple(joints[len(self.joints) :])
        return replace(self, joints=first, second_arm=self.second_arm and replace(self.second_arm, joints=second))


def with_closed_hand(robot: RobotSpec) -> RobotSpec:
    """Return the robot with the tool point of the first arm where its closed fingers meet."""
    if robot.gripper is None or not any(robot.gripper.closed_tip):
        return robot
    tool = robot.end_effector
    offset = quaternion_to_matrix(tool.orientation) @ np.array(robot.gripper.closed_tip)
    tool = replace(tool, position=as_vector(np.array(tool.position) + offset))
    return replace(robot, end_effector=tool, gripper=replace(robot.gripper, closed_tip=(0.0, 0.0, 0.0)))


def at_home(robot: RobotSpec, home: Sequence[float]) -> RobotSpec:
    """Return the robot with another home of its joints: `(J,)` rad, of all arms.

    Raises:
        ConfigError: Another number of joints, or a position beyond the limits of its joint.
    """
    joints = robot.all_joints
    if len(home) != len(joints):
        names = ", ".join(joint.name for joint in joints)
        allowed = f"{len(joints)} joint positions in rad, of {names}"
        raise ConfigError(bad_value("robot_params.home", list(home), allowed, f"has {len(home)} numbers"))
    for index, (joint, position) in enumerate(zip(joints, home, strict=True)):
        if not joint.lower <= position <= joint.upper:
            allowed = f"{joint.lower:g} to {joint.upper:g} rad, the limits of {joint.name}"
            raise ConfigError(bad_value(f"robot_params.home.{index}", position, allowed))
    return robot.with_joints([replace(joint, home=position) for joint, position in zip(joints, home, strict=True)])


def _stamps(spec: RobotSpec) -> tuple[tuple[Stamp, ...], ...] | None:
    """Return a value that changes with a robot's URDF and mesh files; None if one of them cannot be read."""
    try:
        return tuple(robot_stamps(path) for path in (spec.urdf, *(mount.urdf for mount in spec.mounts)))
    except MygymError:  # the function that is cached describes what is missing
        return None


cached_by_model = cached_by(_stamps, 64)
"""Caches a function of a robot: environments are often made by the dozen with the same robot."""


def robot_model(spec: RobotSpec, gripper: bool = True) -> ET.Element:
    """Return the `<robot>` element in which only the joints of the arms and grippers move.

    Args:
        spec: From `load_robot`.
        gripper: False to fix the fingers closed as well, which saves the solver a third of its work.
    """
    root = mounted_model(spec)
    joints, known = read_joints(root), dict(spec.locked)
    commanded = [joint.name for joint in spec.all_joints]
    for arm in spec.arms:
        if hand := arm.gripper:
            known |= zip(hand.joints, hand.closed, strict=True)
            commanded += hand.joints if gripper else ()
            for link in root.findall("link"):
                if link.get("name") in hand.links and link.find("contact") is None:
                    ET.SubElement(ET.SubElement(link, "contact"), "lateral_friction", value=repr(hand.friction))
            _set_pads(root, hand)
        _set_limits(root, arm)
    still = [name for name, joint in joints.items() if joint.kind != "fixed" and name not in commanded]
    lock_joints(root, positions_of(joints, still, known))
    base = next(link for link in root.findall("link") if link.get("name") == root_link(root))
    if inertial(base)[0] == 0:  # Bullet prints a warning at every load; the base is fixed, so its mass has no effect
        set_inertial(base, 1.0, np.zeros(3), np.eye(3))
    return root


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


def _set_limits(root: ET.Element, arm: ArmSpec) -> None:
    """Widen limits that exclude positions which an arm or its fingers are sent to: an engine would stop them there.

    A joint of an arm that the URDF does not limit gets its own limits, unless it is `continuous`.
    """
    joints = read_joints(root)
    ends = {joint.name: (joint.lower, joint.upper) for joint in arm.joints}
    if arm.gripper:
        fingers = zip(arm.gripper.joints, arm.gripper.closed, arm.gripper.open, strict=True)
        ends |= {name: (min(pair), max(pair)) for name, *pair in fingers}
    for element in root.findall("joint"):
        joint = joints[element.get("name", "")]
        if joint.kind == "continuous" or joint.name not in ends:
            continue
        lower, upper = ends[joint.name]
        lower = joint.lower if -math.inf < joint.lower < lower else lower
        upper = joint.upper if upper < joint.upper < math.inf else upper
        if (lower, upper) != (joint.lower, joint.upper):
            limit = element.find("limit")
            limit = ET.SubElement(element, "limit") if limit is None else limit
            limit.attrib.update(lower=repr(float(lower)), upper=repr(float(upper)))


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


def positions_of(joints: Mapping[str, Joint], names: Iterable[str], known: Mapping[str, float]) -> dict[str, float]:
    """Return the positions of joints, rad or m: known, or where another joint leads, or zero or the nearest limit."""

    def position(joint: Joint, depth: int) -> float:
        mimic = joint.mimic
        if joint.name in known or mimic is None or mimic.joint not in joints or depth > len(joints):
            rest = 0.0 if joint.kind == "continuous" else float(np.clip(0.0, joint.lower, joint.upper))
            return known.get(joint.name, rest)
        return mimic.multiplier * position(joints[mimic.joint], depth + 1) + mimic.offset

    return {name: position(joints[name], 0) for name in names}


def check_name(key: str, name: str, names: Collection[str], kind: str) -> None:
    """Raise an `AssetError` unless `name` is among the names of the URDF's links or joints (`kind`)."""
    if name not in names:
        raise AssetError(bad_value(key, name, list(names), f"is not a {kind} of the URDF"))


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
    fingers = [name for arm in spec.arms if arm.gripper for name in arm.gripper.joints]
    commanded = {joint.name for joint in spec.all_joints} | set(fingers)
    free = [name for name, joint in joints.items() if joint.kind != "fixed" and name not in commanded]
    for name in free:
        if (mimic := joints[name].mimic) and mimic.joint in fingers and name not in spec.locked:
            allowed = f"also {name}, which follows {mimic.joint}; or its position under `locked`"
            raise AssetError(bad_value("gripper.joints", fingers, allowed, "leaves a finger behind"))
    for name in spec.locked:
        if name not in free:
            raise AssetError(bad_value("locked", name, free, "is no moving joint outside arms and grippers"))
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
        if joint.lower > joint.upper:
            allowed = f"at most {joint.upper}, the upper limit"
            raise AssetError(bad_value(f"{key}joints.{index}.lower", joint.lower, allowed))
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
