"""Scaffolded robots and objects of URDF files."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from mygym.checks import check
from mygym.cli.new.request import Request
from mygym.cli.new.scaffolds import new_files
from mygym.errors import AssetError
from mygym.models.inference.robots import infer_robot
from mygym.models.robot import load_robot
from mygym.registry import ASSETS
from mygym.sim.primitives import mesh_points
from tests.cli.new.conftest import new
from tests.models.test_grippers import MIRRORED, robot
from tests.models.test_inference import arm, write


@pytest.mark.parametrize("name", [pytest.param("panda", marks=pytest.mark.slow), "kuka"])
def test_a_robot_from_a_urdf_has_its_joints_and_reaches(name: str, folder: Path) -> None:
    urdf = ASSETS / "robots" / f"{name}.urdf"
    assert [path.name for path in new("robot", "custom", urdf=urdf)] == ["custom.yaml", "custom.yaml", "test_custom.py"]
    shipped = yaml.safe_load((ASSETS / "robots" / f"{name}.yaml").read_text())
    inferred = yaml.safe_load((folder / "envs" / "robots" / "custom.yaml").read_text())
    assert [joint["name"] for joint in inferred["joints"]] == [joint["name"] for joint in shipped["joints"]]
    assert inferred["urdf"] == str(urdf)
    assert [outcome for outcome in check("robot", "custom") if outcome.failed] == []


def test_a_robot_from_a_urdf_has_its_gripper(folder: Path) -> None:
    new("robot", "custom", urdf=ASSETS / "robots" / "panda.urdf")
    inferred, shipped = (
        yaml.safe_load(path.read_text())["gripper"]
        for path in (folder / "envs" / "robots" / "custom.yaml", ASSETS / "robots" / "panda.yaml")
    )
    assert (inferred["joints"], inferred["links"]) == (shipped["joints"], shipped["links"])
    for key in ("closed", "open", "width"):
        assert inferred[key] == pytest.approx(shipped[key], abs=0.005), key


def test_a_robot_from_a_urdf_has_the_pads_of_its_gripper(folder: Path) -> None:
    urdf = robot(folder / "hand.urdf", *(text.replace("collision", "visual") for text in MIRRORED))
    new("robot", "custom", urdf=urdf)
    gripper = load_robot(folder / "envs" / "robots" / "custom.yaml").gripper
    assert gripper is not None
    assert len(gripper.pads) == 2
    assert gripper == infer_robot(urdf, mesh_points).spec.gripper


@pytest.mark.slow  # infers the arm twice; the quick suite has tests/models/test_inference.py
def test_a_robot_from_a_urdf_of_a_short_arm_has_its_base_and_the_size_of_its_areas(folder: Path) -> None:
    urdf = write(folder / "short.urdf", arm("arm", "root", size=0.5, limits={1: (-3.1, 0.0), 2: (0.0, 2.8)}))
    new("robot", "custom", urdf=urdf)
    spec, inferred = load_robot(folder / "envs" / "robots" / "custom.yaml"), infer_robot(urdf, mesh_points).spec
    assert spec.area_scale == inferred.area_scale < 1.0
    assert spec.base_position == inferred.base_position
    assert spec.base_orientation == pytest.approx(inferred.base_orientation, abs=1e-5) != (0.0, 0.0, 0.0, 1.0)


def test_the_path_of_a_urdf_in_the_project_is_relative(folder: Path) -> None:
    (folder / "arms").mkdir()
    urdf = new_files("robot", Request("custom", folder))[folder / "envs/robots/custom.urdf"]
    (folder / "arms" / "custom.urdf").write_text(urdf)
    new("robot", "custom", urdf=Path("arms/custom.urdf"))
    assert yaml.safe_load((folder / "envs/robots/custom.yaml").read_text())["urdf"] == "../../arms/custom.urdf"


def test_an_object_from_a_urdf(folder: Path) -> None:
    box = '<collision><geometry><box size="0.04 0.04 0.04"/></geometry></collision>'
    inertia = '<mass value="0.05"/><inertia ixx="1.3e-5" iyy="1.3e-5" izz="1.3e-5" ixy="0" ixz="0" iyz="0"/>'
    text = f'<robot name="box"><link name="box"><inertial>{inertia}</inertial>{box}</link></robot>'
    (folder / "box.urdf").write_text(text)
    new("object", "custom", urdf=Path("box.urdf"))
    assert yaml.safe_load((folder / "envs/objects/custom.yaml").read_text())["urdf"] == "../../box.urdf"
    assert [outcome for outcome in check("object", "custom") if outcome.failed] == []


def test_a_urdf_without_an_arm_is_an_error(folder: Path) -> None:
    (folder / "box.urdf").write_text('<robot name="box"><link name="base"/></robot>')
    with pytest.raises(AssetError, match="a URDF with moving joints"):
        new("robot", "custom", urdf=folder / "box.urdf")
    assert not (folder / "envs").exists()
