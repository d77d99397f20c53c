"""Robots as data: `load_robot("panda") -> RobotSpec`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mygym.errors import AssetError, bad_value
from mygym.nested import merged
from mygym.robotics.assets import as_asset, find_asset, find_beside, read_asset, read_mapping
from mygym.robotics.inference.base_placement import place_base
from mygym.robotics.inference.robots import Inferred, infer_joint, infer_robot
from mygym.robotics.robots import JointSpec, RobotSpec, cached_by_model, check_model, check_name, mounted_model
from mygym.robotics.surface_points import MeshReader
from mygym.robotics.urdf import read_joints
from mygym.robotics.workspace import find_workspace

LIMITS = ("lower", "upper", "velocity", "effort")
"""Keys of a joint that a YAML file need not state."""


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
    """Return a robot with the limits of its URDF for joints that state none."""
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


SECTIONS = ("base_position", "base_orientation", "joints", "end_effector")
"""Keys of a complete file."""


def lacks_sections(data: Mapping[str, Any]) -> bool:
    """Return whether a robot's YAML file leaves something to the inference: a section, or joints other than a list."""
    return "urdf" in data and (not set(SECTIONS) <= data.keys() or isinstance(data["joints"], Mapping))


def complete_robot(path: Path, read_mesh: MeshReader) -> Inferred | None:
    """Return the robot of a YAML file that leaves sections to the inference; None for a complete file.

    Values of the file replace the inferred values, key by key; `joints` is a mapping from the names of joints to their
    corrections, or a list of all joints. With another tool point, base and home are chosen anew.

    Raises:
        AssetError: The file is invalid, it corrects a joint that the arm lacks, or its URDF does not describe a robot.
    """
    data = read_mapping(path)
    if not lacks_sections(data):
        return None
    try:
        if not isinstance(data["urdf"], str):
            raise AssetError(bad_value("urdf", data["urdf"], "the path of a URDF"))
        inferred = infer_robot(find_beside(path, data["urdf"]), read_mesh)
        values = asdict(inferred.spec) | {"name": ""}
        if "end_effector" in data and "base_position" not in data:
            spec = as_asset(RobotSpec, _corrected(values, {"end_effector": data["end_effector"]}))
            table = find_workspace("table")
            spec, _ = place_base(spec, table, read_mesh)
            values = asdict(spec)
        spec = resolved(as_asset(RobotSpec, _corrected(values, data)), path)
    except AssetError as error:
        raise AssetError(f"{path}: {error}") from error
    left = tuple(finding for finding in inferred.findings if finding.key.partition(".")[0] not in data)
    return replace(inferred, spec=spec, findings=left)


def _corrected(values: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inferred values with the values of a file in their place."""
    if not isinstance(changes := data.get("joints"), Mapping):
        return merged(values, data)
    known = {joint["name"]: joint for joint in values["joints"]}
    for name, change in changes.items():
        if name not in known:
            raise AssetError(bad_value("joints", str(name), known, "is no joint of the arm"))
        if not isinstance(change, Mapping):
            raise AssetError(bad_value(f"joints.{name}", change, "a mapping, such as {home: 0.0}"))
    joints = [merged(joint, changes.get(name, {})) for name, joint in known.items()]
    return merged(values, {**data, "joints": joints})
