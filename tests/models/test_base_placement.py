"""Base, areas and home that fit an arm: short arms, arms of four joints, and the map of their reach."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import mygym
from mygym.models.inference.robots import infer_robot
from mygym.models.kinematics import Kinematics, make_chain, reached_along
from mygym.models.robot import load_robot
from mygym.sim.primitives import mesh_points
from tests.models.test_grippers import INERTIAL, MIRRORED, WRIST, box, part, robot

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


def test_an_arm_of_four_joints_and_28_cm_reaches_pushes_and_picks(tmp_path: Path) -> None:
    """Its tool turns with its first joint: no yaw is held, and the tool tilts where it would not reach."""
    path = four_axes(tmp_path / "short.urdf")
    inferred = infer_robot(path, mesh_points)
    assert inferred.reaches == 1.0
    assert make_chain(inferred.spec, inferred.spec.arms[0], DOWN).yaw_is_free
    for task in ("reach", "push", "pick_and_place"):
        config = {"robot": str(path), "task": task}
        assert mygym.evaluate(policy="oracle", config=config, episodes=10).success_rate >= 0.8, task


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
        pytest.param(1.0, RAIL.format("prismatic", 0), 6, id="on a rail that stays still"),
        pytest.param(1.0, WHEELS, 6, id="on wheels"),
        pytest.param(0.25, "", 6, id="29 cm"),
        pytest.param(1.5, "", 6, id="1.7 m"),
    ],
)
def test_arms_of_any_mount_and_size_pick(size: float, more: str, joints: int, tmp_path: Path) -> None:
    path = robot(tmp_path / "a.urdf", *MIRRORED, more)
    arm = re.compile(r'(<child link="a\d"/><origin xyz="0 0 )([\d.]+)')
    path.write_text(arm.sub(lambda match: f"{match[1]}{size * float(match[2]):.4f}", path.read_text()))
    inferred = infer_robot(path, mesh_points)
    assert (inferred.reaches, len(inferred.spec.joints)) == (1.0, joints)
    config = {"robot": str(path), "task": "pick_and_place"}
    assert mygym.evaluate(policy="oracle", config=config, episodes=4).success_rate == 1.0


def test_the_hand_of_an_inferred_arm_closes_along_y_at_home(tmp_path: Path) -> None:
    """As the Panda's: handles and edges of the workspaces suit it."""
    spec = infer_robot(robot(tmp_path / "a.urdf", *MIRRORED), mesh_points).spec
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
