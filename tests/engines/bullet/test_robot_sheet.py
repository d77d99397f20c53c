"""Sheets that explain robots."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mygym.engines.rendering.camera import Camera
from mygym.engines.rendering.robot_sheet import AREA, FINGER, REACH, TOOL, Picture, reach, robot_sheet
from mygym.robotics.robot import find_robot, infer_robot
from mygym.robotics.workspace import load_workspace
from tests.robotics.test_inference import arm, write
from tests.worlds import bullet_world

CELL = 240, 180


def share(picture: Picture, color: tuple[int, int, int]) -> float:
    """Return the share of pixels that nearly have a colour."""
    return float((np.abs(picture.astype(int) - color).max(axis=2) < 40).mean())


@pytest.fixture(scope="module")
def panda() -> Picture:
    return robot_sheet(find_robot("panda"), cell=CELL)


def test_a_sheet_has_four_pictures_of_the_robot_with_marks(panda: Picture) -> None:
    assert panda.shape == (2 * CELL[1] + 3 * 8, 2 * CELL[0] + 3 * 8, 3)
    background = np.array(panda[12, CELL[0] // 2])
    for row, column in np.ndindex(2, 2):
        top, left = 8 + row * (CELL[1] + 8), 8 + column * (CELL[0] + 8)
        cell = panda[top : top + CELL[1], left : left + CELL[0]]
        white = (cell.min(axis=2) > 140) & (np.ptp(cell.astype(int), axis=2) < 8)  # a Panda is white and grey
        assert white.mean() > 0.01, (row, column)
        assert (np.abs(cell.astype(int) - background).max(axis=2) > 20).mean() > 0.1
        assert share(cell, TOOL) > 0.0005, (row, column)
    for color in (FINGER, REACH, AREA):
        assert share(panda, color) > 0.0005, color


def test_the_arrows_show_where_the_fingers_go(panda: Picture) -> None:
    """Fingers that slide to one side, a frequent mistake, look different from fingers that close."""
    robot = find_robot("panda")
    assert robot.gripper is not None
    wrong = replace(robot, gripper=replace(robot.gripper, closed=(0.0, 0.04), open=(0.04, 0.0)))
    rows, columns = slice(CELL[1] + 16, -8), slice(8, CELL[0] + 8)
    right, other = panda[rows, columns], robot_sheet(wrong, cell=CELL)[rows, columns]
    assert (np.abs(right.astype(int) - other).max(axis=2) > 40).mean() > 0.005


def test_a_robot_without_visuals_that_does_not_reach_its_home_is_drawn(tmp_path: Path) -> None:
    """Its collisions are drawn instead."""
    path = write(tmp_path / "a.urdf", arm("arm", "root"))
    robot = infer_robot(path).spec
    near = robot_sheet(robot, cell=CELL)
    far = robot_sheet(replace(robot, base_position=(-3.0, 0.0, 0.0)), cell=CELL)
    assert share(near, TOOL) > 0.0005
    assert share(far, TOOL) > 0.0005
    with closing(bullet_world(robot, load_workspace("table"))) as world, closing(Camera(world)) as camera:
        assert camera.robot_mask(240, 180).any()


def test_the_reach_is_the_length_of_a_stretched_arm(tmp_path: Path) -> None:
    """The joints behind the second joint are 30, 15, 15 and 5 cm apart."""
    robot = infer_robot(write(tmp_path / "a.urdf", arm("arm", "root"))).spec
    with closing(bullet_world(robot, load_workspace("table"))) as world:
        shoulder, distance = reach(world.kinematics)
    tool = float(np.linalg.norm(robot.end_effector.position))
    assert distance == pytest.approx(0.1 + 0.3 + 0.15 + 0.15 + 0.05 + tool, abs=0.01)
    np.testing.assert_allclose(shoulder, np.add(robot.base_position, (0, 0, 0.1)), atol=1e-9)
