"""Scaffolded robots and objects of URDF files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from mygym.checks import check
from mygym.cli.new.robot_yaml import line_of, robot_yaml
from mygym.cli.new.scaffolds import Request, new_files
from mygym.errors import AssetError
from mygym.registry import ASSETS
from mygym.robotics.assets import as_asset
from mygym.robotics.inference.findings import Finding
from mygym.robotics.robot import Inferred, find_robot, infer_robot
from mygym.robotics.robot_spec import RobotSpec
from tests.cli.new.conftest import new
from tests.robotics.test_grippers import MIRRORED, robot
from tests.robotics.test_inference import arm, write
from tests.short_checks import shorten


@pytest.mark.slow
@pytest.mark.parametrize("name", ["panda", "kuka"])
def test_a_robot_from_a_urdf_has_its_joints_and_reaches(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch)
    urdf = ASSETS / "robots" / f"{name}.urdf"
    files = ["custom.yaml", "custom.png", "custom.yaml", "test_custom.py"]
    assert [path.name for path in new("robot", "custom", urdf=urdf)] == files
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
    gripper = find_robot(str(folder / "envs" / "robots" / "custom.yaml")).gripper
    assert gripper is not None
    assert len(gripper.pads) == 2
    assert gripper == infer_robot(urdf).spec.gripper


NAMES = ["on", "2", "no: way", "a #b", "{c}", "Gelenk, 6"]


@pytest.fixture(scope="module")
def odd_arm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Inferred]:
    """Return a short arm with names and a path that YAML reads as other things, and the result of its inference."""
    path = tmp_path_factory.mktemp("odd #1: arms") / "null.urdf"
    write(path, arm("arm", "root", size=0.5, limits={1: (-3.1, 0.0), 2: (0.0, 1.0 / 3.0 + 2.5)}))
    text = path.read_text()
    for number, name in enumerate(NAMES, start=1):
        text = text.replace(f'joint name="arm_{number}"', f'joint name="{name}"')
    path.write_text(text.replace("arm_6_link", "yes"))
    return path, infer_robot(path)


def test_the_description_of_a_robot_loads_as_the_robot_of_its_urdf(
    folder: Path, odd_arm: tuple[Path, Inferred]
) -> None:
    """Names that YAML reads as numbers, words or comments are quoted, and numbers keep all digits."""
    urdf, inferred = odd_arm
    new("robot", "custom", urdf=urdf)
    text = (folder / "envs" / "robots" / "custom.yaml").read_text()
    assert [joint["name"] for joint in yaml.safe_load(text)["joints"]] == NAMES
    spec = find_robot("custom")
    assert spec == replace(inferred.spec, name="custom")
    assert spec.area_scale < 1.0
    assert spec.joints[1].upper == 1.0 / 3.0 + 2.5


def test_a_gripper_and_all_other_values_of_a_description_are_written() -> None:
    """A field of a robot without a line in the file would be lost."""
    for name in ("panda", "panda_pair", "kuka"):
        spec = find_robot(name)
        data = yaml.safe_load(robot_yaml(spec, spec.urdf, [], "title"))
        assert as_asset(RobotSpec, data | {"name": name}) == spec


def test_each_block_has_its_certainty_and_its_reason(folder: Path) -> None:
    findings = [
        Finding("a gripper that opens 8 cm", "gripper.width", "guess", "the fingers\nhave no shapes"),
        Finding("l4 has an estimated inertia", "", "likely"),
    ]
    spec = find_robot("panda")
    lines = robot_yaml(spec, spec.urdf, findings, "title").splitlines()
    assert lines[1] == "# likely: l4 has an estimated inertia"
    gripper = lines.index("# guess: a gripper that opens 8 cm (the fingers have no shapes)") + 1
    assert lines[gripper].startswith("gripper:")
    assert line_of("\n".join(lines), "gripper") == gripper + 1


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
