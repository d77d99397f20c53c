"""Robots whose YAML file has corrections alone: missing sections are inferred from its URDF."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mygym.errors import AssetError, bad_value
from mygym.nested import merged
from mygym.registry import registry
from mygym.robotics.assets import as_asset, find_beside, read_mapping
from mygym.robotics.inference.base_placement import place_base
from mygym.robotics.inference.robots import Inferred, infer_robot
from mygym.robotics.robot import resolved
from mygym.robotics.robots import RobotSpec
from mygym.robotics.surface_points import MeshReader
from mygym.robotics.workspace import load_workspace

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
            spec, _ = place_base(spec, load_workspace(Path(registry("workspace").get("table").load())))
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
