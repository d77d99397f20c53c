"""`RobotSpec`: description of a robot with its arms, joints, gripper, tools and motors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from pydantic import Field

from mygym.errors import ConfigError, bad_value
from mygym.models.assets import STRICT, FiniteVector, Number, Quaternion
from mygym.models.transforms import quaternion_to_matrix

Positive = Annotated[Number, Field(gt=0)]

AS_IN_URDF = math.nan
"""Limit of a joint whose YAML file states none, until the file is loaded; see `mygym.models.robot.resolved`."""


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


def with_closed_hand(robot: RobotSpec) -> RobotSpec:
    """Return the robot with the tool point of the first arm where its closed fingers meet."""
    if robot.gripper is None or not any(robot.gripper.closed_tip):
        return robot
    tool = robot.end_effector
    offset = quaternion_to_matrix(tool.orientation) @ np.array(robot.gripper.closed_tip)
    x, y, z = (float(value) for value in np.array(tool.position) + offset)
    gripper = replace(robot.gripper, closed_tip=(0.0, 0.0, 0.0))
    return replace(robot, end_effector=replace(tool, position=(x, y, z)), gripper=gripper)


def at_home(robot: RobotSpec, home: Sequence[float]) -> RobotSpec:
    """Return the robot with another home of its joints.

    Args:
        robot: The robot.
        home: `(J,)` rad, of the joints of all arms.

    Raises:
        ConfigError: Another number of joints, or a position beyond the limits of its joint.
    """
    joints = [joint for arm in robot.arms for joint in arm.joints]
    if len(home) != len(joints):
        names = ", ".join(joint.name for joint in joints)
        allowed = f"{len(joints)} joint positions in rad, of {names}"
        raise ConfigError(bad_value("robot_params.home", list(home), allowed, f"has {len(home)} numbers"))
    for index, (joint, position) in enumerate(zip(joints, home, strict=True)):
        if not joint.lower <= position <= joint.upper:
            allowed = f"{joint.lower:g} to {joint.upper:g} rad, the limits of {joint.name}"
            raise ConfigError(bad_value(f"robot_params.home.{index}", position, allowed))
    moved = tuple(replace(joint, home=position) for joint, position in zip(joints, home, strict=True))
    first = len(robot.joints)
    second = robot.second_arm and replace(robot.second_arm, joints=moved[first:])
    return replace(robot, joints=moved[:first], second_arm=second)
