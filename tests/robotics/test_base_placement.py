"""Base, areas and home that fit an arm: short arms, arms of four joints, and the map of their reach."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

import mygym
from mygym.checks.robots import grasps
from mygym.checks.suite import CheckLeftOut
from mygym.config import RunConfig
from mygym.envs.supported import support_warning, supported_tasks
from mygym.errors import ConfigError
from mygym.robotics.inference.base_placement import shape_of
from mygym.robotics.kinematics import Kinematics, make_chain, reached_along
from mygym.robotics.robot import infer_robot, load_robot
from mygym.robotics.workspace import load_workspace
from tests.robotics.test_grippers import INERTIAL, MIRRORED, WRIST, box, part, robot

DOWN = (0.0, 0.0, -1.0)


def four_axes(path: Path, length: float = 0.14) -> Path:
    """Write a URDF of an arm of four joints, of which three are parallel, with a gripper behind its last link."""
    links, parent = [f'<link name="base">{INERTIAL.format(5, 0.01)}{box("0.06 0.06 0.04", "0 0 0.02")}</link>'], "base"
    joints = (("pan", "0 0 1", 0.05), ("lift", "0 1 0", 0.04), ("elbow", "0 1 0", length), (WRIST, "0 1 0", length))
    for name, axis, height in joints:
        links.append(part(name, parent, "", f"0 0 {height}", axis, "revolute", (-2.2, 2.2), mass=0.3))
        links[-1] = links[-1].replace('effort="20" velocity="0.5"', 'effort="20" velocity="3"')
        parent = name
    path.write_text(f'<robot name="short">{"".join([*links, *MIRRORED])}</robot>')
    return path


@pytest.mark.slow
def test_an_arm_of_four_joints_and_28_cm_reaches_pushes_and_picks(tmp_path: Path) -> None:
    """Its tool turns with its first joint: no yaw is held, and the tool tilts where it would not reach."""
    path = four_axes(tmp_path / "short.urdf")
    inferred = infer_robot(path)
    assert inferred.reaches == 1.0
    assert make_chain(inferred.spec, inferred.spec.arms[0], DOWN).yaw_is_free
    for task in ("reach", "push", "pick_and_place"):
        config = {"robot": str(path), "task": task}
        assert mygym.evaluate(policy="oracle", config=config, episodes=10).success_rate >= 0.8, task


def few_axes(path: Path, *joints: tuple[str, float], hand: Sequence[str] = ()) -> Path:
    """Write a URDF of an arm; each joint has an axis, and a link of a length in m. The last link is `WRIST`."""
    parent, height = "base", 0.05
    links = [f'<link name="base">{INERTIAL.format(5, 0.01)}{box("0.06 0.06 0.05", "0 0 0.025")}</link>']
    for number, (axis, length) in enumerate(joints, start=7 - len(joints)):
        shape = box(f"0.024 0.024 {length}", f"0 0 {length / 2}")
        links.append(part(f"a{number}", parent, shape, f"0 0 {height}", axis, "revolute", (-2.6, 2.6), mass=0.2))
        links[-1] = links[-1].replace('effort="20" velocity="0.5"', 'effort="20" velocity="3"')
        parent, height = f"a{number}", length
    assert parent == WRIST
    path.write_text(f'<robot name="few">{"".join([*links, *hand])}</robot>')
    return path


PAN, LIFT, ELBOW = ("0 0 1", 0.04), ("0 1 0", 0.15), ("0 1 0", 0.15)
"""Joints of an arm of 30 cm that has no wrist."""


def test_an_arm_of_three_joints_reaches_and_pushes_with_its_tool_tilted(tmp_path: Path) -> None:
    path = few_axes(tmp_path / "three.urdf", PAN, LIFT, ELBOW)
    inferred = infer_robot(path)
    assert inferred.reaches == 1.0
    assert make_chain(inferred.spec, inferred.spec.arms[0], DOWN).tilt_is_free
    finding = next(finding for finding in inferred.findings if "upright" in finding.text)
    assert finding.key == "end_effector"
    assert re.search(r"with 3 joints it leans by \d+° to \d\d+°", finding.text)
    for task in ("reach", "push"):
        config = {"robot": str(path), "task": task}
        assert mygym.evaluate(policy="oracle", config=config, episodes=4).success_rate >= 0.75, task


@pytest.mark.slow
def test_a_joint_that_rolls_the_tool_does_not_hold_it_upright(tmp_path: Path) -> None:
    """As the low-cost arm, of 16 cm: it was refused, because it cannot point its tool down."""
    path = few_axes(tmp_path / "roll.urdf", PAN, ("0 1 0", 0.108), ("0 1 0", 0.027), ("0 0 1", 0.02))
    assert mygym.evaluate(policy="oracle", config={"robot": str(path)}, episodes=8).success_rate >= 0.8


def test_tasks_that_grasp_do_not_suit_an_arm_that_cannot_hold_its_tool_upright(tmp_path: Path) -> None:
    path = few_axes(tmp_path / "three.urdf", PAN, LIFT, ELBOW, hand=MIRRORED)
    reasons = supported_tasks(str(path))
    assert re.search(r"upright: with 3 joints it leans by \d+° to \d+°, and pick_and_place", reasons["pick_and_place"])
    assert reasons["reach"] == reasons["push"] == ""
    with pytest.raises(CheckLeftOut, match="upright: with 3 joints"):
        grasps(str(path))
    assert "upright" in support_warning(RunConfig(robot=str(path), task="pick_and_place"))


@pytest.mark.parametrize(
    ("joints", "directions"),
    [
        pytest.param([PAN, ("0 1 0", 0.3)], 2, id="two joints", marks=pytest.mark.slow),
        pytest.param([LIFT, LIFT, ELBOW], 2, id="three parallel joints", marks=pytest.mark.slow),
        pytest.param([("0 1 0", 0.3)], 1, id="one joint"),
    ],
)
def test_an_arm_with_fewer_directions_than_three_suits_no_task(
    joints: list[tuple[str, float]], directions: int, tmp_path: Path
) -> None:
    path = few_axes(tmp_path / "few.urdf", *joints)
    words = f"moves its tool in {directions} of 3 directions"
    assert words in " ".join(finding.text for finding in infer_robot(path).findings)
    assert all(words in reason for task, reason in supported_tasks(str(path)).items() if task in ("reach", "push"))
    if directions == 1:  # its circle does not pass the drawer
        with pytest.raises(ConfigError, match=words):
            mygym.make_env({"robot": str(path), "workspace": "drawer"})


def test_a_refusal_has_the_arm_in_figures_and_the_lines_that_correct_it(tmp_path: Path) -> None:
    """The notes on an inferred robot are printed before a training alone; the message has to do without them."""
    path = few_axes(tmp_path / "three.urdf", PAN, ("0 1 0", 0.07), ("0 1 0", 0.07))
    with pytest.raises(ConfigError, match=r"'three\.urdf' cannot reach tool_home") as caught:
        mygym.make_env({"robot": str(path), "workspace": "drawer"})
    message = str(caught.value)
    assert "3 joints, a4_joint to a6_joint" in message
    assert "18.0 cm long" in message
    lines = re.findall(r"`(.*?)`", message)
    corrected = tmp_path / "corrected.yaml"
    corrected.write_text("\n".join(reversed(lines)))
    assert load_workspace("drawer").tool_home == (-0.1, 0.0, 0.25)
    values = yaml.safe_load(corrected.read_text())
    spec = infer_robot(path).spec
    assert values["urdf"] == "three.urdf"
    assert tuple(values["base_position"]) == spec.base_position
    assert values["end_effector"]["link"] == spec.end_effector.link
    corrected.write_text(corrected.read_text().replace(str(list(spec.base_position)), "[-0.2, 0.0, 0.12]"))
    mygym.make_env({"robot": str(corrected), "workspace": "drawer"}).close()


RAIL = (
    '<link name="world"/><joint name="mount" type="{}"><parent link="world"/><child link="base"/>'
    '<origin rpy="{} 0 0"/><axis xyz="0 1 0"/><limit lower="-0.5" upper="0.5" effort="500" velocity="1"/></joint>'
)
WHEELS = "".join(
    part(f"wheel_{x}_{y}", "base", box("0.1 0.02 0.1"), f"0.{x} -0.{y} 0", "0 1 0", "continuous")
    for x, y in ("12", "21")
)


@pytest.mark.parametrize(
    ("size", "more", "joints"),
    [
        pytest.param(1.0, RAIL.format("fixed", np.pi), 6, id="from the ceiling"),
        pytest.param(1.0, RAIL.format("prismatic", 0), 6, id="on a rail that stays still", marks=pytest.mark.slow),
        pytest.param(1.0, WHEELS, 6, id="on wheels", marks=pytest.mark.slow),
        pytest.param(0.25, "", 6, id="29 cm", marks=pytest.mark.slow),
        pytest.param(1.5, "", 6, id="1.7 m"),
    ],
)
def test_arms_of_any_mount_and_size_pick(size: float, more: str, joints: int, tmp_path: Path) -> None:
    path = robot(tmp_path / "a.urdf", *MIRRORED, more)
    arm = re.compile(r'(<child link="a\d"/><origin xyz="0 0 )([\d.]+)')
    path.write_text(arm.sub(lambda match: f"{match[1]}{size * float(match[2]):.4f}", path.read_text()))
    inferred = infer_robot(path)
    assert (inferred.reaches, len(inferred.spec.joints)) == (1.0, joints)
    config = {"robot": str(path), "task": "pick_and_place"}
    assert mygym.evaluate(policy="oracle", config=config, episodes=4).success_rate == 1.0


def test_the_hand_of_an_inferred_arm_closes_along_y_at_home(tmp_path: Path) -> None:
    """As the Panda's: handles and edges of the workspaces suit it."""
    spec = infer_robot(robot(tmp_path / "a.urdf", *MIRRORED)).spec
    pose = Kinematics(make_chain(spec, spec.arms[0], DOWN)).pose(np.array([joint.home for joint in spec.joints]))
    np.testing.assert_allclose(np.abs(pose[:3, 1]), (0, 1, 0), atol=0.01)
    np.testing.assert_allclose(pose[:3, 2], DOWN, atol=0.01)


