"""Descriptions: built-in files load; errors name file and key."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

from mygym.errors import AssetError
from mygym.robotics.assets import ASSETS, asset_names
from mygym.robotics.objects import load_object, object_names
from mygym.robotics.robot import load_robot
from mygym.robotics.robot_descriptions import read_robot
from mygym.robotics.urdf import light_urdf, read_urdf
from mygym.robotics.workspace import load_workspace
from tests.components import ROBOTS


def test_builtin_descriptions_load() -> None:
    assert {"panda", "kuka"} <= set(ROBOTS) < set(asset_names("robots"))
    assert [load_robot(name).name for name in ROBOTS] == ROBOTS
    assert [load_object(name).name for name in object_names()] == list(object_names())
    assert [load_workspace(name).name for name in asset_names("workspaces")] == list(asset_names("workspaces"))


def test_paths_are_accepted_in_place_of_names(tmp_path: Path) -> None:
    path = write_robot(tmp_path, {})
    assert load_robot(path).name == "custom"
    assert load_robot(str(path)).joints == load_robot("panda").joints


def joint(**change: float) -> dict[str, object]:
    return {"name": "panda_joint1", "home": 0.0, "lower": -1.0, "upper": 1.0, "velocity": 1.0, "effort": 1.0, **change}


def write_robot(folder: Path, change: dict[str, object], remove: str = "") -> Path:
    data = yaml.safe_load((ASSETS / "robots" / "panda.yaml").read_text())
    data["urdf"] = str(ASSETS / "robots" / "panda.urdf")
    data.update(change)
    data.pop(remove, None)
    path = folder / "custom.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


@pytest.mark.parametrize(
    ("change", "remove", "words"),
    [
        ({"base_positon": [0, 0, 0]}, "base_position", ("base_positon", "did you mean 'base_position'")),
        ({}, "joints", ("joints", "is missing")),
        ({"base_position": "here"}, "", ("base_position", "'here'")),
        ({"base_position": [0, 0, "1"]}, "", ("base_position.2", "number")),
        ({"base_position": [0, 0, float("nan")]}, "", ("base_position.2", "finite")),
        ({"end_effector": {"link": "panda_hnad"}}, "", ("end_effector.link", "did you mean 'panda_hand'")),
        ({"end_effector": {"link": "panda_hand", "offset": 1}}, "", ("end_effector.offset", "position")),
        ({"urdf": "nowhere.urdf"}, "", ("urdf", "nowhere.urdf")),
        ({"motor": {"position_gain": -1}}, "", ("motor.position_gain", "greater than 0")),
        ({"joints": [joint(lower=1.5, upper=-1.5)]}, "", ("joints.0.lower: 1.5", "at most -1.5, the upper limit")),
        ({"joints": [joint(home=1.5)]}, "", ("joints.0.home: 1.5", "-1.0 to 1.0")),
    ],
)
def test_invalid_robots(tmp_path: Path, change: dict[str, object], remove: str, words: tuple[str, ...]) -> None:
    path = write_robot(tmp_path, change, remove)
    with pytest.raises(AssetError) as error:
        load_robot(path)
    for word in ("custom.yaml", *words):
        assert word in str(error.value)


NESTED = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(9 * [f'*{before}'])}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "words"),
    {
        "nested anchors": (NESTED, "holds more than 10000 values"),
        "itself": ("joints: &j [*j]\n", "nested more than 32 deep"),
        "itself as key": ("&a {*a : 1}\n", "not valid YAML"),
        "deep": (f"joints: {50 * '['}{50 * ']'}\n", "nested more than 32 deep"),
        "very deep": (f"joints: {30_000 * '['}{30_000 * ']'}\n", "not valid YAML"),
        "duplicate key": ("urdf: a.urdf\nurdf: b.urdf\n", "duplicate key 'urdf' (line 2)"),
        "duplicate key below": ("motor:\n  force: 1\n  force: 2\n", "duplicate key 'force' (line 3)"),
        "long": (f"urdf: {300_000 * 'a'}\n", "at most 200000 bytes"),
        "date": ("urdf: 2020-01-01\n", "has the type date"),
    }.values(),
)
@pytest.mark.parametrize("load", [load_robot, load_workspace, load_object])
def test_files_that_are_no_plain_data_are_refused(
    text: str, words: str, load: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "custom.yaml"
    path.write_text(text)
    with pytest.raises(AssetError) as error:
        load(path)
    assert "custom.yaml: " in str(error.value)
    assert words in str(error.value)


def test_numbers_in_scientific_notation(tmp_path: Path) -> None:
    path = write_robot(tmp_path, {})
    path.write_text(path.read_text().replace("base_position:\n- -0.6", "base_position:\n- 5e-2"))
    assert load_robot(path).base_position[0] == 0.05


def test_missing_mesh_and_joint(tmp_path: Path) -> None:
    urdf = tmp_path / "arm.urdf"
    text = (ASSETS / "robots" / "panda.urdf").read_text()
    urdf.write_text(text)
    load_robot(write_robot(tmp_path, {"urdf": str(urdf)}))
    (repair,) = (finding.text for finding in read_robot(urdf).repairs)
    assert repair.startswith("collision shapes are drawn")
    assert "link0_white.obj" in repair
    with pytest.raises(AssetError, match=r"custom\.yaml.*joints\.0\.name.*elbow"):
        load_robot(write_robot(tmp_path, {"joints": [{**joint(), "name": "elbow"}]}))


def test_invalid_names_and_files(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match="did you mean 'panda'"):
        load_robot("pnada")
    with pytest.raises(AssetError, match="is not a file"):
        load_robot(tmp_path / "none.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [1")
    with pytest.raises(AssetError, match=r"broken\.yaml: not valid YAML"):
        load_object(broken)
    broken.write_text("- 1")
    with pytest.raises(AssetError, match="mapping"):
        load_workspace(broken)


def test_invalid_objects_and_workspaces(tmp_path: Path) -> None:
    path = tmp_path / "thing.yaml"
    path.write_text("{shape: box, size: [0.1], mass: 1, friction: 0.5}")
    with pytest.raises(AssetError, match=r"thing\.yaml.*size.*3 numbers for a box"):
        load_object(path)
    path.write_text("{shape: brick, size: [0.1], mass: 1, friction: 0.5}")
    with pytest.raises(AssetError, match=r"thing\.yaml.*shape.*brick.*box"):
        load_object(path)
    data = yaml.safe_load((ASSETS / "workspaces" / "table.yaml").read_text())
    data["areas"]["reach"]["low"][0] = 9.0
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(AssetError, match=r"thing\.yaml.*areas\.reach\.low"):
        load_workspace(path)
    del data["areas"]["reach"]["high"]
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(AssetError, match=r"thing\.yaml.*areas\.reach\.high.*is missing"):
        load_workspace(path)


@pytest.mark.parametrize("robot", ROBOTS)
def test_merging_fixed_joints_keeps_mass_and_centre(robot: str) -> None:
    root = read_urdf(Path(load_robot(robot).urdf))
    merged = ET.fromstring(light_urdf(root, "collision"))

    def total(tree: ET.Element) -> float:
        return sum(float(mass.get("value", "0")) for mass in tree.iter("mass"))

    assert not [joint for joint in merged.findall("joint") if joint.get("type") == "fixed"]
    assert total(merged) == pytest.approx(total(root))


def test_merged_inertia_is_the_sum_about_the_common_centre() -> None:
    """Two point-like masses 1 m apart, fixed together: I = m₁m₂/(m₁+m₂) d²."""
    inertial = '<inertial><mass value="{}"/><inertia ixx="0" iyy="0" izz="0" ixy="0" ixz="0" iyz="0"/></inertial>'
    fixed = '<joint name="j" type="fixed"><parent link="a"/><child link="b"/><origin xyz="1 0 0" rpy="0 0 1"/></joint>'
    text = f'<robot><link name="a">{inertial.format(2)}</link><link name="b">{inertial.format(3)}</link>{fixed}</robot>'
    link = ET.fromstring(light_urdf(ET.fromstring(text), "visual")).find("link/inertial")
    assert link is not None
    inertia, origin = link.find("inertia"), link.find("origin")
    assert inertia is not None
    assert origin is not None
    assert [float(inertia.get(key, "")) for key in ("ixx", "iyy", "izz")] == pytest.approx([0.0, 1.2, 1.2])
    assert np.fromstring(origin.get("xyz", ""), sep=" ") == pytest.approx([0.6, 0.0, 0.0])
