"""Robots as data: `load_robot("panda") -> RobotSpec`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mygym.errors import AssetError, bad_value
from mygym.sim.assets import STRICT, Number, Quaternion, Vector, asset_names, find_asset, read_asset
from mygym.sim.urdf import Joint, read_joints, read_urdf

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
    """m: joint positions when closed."""
    open: tuple[Number, ...]
    """m: joint positions when open."""
    width: Positive
    """m between the fingers when open; 0 when closed."""
    force: Positive
    """N: largest force of each finger."""
    velocity: Positive
    """m/s: largest speed of each finger."""


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
class RobotSpec:
    """A fixed arm, in SI units. Collision and visual shapes are those of the URDF: primitives keep a reset cheap."""

    __pydantic_config__ = STRICT

    urdf: str
    """File name, relative to the YAML file; `pybullet_data/...` is looked up in that package. Absolute once loaded."""
    base_position: Vector
    base_orientation: Quaternion
    joints: tuple[JointSpec, ...]
    """The arm, from the base to the tip."""
    end_effector: EndEffectorSpec
    gripper: GripperSpec | None = None
    motor: MotorSpec = MotorSpec()
    name: str = ""
    """The file's stem, unless given."""


def robot_names() -> tuple[str, ...]:
    """Robots that come with the package; no file is opened."""
    return asset_names("robots")


def load_robot(name: str | Path) -> RobotSpec:
    """The robot of this name, or of this YAML file.

    Raises:
        AssetError: unknown name; an unknown, missing or wrong key; a URDF or mesh that is missing; a joint or link that
            the URDF does not have.
    """
    path = find_asset("robots", name)
    spec = read_asset(RobotSpec, path)
    spec = replace(spec, name=spec.name or path.stem, urdf=str(_find_urdf(path, spec.urdf)))
    try:
        _check(spec)
    except AssetError as error:
        raise AssetError(f"{path}: {error}") from error
    return spec


def _find_urdf(path: Path, urdf: str) -> Path:
    beside = path.parent / urdf
    if not beside.is_file() and urdf.startswith("pybullet_data/"):
        return Path(import_module("pybullet_data").getDataPath()) / urdf.removeprefix("pybullet_data/")
    return beside.resolve()


def _check(spec: RobotSpec) -> None:
    """Everything the YAML says of the URDF must be true."""
    root = read_urdf(Path(spec.urdf))
    joints = read_joints(root)
    links = [link.get("name", "") for link in root.findall("link")]
    for index, joint in enumerate(spec.joints):
        _check_joint(f"joints.{index}", joint.name, joints, ("revolute", "continuous"))
        if not joint.lower <= joint.home <= joint.upper:
            raise AssetError(bad_value(f"joints.{index}.home", joint.home, f"{joint.lower} to {joint.upper}"))
    if spec.end_effector.link not in links:
        raise AssetError(bad_value("end_effector.link", spec.end_effector.link, links, "is not a link of the URDF"))
    gripper = spec.gripper
    if gripper is None:
        return
    for index, name in enumerate(gripper.joints):
        _check_joint(f"gripper.joints.{index}", name, joints, ("revolute", "prismatic"))
    for index, name in enumerate(gripper.links):
        if name not in links:
            raise AssetError(bad_value(f"gripper.links.{index}", name, links, "is not a link of the URDF"))
    for key in ("closed", "open"):
        if len(getattr(gripper, key)) != len(gripper.joints):
            raise AssetError(bad_value(f"gripper.{key}", list(getattr(gripper, key)), "one number for each joint"))


def _check_joint(key: str, name: str, joints: dict[str, Joint], kinds: tuple[str, ...]) -> None:
    if name not in joints:
        raise AssetError(bad_value(f"{key}.name", name, joints, "is not a joint of the URDF"))
    if joints[name].kind not in kinds:
        raise AssetError(
            bad_value(f"{key}.name", name, f"a joint that is {' or '.join(kinds)}", f"is {joints[name].kind}")
        )
