"""Robots as data: `load_robot("panda") -> RobotSpec`."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from mygym.errors import AssetError, bad_value
from mygym.robotics.assets import asset_names, find_asset, find_beside, read_asset
from mygym.robotics.inference.robots import infer_joint
from mygym.robotics.robots import JointSpec, RobotSpec, cached_by_model, check_model, check_name, mounted_model
from mygym.robotics.urdf import read_joints

LIMITS = ("lower", "upper", "velocity", "effort")
"""Keys of a joint that a YAML file need not state."""


def robot_names() -> tuple[str, ...]:
    """Return the names of the built-in robots; no file is opened."""
    return asset_names("robots")


def load_robot(name: str | Path) -> RobotSpec:
    """Load a built-in robot by name, or a robot from a YAML file.

    Raises:
        AssetError: Unknown name; an unknown, missing or invalid key; a missing URDF; or a joint or link that the
            URDF lacks.
    """
    path = find_asset("robots", name)
    spec = read_asset(RobotSpec, path)
    try:
        return resolved(spec, path)
    except AssetError as error:
        raise AssetError(f"{path}: {error}") from error


def resolved(spec: RobotSpec, path: Path) -> RobotSpec:
    """Return the robot of a YAML file with the absolute paths of its URDF files, all limits of joints, and a name.

    Raises:
        AssetError: A missing URDF or mesh, a joint, limit or link that the URDF lacks, or a link without mass or
            inertia.
    """
    mounts = tuple(replace(mount, urdf=str(find_beside(path, mount.urdf))) for mount in spec.mounts)
    spec = replace(spec, name=spec.name or path.stem, urdf=str(find_beside(path, spec.urdf)), mounts=mounts)
    if any(math.isnan(getattr(joint, limit)) for arm in spec.arms for joint in arm.joints for limit in LIMITS):
        spec = _with_limits(spec)
    check_model(spec)
    return spec


@cached_by_model
def _with_limits(spec: RobotSpec) -> RobotSpec:
    """Return a robot with the limits of its URDF for joints that state none.

    Raises:
        AssetError: The URDF lacks the joint, or its limit.
    """
    joints = read_joints(mounted_model(spec))

    def completed(key: str, joint: JointSpec) -> JointSpec:
        check_name(f"{key}.name", joint.name, joints, "joint")
        limits = {name: getattr(infer_joint(joints[joint.name]), name) for name in LIMITS}
        limits = {name: limit for name, limit in limits.items() if math.isnan(getattr(joint, name))}
        for name, limit in limits.items():
            if limit != getattr(joints[joint.name], name):  # it would be assumed
                allowed = f"a number, such as {limit:g}: the URDF has none for {joint.name}"
                raise AssetError(bad_value(f"{key}.{name}", None, allowed, "is missing"))
        return replace(joint, **limits)

    first, *second = (
        tuple(completed(f"{key}joints.{index}", joint) for index, joint in enumerate(arm.joints))
        for key, arm in zip(("", "second_arm."), spec.arms, strict=False)
    )
    second_arm = replace(spec.second_arm, joints=second[0]) if spec.second_arm else None
    return replace(spec, joints=first, second_arm=second_arm)
