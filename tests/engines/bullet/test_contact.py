"""Grasping by friction, pushing, contact flags, collisions with the table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mygym.registry import registry
from tests.components import ROBOTS, ROBOTS_AND_CONTROLS_QUICKLY
from tests.worlds import MakeWorld, act_first, cube_at, first_home, go, two_armed


@pytest.mark.parametrize("control", registry("controller").names())
def test_grasp_lift_swing_hold(make_world: MakeWorld, control: str) -> None:
    world = make_world("panda", control=control)
    for x, y, yaw in ((0.0, 0.0, 0.0), (0.12, -0.1, 0.25), (-0.1, 0.12, -0.3)):
        world.reset(cube_at(x, y, yaw))
        go(world, (x, y, 0.1), 1, 12)
        go(world, (x, y, 0.02), 1, 12)
        go(world, (x, y, 0.02), -1, 10)
        assert world.state.finger_contact.all(), "both fingers press on the cube"
        go(world, (x, y, 0.22), -1, 15)
        assert world.state.object_position[0, 0, 2] > 0.2, "lifted 20 cm"
        for corner in ((0.12, 0.12), (-0.12, -0.12), (0.12, -0.12)):
            go(world, (*corner, 0.22), -1, 12)
        go(world, (0.12, -0.12, 0.22), -1, 25)
        held = world.state.object_position[0, 0] - world.state.ee_position[0]
        assert np.linalg.norm(held) < 0.012, f"slipped by {held}"
        assert world.state.gripper_width[0] == pytest.approx(0.04, abs=0.003)
        go(world, (0.12, -0.12, 0.22), 1, 8)
        assert world.state.object_position[0, 0, 2] < 0.1, "an open hand releases it"
        assert not world.state.finger_contact.any()


@pytest.mark.parametrize(("robot", "control"), ROBOTS_AND_CONTROLS_QUICKLY)
def test_push_on_the_table(make_world: MakeWorld, robot: str, control: str) -> None:
    world = make_world(robot, control=control, gripper=False)
    world.reset(cube_at(0.0, 0.0))
    go(world, (-0.06, 0.0, 0.1), steps=12)
    go(world, (-0.06, 0.0, 0.02), steps=12)
    start = world.state.ee_position[0].copy()
    for step in range(25):
        go(world, start + np.array([0.005 * step, 0.0, 0.0]), steps=1)
    go(world, start + np.array([0.12, 0.0, 0.0]), steps=10)
    moved = world.state.object_position[0, 0]
    assert moved[0] > 0.06, "the cube was pushed"
    assert abs(moved[2] - 0.02) < 0.003, "and slid on the table"
    assert np.linalg.norm(world.state.object_velocity[0, 0]) < 0.02, "and stopped when the push did"


def test_sliding_distance_follows_from_friction(make_world: MakeWorld) -> None:
    from mygym.engines.bullet.client import bullet

    world = make_world("kuka")
    world.reset(cube_at(-0.2, 0.1))
    bullet.resetBaseVelocity(world.object_bodies.ids[0], (1.0, 0.0, 0.0), physicsClientId=world.client)
    go(world, (0.0, 0.0, 0.3), steps=25)
    friction = world.objects[0].friction * world.workspace.fixtures["table"].friction
    assert world.state.object_position[0, 0, 0] + 0.2 == pytest.approx(1.0 / (2 * 9.81 * friction), rel=0.1)


@pytest.mark.parametrize("robot", ROBOTS)
def test_the_arm_does_not_go_through_the_table(make_world: MakeWorld, robot: str) -> None:
    world = make_world(robot, objects=0, control="joint_delta", gripper=False)
    q = world.kinematics.inverse(first_home(world), np.array([0.0, 0.0, -0.1]), world.kinematics.chain.rotation)
    for _ in range(40):
        act_first(world, np.clip((q - world.controller.joint_command) / world.controller.joint_step, -1, 1))
    assert world.state.ee_position[0, 2] > -0.005


def test_cube_rests_still(make_world: MakeWorld) -> None:
    world = make_world("kuka")
    world.reset(cube_at(0.1, 0.1))
    go(world, (0.0, 0.0, 0.2), steps=50)
    np.testing.assert_allclose(world.state.object_position[0, 0], (0.1, 0.1, 0.02), atol=1e-3)


@pytest.mark.parametrize("robot", ROBOTS)
def test_touch_is_distinguished_from_proximity(make_world: MakeWorld, robot: str) -> None:
    from mygym.engines.bullet.client import bullet

    world, cubes = make_world(robot, objects=2, gripper=False), np.vstack([cube_at(0.0, 0.0), cube_at(0.2, 0.2)])
    world.reset(cubes)
    go(world, (0.0, 0.0, 0.09), steps=20)
    for height in np.arange(0.09, 0.035, -0.002):
        go(world, (0.0, 0.0, height), steps=3)
        pair = world.robot_body.body, world.object_bodies.ids[0]
        near = bullet.getClosestPoints(*pair, distance=0.1, physicsClientId=world.client)
        if min(point[8] for point in near) > 0.001:
            assert not world.state.touch.any()
    assert world.state.touch.tolist() == [[True, False]], "pressing on it"
    go(world, (0.0, 0.0, 0.09), steps=20)
    assert not world.state.touch.any(), "away again"
    go(world, (0.0, 0.0, 0.035), steps=20)
    world.reset(cubes)
    assert not world.state.touch.any(), "reset"


@pytest.mark.parametrize("arm", [0, 1])
def test_finger_contacts_belong_to_the_arm_that_holds_the_object(
    make_world: MakeWorld, tmp_path: Path, arm: int
) -> None:
    world = make_world(two_armed(tmp_path), objects=2)
    state = world.state
    assert state.finger_contact.shape == state.second_finger_contact.shape == (1, 2, 2)
    tools = np.stack([state.ee_position[0], state.second_ee_position[0, 0]])
    cubes = np.vstack([cube_at(x, y) for x, y in tools[:, :2]])
    world.reset(cubes)
    targets, grippers = tools.copy(), np.ones(2)
    targets[arm] = cubes[arm, :3]
    for grip, touched in ((1.0, False), (-1.0, True), (1.0, False)):
        grippers[arm] = grip
        for _ in range(20):
            world.step(world.action_towards(targets[0], grippers[0], 0.0, targets[1], grippers[1]))
        fingers = np.stack([state.finger_contact[0], state.second_finger_contact[0]])
        expected = np.zeros((2, 2, 2), dtype=bool)
        expected[arm, arm] = touched
        np.testing.assert_array_equal(fingers, expected)
        np.testing.assert_array_equal(state.touch[0], expected.any(axis=(0, 2)))


def test_a_palm_touches_without_its_fingers(make_world: MakeWorld) -> None:
    """The palm presses on the upper of two cubes, the fingers open beside it."""
    world = make_world("panda", objects=2)
    world.reset(np.vstack([cube_at(0.0, 0.0), cube_at(0.0, 0.0, z=0.06)]))
    go(world, (0.0, 0.0, 0.02), 1, 25)
    assert world.state.touch.tolist() == [[False, True]]
    assert not world.state.finger_contact.any()
    assert world.state.second_finger_contact.shape == (1, 2, 0)
