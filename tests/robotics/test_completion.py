"""Robots whose YAML file has corrections alone: missing sections are inferred from the URDF."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mygym.errors import AssetError
from mygym.registry import ASSETS
from mygym.robotics.assets import as_asset, asset_names
from mygym.robotics.robot import find_robot, infer_robot, inferred_robot, lacks_sections, load_robot, resolved
from mygym.robotics.robot_spec import RobotSpec
from tests.components import ROBOTS, needs_extra

PANDA = ASSETS / "robots" / "panda.urdf"


def corrected(folder: Path, **corrections: object) -> str:
    """Write a file with a URDF and corrections, and return its path."""
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({"urdf": str(PANDA), **corrections}))
    return str(path)


@pytest.fixture(scope="module")
def inferred() -> RobotSpec:
    return infer_robot(PANDA).spec


def test_a_file_with_a_urdf_alone_is_the_inferred_robot(tmp_path: Path, inferred: RobotSpec) -> None:
    spec = find_robot(corrected(tmp_path))
    assert (spec.joints, spec.gripper, spec.end_effector) == (inferred.joints, inferred.gripper, inferred.end_effector)
    assert (spec.urdf, spec.base_position, spec.name) == (inferred.urdf, inferred.base_position, "mine")


def test_corrections_replace_single_values(tmp_path: Path, inferred: RobotSpec) -> None:
    name = corrected(tmp_path, joints={"panda_joint7": {"home": 0.1}}, gripper={"force": 33}, area_scale=0.9)
    spec = find_robot(name)
    assert [joint.home for joint in spec.joints] == [*(joint.home for joint in inferred.joints[:-1]), 0.1]
    assert spec.joints[-1].upper == inferred.joints[-1].upper
    assert spec.gripper is not None
    assert (spec.gripper.force, spec.gripper.joints) == (33, ("panda_finger_joint1", "panda_finger_joint2"))
    assert spec.area_scale == 0.9
    result = inferred_robot(name)
    assert result is not None
    keys = {finding.key.partition(".")[0] for finding in result.findings}
    assert "end_effector" in keys
    assert not keys & {"joints", "gripper"}, "what the file corrects is no longer inferred"


def test_a_robot_without_its_gripper(tmp_path: Path) -> None:
    assert find_robot(corrected(tmp_path, gripper=None)).gripper is None


def test_another_tool_point_has_another_home(tmp_path: Path, inferred: RobotSpec) -> None:
    spec = find_robot(corrected(tmp_path, end_effector={"position": [0.0, 0.0, 0.2]}))
    assert spec.end_effector.link == inferred.end_effector.link
    assert spec.end_effector.position == (0.0, 0.0, 0.2)
    assert spec.joints != inferred.joints


def test_a_tool_point_on_a_mounted_tool_is_placed_with_this_tool(tmp_path: Path, inferred: RobotSpec) -> None:
    """It was a KeyError: the base was chosen for the robot without the tool."""
    (tmp_path / "pen.urdf").write_text('<robot name="pen"><link name="pen"/></robot>')
    tip = {"position": [0.0, 0.0, 0.2], "orientation": list(inferred.end_effector.orientation)}
    mounts = [{"urdf": "pen.urdf", "link": inferred.end_effector.link, **tip}]
    at_pen = {"link": "pen", "position": [0.0, 0.0, 0.0], "orientation": [0.0, 0.0, 0.0, 1.0]}
    spec = find_robot(corrected(tmp_path, mounts=mounts, end_effector=at_pen))
    alone = find_robot(corrected(tmp_path, end_effector=tip))
    assert spec.end_effector.link == "pen"
    assert (spec.base_position, spec.joints) == (alone.base_position, alone.joints)


@pytest.mark.parametrize(
    ("corrections", "words"),
    [
        ({"joints": {"panda_joint77": {"home": 0.0}}}, ["joints: 'panda_joint77'", "did you mean 'panda_joint7'"]),
        ({"joints": {"panda_joint7": 0.5}}, ["joints.panda_joint7: 0.5", "home"]),
        ({"joints": {"panda_joint7": {"hom": 0.5}}}, ["joints.6.hom", "home"]),
        ({"griper": {}}, ["griper", "gripper"]),
        ({"end_effector": {"link": "panda_hnad"}}, ["end_effector.link: 'panda_hnad'", "did you mean 'panda_hand'"]),
        ({"locked": {"panda_joint3": 0.5}}, ["locked: 'panda_joint3' is no moving joint outside"]),
        ({"urdf": 3}, ["urdf: 3"]),
        ({"urdf": "no.urdf"}, ["no.urdf"]),
    ],
)
def test_a_wrong_correction_is_an_error(tmp_path: Path, corrections: dict[str, object], words: list[str]) -> None:
    with pytest.raises(AssetError) as error:
        find_robot(corrected(tmp_path, **corrections))
    for word in ["mine.yaml", *words]:
        assert word in str(error.value)


def test_limits_that_a_list_of_joints_leaves_out_are_those_of_the_urdf(tmp_path: Path) -> None:
    data = yaml.safe_load(PANDA.with_suffix(".yaml").read_text()) | {"urdf": str(PANDA)}
    data["joints"][6] = {"name": "panda_joint7", "home": 0.785, "upper": 1.5}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(data))
    last = load_robot(tmp_path / "mine.yaml").joints[6]
    assert (last.lower, last.upper, last.velocity, last.effort) == (-2.8973, 1.5, 2.61, 12)


def test_a_limit_in_neither_file_is_an_error(tmp_path: Path) -> None:
    urdf, limit = PANDA.read_text(), 'effort="12" velocity="2.61"'
    assert limit in urdf
    (tmp_path / "mine.urdf").write_text(urdf.replace(limit, 'effort="12" velocity="0"'))
    data = yaml.safe_load(PANDA.with_suffix(".yaml").read_text()) | {"urdf": "mine.urdf"}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(data))
    with pytest.raises(AssetError, match=r"mine.yaml: joints\.4\.velocity: None is missing.*panda_joint5"):
        load_robot(tmp_path / "mine.yaml")


def parts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the places of all keys; a key of the rows of a list is one place, with None for the row."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key)
            yield from parts(item, (*path, key))
    elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        yield from ((*path, None, key) for key in dict.fromkeys(key for row in value for key in row))


def without(data: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    """Return the content of a file without the key at a place."""
    left = copy.deepcopy(data)
    owners: list[Any] = [left]
    for key in path[:-1]:
        owners = [row for owner in owners for row in owner] if key is None else [owner[key] for owner in owners]
    for owner in owners:
        owner.pop(path[-1], None)
    return left


@pytest.mark.parametrize(
    "name", [*ROBOTS, *(pytest.param(name, marks=needs_extra) for name in asset_names("robots") if name not in ROBOTS)]
)
def test_built_in_robots_state_only_what_differs_from_the_urdf(name: str) -> None:
    (path,) = (ASSETS / "robots").rglob(f"{name}.yaml")
    data, redundant = yaml.safe_load(path.read_text()), []
    for place in parts(data):
        left = without(data, place)
        if lacks_sections(left):  # the inference of sections measures meshes, and takes seconds
            continue
        try:
            if resolved(as_asset(RobotSpec, left), path) == load_robot(path):
                redundant.append(place)
        except AssetError:
            pass
    assert redundant == []
