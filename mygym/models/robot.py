"""Robots as data: `load_robot("panda") -> RobotSpec`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mygym.errors import AssetError
from mygym.models.assets import STRICT, Number, Quaternion, Vector, asset_names, find_asset, find_beside, read_asset
from mygym.models.robot_model import check_model

Positive = Annotated[Number, Field(gt=0)]


@dataclass(frozen=True)
class JointSpec:
    """One commanded joint of the arm."""

    __pydantic_config__ = STRICT

    name: str
    """The joint's name in the URDF."""
    home: Number
    """rad: position after a reset, and where the null space is pulled to."""
    lower: Number
    """rad: lower position limit."""
    upper: Number
    """rad: upper position limit."""
    velocity: Positive
    """rad/s: largest speed."""
    effort: Positive
    """N m: largest torque."""


@dataclass(frozen=True)
class EndEffectorSpec:
    """The tool point in the frame of a link: between the finger tips, or the tip of a tool; z points out."""

    __pydantic_config__ = STRICT

    link: str
    position: Vector = (0.0, 0.0, 0.0)
    """m, in the link's frame."""
    orientation: Quaternion = (0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True)
class GripperSpec:
    """Fingers that open and close together."""

    __pydantic_config__ = STRICT

    joints: tuple[str, ...]
    links: tuple[str, ...]
    """The finger links whose contacts count, in the order of `State.finger_contact`."""
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
    """Of finger links of which the URDF does not say it; Bullet multiplies it by the object's."""


@dataclass(frozen=True)
class MotorSpec:
    """How the motors follow their targets: the arm by velocities, fingers to positions."""

    __pydantic_config__ = STRICT

    position_gain: Positive = 50.0
    """1/s, of the fingers: the inverse of the time in which an error falls to 37 %, while no limit binds."""
    acceleration: Positive = 60.0
    """rad/s²: the arm slows down in time to need no harder braking. Larger follows closer and overshoots more."""
    velocity_gain: Annotated[Number, Field(gt=0, le=1)] = 1.0
    """Part of the velocity error that is corrected in one physics step."""


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
    """A tool or a second arm from a URDF of its own, fixed to a link of the robot."""

    __pydantic_config__ = STRICT

    urdf: str
    """As of the robot."""
    link: str
    """Of the robot: where the tool's root link is put."""
    position: Vector = (0.0, 0.0, 0.0)
    """m, in that link's frame."""
    orientation: Quaternion = (0.0, 0.0, 0.0, 1.0)
    prefix: str = ""
    """Before the names of the tool's links and joints: of a URDF that the robot has already, to tell them apart."""


@dataclass(frozen=True)
class RobotSpec:
    """One or two arms on a fixed base, in SI units.

    Collision and visual shapes are those of the URDF; of collision meshes the smallest enclosing primitives are taken,
    because every reset loads the robot anew.
    """

    __pydantic_config__ = STRICT

    urdf: str
    """File name, relative to the YAML file; `pybullet_data/...`, `example_robot_data/...` and `mygym/...` (its
    `assets`) are looked up in these packages. Absolute once loaded."""
    base_position: Vector
    """m, of the URDF's root link."""
    base_orientation: Quaternion
    joints: tuple[JointSpec, ...]
    """The arm, from the base to the tip."""
    end_effector: EndEffectorSpec
    gripper: GripperSpec | None = None
    second_arm: ArmSpec | None = None
    """Acts in the same action vector; tasks of one arm are done by the first."""
    mounts: tuple[MountSpec, ...] = ()
    locked: dict[str, Number] = field(default_factory=dict)
    """rad or m: positions of joints that are neither of an arm nor of a gripper; the others of these are held at zero,
    or at the limit next to it."""
    motor: MotorSpec = MotorSpec()
    cannot: tuple[str, ...] = ()
    """Stages that its shape is not made for; a comment in its file says why."""
    name: str = ""
    """The file's stem, unless given."""

    @property
    def arms(self) -> tuple[ArmSpec, ...]:
        """The first arm, then the second if there is one."""
        first = ArmSpec(self.joints, self.end_effector, self.gripper)
        return (first, self.second_arm) if self.second_arm else (first,)


def robot_names() -> tuple[str, ...]:
    """Robots that come with the package; no file is opened."""
    return asset_names("robots")


def load_robot(name: str | Path) -> RobotSpec:
    """The robot of this name, or of this YAML file.

    Raises:
        AssetError: unknown name; an unknown, missing or wrong key; a URDF or mesh that is missing; a joint or link that
            the URDF does not have; a moving link without mass or inertia.
    """
    path = find_asset("robots", name)
    spec = read_asset(RobotSpec, path)
    try:
        mounts = tuple(replace(mount, urdf=str(find_beside(path, mount.urdf))) for mount in spec.mounts)
        spec = replace(spec, name=spec.name or path.stem, urdf=str(find_beside(path, spec.urdf)), mounts=mounts)
        check_model(spec)
    except AssetError as error:
        raise AssetError(f"{path}: {error}") from error
    return spec