@pytest.mark.parametrize("name", ["panda", "kuka"])
def test_the_map_of_reach_agrees_with_the_kinematics_of_one_point(name: str) -> None:
    spec = load_robot(name)
    chain = make_chain(spec, spec.arms[0], DOWN)
    points = np.array([[0.0, 0.0, 0.2], [0.15, -0.15, 0.02], [0.1, 0.1, 0.3], [1.2, 0.0, 0.2], [0.0, 0.0, 1.5]])
    expected = Kinematics(chain).reachable(points, chain.rotation)
    np.testing.assert_array_equal(expected, [True, True, True, False, False])
    reached = reached_along(chain, points, np.tile(chain.home, (len(points), 1)), DOWN, 60)
    np.testing.assert_array_equal(reached, expected)


def test_a_body_in_front_of_the_arm_does_not_stand_in_the_work_area(tmp_path: Path) -> None:
    """As the PR2, whose base is ahead of its shoulder: objects were inside it, as it stood on the table."""
    shapes = box("0.9 0.5 0.3", "0.1 0 0.15") + box("0.1 0.1 0.8", "0 0 0.4")
    path = few_axes(tmp_path / "mobile.urdf", ("0 0 1", 0.1), ("0 1 0", 0.3), ("0 1 0", 0.3), ("0 1 0", 0.1))
    text = path.read_text().replace(box("0.06 0.06 0.05", "0 0 0.025"), shapes).replace("0 0 0.05", "0 0 0.8")
    path.write_text(text)
    spec = infer_robot(path).spec
    table = load_workspace("table").fit(spec)
    front, bottom = spec.base_position[0] + 0.55, spec.base_position[2]
    is_beside = front < table.areas["surface"].low[0] or bottom + 0.3 < 0 or bottom > table.areas["air"].high[2]
    assert is_beside, spec.base_position


@pytest.mark.parametrize("edge", [0.1, 1.6])
def test_a_point_at_which_a_thick_link_is_in_the_table_is_not_reached(edge: float, tmp_path: Path) -> None:
    """As at the UR3's elbow, whose motor came down on the table where the origins of its joints are above it."""
    path = robot(tmp_path / "thick.urdf", *MIRRORED)
    path.write_text(re.sub(r'(<link name="a3">)', rf"\1{box(f'{edge} 0.1 {edge}')}", path.read_text()))
    spec = infer_robot(robot(tmp_path / "thin.urdf", *MIRRORED)).spec
    chain = make_chain(spec, spec.arms[0], DOWN)
    shape = shape_of(replace(spec, urdf=str(path)))
    assert shape.reached(chain, np.array([[0.0, 0.0, 0.2], [0.1, 0.1, 0.02]])).all() == (edge < 1.0)
