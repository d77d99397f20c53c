"""Kinematics match Bullet's and reach the areas in which tasks sample."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mygym.engines.arrays import find_arrays
from mygym.engines.kinematics import BatchKinematics
from mygym.robotics.kinematics import Kinematics, make_chain, postures_at
from mygym.robotics.robot import load_robot
from tests.components import ROBOTS
from tests.worlds import MakeWorld, first_home, with_first


@pytest.mark.parametrize("robot", ROBOTS)
def test_forward_kinematics_match_bullet(make_world: MakeWorld, robot: str) -> None:
    world = make_world(robot, objects=0)
    chain = world.kinematics.chain
    for q in np.random.default_rng(0).uniform(chain.lower, chain.upper, (20, len(chain.home))):
        world.reset(np.zeros((0, 7)), with_first(world, q))
        pose = world.kinematics.pose(q)
        np.testing.assert_allclose(pose[:3, 3], world.state.ee_position[0], atol=1e-6)
        x, y, z, w = world.state.ee_orientation[0]
        np.testing.assert_allclose(
            pose[:3, 2], (2 * (x * z + y * w), 2 * (y * z - x * w), 1 - 2 * (x * x + y * y)), atol=1e-6
        )


@pytest.mark.parametrize("robot", ROBOTS)
def test_inverse_kinematics_over_all_areas(make_world: MakeWorld, robot: str) -> None:
    world = make_world(robot, objects=0)
    kinematics, chain = world.kinematics, world.kinematics.chain
    for name in ("reach", "object", "surface", "air"):  # other areas may be targets of sliding objects
        area = world.workspace.areas[name]
        low, high = np.array(area.low), np.array(area.high)
        low[2] = max(low[2], world.workspace.tool_bounds.low[2])
        grid = np.stack(np.meshgrid(*np.linspace(low, np.maximum(low, high), 4).T), -1).reshape(-1, 3)
        assert world.reachable(grid).all()
        for point in grid[::3]:
            q = kinematics.inverse(first_home(world), point, chain.rotation)
            assert np.linalg.norm(kinematics.pose(q)[:3, 3] - point) < 1e-3
            assert (q >= chain.lower).all()
            assert (q <= chain.upper).all()


@pytest.mark.parametrize("robot", ROBOTS)
def test_far_points_are_not_reachable(make_world: MakeWorld, robot: str) -> None:
    world = make_world(robot, objects=0)
    x, y, z = world.robot.base_position
    far = np.array(
        [[2.0, 0.0, 0.2], [0.0, 1.5, 0.2], [0.0, 0.0, 1.5], [x, y, z + 0.1]]
    )  # the last point is inside the base
    assert not world.reachable(far).any()


@pytest.mark.parametrize("robot", ROBOTS)
def test_posture_does_not_drift_around_a_loop(make_world: MakeWorld, robot: str) -> None:
    kinematics = make_world(robot, objects=0).kinematics
    q = kinematics.inverse(kinematics.chain.home, np.array([0.1, 0.0, 0.15]), kinematics.chain.rotation)
    first = q
    for angle in np.linspace(0, 20 * np.pi, 1200):
        target = np.array([0.1 * np.cos(angle), 0.1 * np.sin(angle), 0.15])
        q = kinematics.inverse(q, target, kinematics.chain.rotation, 2, 1e-3)
    assert np.abs(q - first).max() < 0.1


def test_a_missed_pose_is_told_in_centimetres_and_degrees(make_world: MakeWorld) -> None:
    kinematics = make_world("panda", objects=0).kinematics
    pose = kinematics.pose(kinematics.chain.home)
    cosine, sine = np.cos(np.pi / 6), 0.5
    tilted = pose[:3, :3] @ np.array([[1, 0, 0], [0, cosine, -sine], [0, sine, cosine]])
    above = pose[:3, 3] + (0.0, 0.0, 0.1)
    assert kinematics.missing(kinematics.chain.home, above, tilted) == "10.0 cm short, the tool tilted by 30°"
    assert kinematics.missing(kinematics.chain.home, pose[:3, 3], pose[:3, :3]) == ""


@pytest.mark.parametrize("name", ["panda", "kuka"])
def test_postures_of_many_points_are_those_of_single_points(name: str) -> None:
    spec = load_robot(name)
    chain = make_chain(spec, spec.arms[0], (0.0, 0.0, -1.0))
    kinematics = Kinematics(chain)
    points = np.array([[0.0, 0.0, 0.2], [0.15, -0.15, 0.02], [0.1, 0.1, 0.3], [1.2, 0.0, 0.2]])
    found, away, frames = postures_at(chain, np.tile(chain.home, (len(points), 1)), points, chain.rotation)
    for point, q, distance, frame in zip(points, found, away, frames, strict=True):
        expected = kinematics.inverse(chain.home, point, chain.rotation)
        np.testing.assert_allclose(q, expected, atol=1e-9)
        assert distance == pytest.approx(kinematics.residual(expected, point, chain.rotation), abs=1e-9)
        np.testing.assert_allclose(frame[:, :3, 3], kinematics.joint_points(expected), atol=1e-9)


@pytest.mark.parametrize("joint", [0, 4, 6])
@pytest.mark.parametrize("limit", ["lower", "upper"])
def test_an_arm_goes_on_where_one_joint_cannot(joint: int, limit: str) -> None:
    """A Panda with a joint at its limit reaches 10 cm to both sides with its others."""
    spec = load_robot("panda")
    chain = make_chain(spec, spec.arms[0], (0.0, 0.0, -1.0))
    limits = getattr(chain, limit).copy()
    limits[joint] = chain.home[joint]
    chain = replace(chain, **{limit: limits})
    kinematics, batch = Kinematics(chain), BatchKinematics(chain, find_arrays("numpy"))
    points = kinematics.pose(chain.home)[:3, 3] + np.array([[0.0, 0.1, 0.0], [0.0, -0.1, 0.0]])
    starts = np.tile(chain.home, (2, 1))
    together = np.asarray(batch.inverse(starts.T.copy(), points.T.copy(), chain.rotation.tolist(), 200)).T
    found, away, _ = postures_at(chain, starts, points, chain.rotation, iterations=200)
    assert (away < 1e-3).all()
    for row, point in enumerate(points):
        single = kinematics.inverse(chain.home, point, chain.rotation, 200)
        for q in (single, found[row], together[row].astype(float)):
            assert kinematics.residual(q, point, chain.rotation) < 1e-3
            assert q[joint] == pytest.approx(np.clip(q[joint], chain.lower[joint], chain.upper[joint]), abs=1e-6)
