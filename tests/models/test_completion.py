"""Robots whose YAML file has corrections alone: missing sections are inferred from the URDF."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from mygym.errors import AssetError
from mygym.models.inference.robots import infer_robot
from mygym.models.robot_spec import RobotSpec
from mygym.registry import ASSETS
from mygym.sim.primitives import mesh_points
from mygym.sim.robot_lookup import find_robot, inferred_robot

PANDA = ASSETS / "robots" / "panda.urdf"


def corrected(folder: Path, **corrections: object) -> str:
    """Write a file with a URDF and corrections, and return its path."""
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({"urdf": str(PANDA), **corrections}))
    return str(path)


@pytest.fixture(scope="module")
def inferred() -> RobotSpec:
    return infer_robot(PANDA, mesh_points).spec


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


@pytest.mark.parametrize(
    ("corrections", "words"),
    [
        ({"joints": {"panda_joint77": {"home": 0.0}}}, ["joints: 'panda_joint77'", "did you mean 'panda_joint7'"]),
        ({"joints": {"panda_joint7": 0.5}}, ["joints.panda_joint7: 0.5", "home"]),
        ({"joints": {"panda_joint7": {"hom": 0.5}}}, ["joints.6.hom", "home"]),
        ({"griper": {}}, ["griper", "gripper"]),
        ({"urdf": 3}, ["urdf: 3"]),
        ({"urdf": "no.urdf"}, ["no.urdf"]),
    ],
)
def test_a_wrong_correction_is_an_error(tmp_path: Path, corrections: dict[str, object], words: list[str]) -> None:
    with pytest.raises(AssetError) as error:
        find_robot(corrected(tmp_path, **corrections))
    for word in ["mine.yaml", *words]:
        assert word in str(error.value)
