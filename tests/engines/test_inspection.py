"""Answers of MuJoCo about shapes: known geometry, and Bullet's answers on several robots; meshes without Bullet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mygym.engines import robots
from mygym.engines.engine import BULLET, MUJOCO, make_world
from mygym.engines.inspection import Inspection
from mygym.engines.world import World, WorldSpec
from mygym.robotics.objects import load_object
from mygym.robotics.robot import find_robot
from mygym.robotics.workspace import Area, load_workspace

Pair = tuple[World, World]


@pytest.fixture(scope="module")
def pair() -> Iterator[Any]:
    """Return a function of a robot and a workspace: the same world in Bullet and in MuJoCo."""
    with ExitStack() as stack:

        def make(robot: str, workspace: str = "table", *objects: str) -> Pair:
            spec = WorldSpec(find_robot(robot), load_workspace(workspace), [load_object(name) for name in objects])
            first, second = (stack.enter_context(closing(make_world(spec, engine))) for engine in (BULLET, MUJOCO))
            return first, second

        yield make


def answers(worlds: Pair, posture: Any = None) -> tuple[Inspection, Inspection]:
    shapes = []
    for world in worlds:
        world.reset(world.objects_in_a_row(), None if posture is None else np.asarray(posture))
        assert world.inspection is not None
        shapes.append(world.inspection)
    return shapes[0], shapes[1]


@pytest.mark.parametrize("robot", ["panda", "kuka_gripper", "panda_pair", "desk_arm"])
def test_collisions_and_overlaps_are_bullets(pair: Any, robot: str) -> None:
    worlds = pair(robot)
    found = set()
    forward = 1.2 * (np.arange(len(worlds[0].home)) == 1)  # into the table
    for change in (0.0, 0.9, forward):
        bullet, mujoco = answers(worlds, worlds[0].home + change)
        assert sorted(mujoco.collisions()) == sorted(bullet.collisions())
        found |= set(bullet.collisions())
        tool = worlds[0].state.ee_position[0]
        for shift in ((0.0, 0.0, 0.0), (0.0, 0.0, 0.3), (0.3, 0.0, 0.0)):
            low, high = (tuple((tool + shift + side).tolist()) for side in (-0.03, 0.03))
            assert mujoco.robot_overlaps(Area(low, high)) == bullet.robot_overlaps(Area(low, high))
    assert any("is inside table" in each for each in found)


@pytest.mark.parametrize("workspace", ["drawer", "fridge", "stairs"])
def test_fixtures_are_where_bullet_has_them(pair: Any, workspace: str) -> None:
    worlds = pair("panda", workspace, "cube")
    bullet, mujoco = answers(worlds)
    assert mujoco.overlapping_fixtures() == bullet.overlapping_fixtures()
    bounds = worlds[0].workspace.bounds
    points = np.random.default_rng(0).uniform(bounds.low, bounds.high, (150, 3))
    inside = 0
    for spec in (None, worlds[0].objects[0], load_object("mug")):
        expected, seen = bullet.fixtures_at(points, spec), mujoco.fixtures_at(points, spec)
        for name in {*expected, *seen}:
            nothing = np.zeros(len(points), dtype=bool)
            assert (expected.get(name, nothing) != seen.get(name, nothing)).sum() <= 1  # at a surface
            inside += int(expected.get(name, nothing).sum())
    assert inside > 20


def test_a_box_overlaps_a_table_from_its_depth_on(pair: Any) -> None:
    """The top of the table is at 0; a cube has edges of 4 cm."""
    _, mujoco = answers(pair("panda", "table", "cube"))
    cube = load_object("cube")
    heights = np.array([[0.2, 0.3, z] for z in (0.0185, 0.0195, 0.025)])
    assert mujoco.fixtures_at(heights, cube)["table"].tolist() == [True, False, False]
    assert mujoco.fixtures_at(heights, cube, depth=0.0001)["table"].tolist() == [True, True, False]
    assert mujoco.fixtures_at(heights, None) == {}


def test_an_object_is_as_deep_as_it_was_placed(pair: Any) -> None:
    worlds = pair("panda", "table", "cube")
    for world in worlds:
        world.reset(np.array([[0.2, 0.3, 0.017, 0.0, 0.0, 0.0, 1.0]]))
    shapes = worlds[1].inspection
    assert shapes is not None
    assert shapes.depth(0) == pytest.approx(0.003, abs=1e-6)
    worlds[1].reset(np.array([[0.2, 0.3, 0.2, 0.0, 0.0, 0.0, 1.0]]))
    assert worlds[1].inspection is not None
    assert worlds[1].inspection.depth(0) == 0.0


@pytest.mark.parametrize("robot", ["panda", "kuka_gripper", "desk_arm"])
def test_fingers_are_where_bullet_has_them(pair: Any, robot: str) -> None:
    worlds = pair(robot)
    bullet, mujoco = answers(worlds)
    expected, seen = (each.finger_points() for each in (bullet, mujoco))
    for posture, other in zip(expected, seen, strict=True):
        assert len(posture) == len(other) >= 2
        for (point, pose), (same_point, same_pose) in zip(posture, other, strict=True):
            np.testing.assert_allclose(same_point, point, atol=1e-5)
            np.testing.assert_allclose(same_pose, pose, atol=1e-5)
    for box, same in zip(bullet.finger_boxes(), mujoco.finger_boxes(), strict=True):
        np.testing.assert_allclose(same, box, atol=0.002)  # Bullet's have a margin
    low, high = np.min(mujoco.robot_corners(), axis=0), np.max(mujoco.robot_corners(), axis=0)
    outer_low, outer_high = np.min(bullet.robot_corners(), axis=0), np.max(bullet.robot_corners(), axis=0)
    assert (low >= outer_low - 0.002).all()
    assert (high <= outer_high + 0.002).all()
    assert low[2] >= 0.0


def test_a_push_moves_a_part_in_one_step_alone(pair: Any) -> None:
    world = pair("panda", "drawer")[1]
    world.reset(np.zeros((0, 7)))
    world.step(np.zeros(world.action_size))
    at_rest = world.state.part_velocity[0].copy()
    world.push_parts(np.ones(len(world.parts)))
    world.step(np.zeros(world.action_size))
    pushed = world.state.part_velocity[0].copy()
    world.step(np.zeros(world.action_size))
    assert (pushed > at_rest + 0.01).all()
    assert (world.state.part_velocity[0] < pushed).all()


def test_a_mesh_is_read_without_bullet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots, "HAS_BULLET", False)
    path = tmp_path / "wedge.obj"
    corners = [(0, 0, 0), (2, 0, 0), (0, 3, 0), (0, 0, 4)]
    lines = [f"v {x} {y} {z}" for x, y, z in corners] + ["v 9 9 9"]  # a corner without a face
    path.write_text("\n".join([*lines, "f 1 3 2", "f 1 2 4", "f 1 4 3", "f 2 3 4", ""]))
    points = robots.mesh_points(str(path), "0.01 0.1 1")
    assert sorted(map(tuple, points.tolist())) == [(0, 0, 0), (0, 0, 4), (0, pytest.approx(0.3), 0), (0.02, 0, 0)]
    box = robots.enclosing(points)
    assert box.volume <= 0.02 * 0.3 * 4 + 1e-9


def test_meshes_are_the_same_with_and_without_bullet(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = find_robot("xarm6")
    files = sorted(Path(robot.urdf).parent.rglob("*vhacd.obj"))[:3]
    assert files
    read = [robots.mesh_points(str(file)) for file in files]
    monkeypatch.setattr(robots, "HAS_BULLET", False)
    for file, points in zip(files, read, strict=True):
        without = robots.enclosing(robots.mesh_points(str(file)))
        assert without.volume == pytest.approx(robots.enclosing(points).volume, rel=1e-3)
        assert without.tag == robots.enclosing(points).tag
