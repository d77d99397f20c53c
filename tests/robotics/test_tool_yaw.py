"""The tool rotates about its axis: by actions, by experts, with a held object, and only where enabled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mygym.engines.bullet.world import BulletWorld
from mygym.registry import registry
from mygym.robotics.controllers.controller import YAW_LAG, YAW_RANGE, YAW_STEP
from mygym.robotics.robot import load_robot
from mygym.robotics.transforms import multiply_quaternions
from mygym.robotics.workspace import load_workspace
from tests.components import CONTROLS, ROBOTS, covering
from tests.worlds import MakeWorld, act_first, bullet_world, cube_at, go, two_armed

NONE = np.zeros((0, 7))
PAIRS = [(robot, control) for robot in ROBOTS for control in CONTROLS]
PAIRS_QUICKLY = [pair if pair in covering(PAIRS) else pytest.param(*pair, marks=pytest.mark.slow) for pair in PAIRS]
TWO_DEGREES = 0.035


def rotation_vector(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return the rotation `(3,)` rad in the world frame from one quaternion to another."""
    x, y, z, w = multiply_quaternions(after, before * (-1, -1, -1, 1))
    axis, sine = np.array([x, y, z]) * np.sign(w), float(np.linalg.norm([x, y, z]))
    vector: np.ndarray = 2 * np.arcsin(min(sine, 1.0)) * axis / max(sine, 1e-12)
    return vector


def yaw_meter(world: BulletWorld) -> Callable[[], float]:
    """Return a function that measures the tool's yaw since now, rad, and fails on any other rotation."""
    axis, start = -np.array(world.workspace.tool_direction), world.state.ee_orientation[0].copy()

    def yaw() -> float:
        vector = rotation_vector(start, world.state.ee_orientation[0])
        assert np.linalg.norm(vector - (vector @ axis) * axis) < 3 * TWO_DEGREES, "tilted"
        return float(vector @ axis)

    return yaw


# by experts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [0.6, -0.6])
@pytest.mark.parametrize(("robot", "control"), PAIRS_QUICKLY)
def test_expert_rotates_the_tool_and_then_holds_it(
    make_world: MakeWorld, robot: str, control: str, wanted: float
) -> None:
    world = make_world(robot, objects=0, control=control, tool_yaw=True)
    start, yaw = world.state.ee_position[0].copy(), yaw_meter(world)
    for _ in range(25):
        world.step(world.action_towards(start, yaw_change=wanted - yaw()))
        assert np.linalg.norm(world.state.ee_position[0] - start) < 0.01
    assert yaw() == pytest.approx(wanted, abs=TWO_DEGREES)
    target = start + np.array([0.06, 0.08, 0.0])
    for _ in range(200):
        world.step(world.action_towards(target))
        assert yaw() == pytest.approx(wanted, abs=TWO_DEGREES)
    np.testing.assert_allclose(world.state.ee_position[0], target, atol=0.003)


KNOCKS = {"joint_delta": 1.0, "joint_position": 0.1, "joint_velocity": 1.0, "joint_torque": 0.1}
"""Disturbance of the last joint's action component."""


@pytest.mark.parametrize("control", KNOCKS)
def test_expert_of_joint_controllers_keeps_the_yaw(make_world: MakeWorld, control: str) -> None:
    world = make_world("panda", objects=0, control=control, gripper=False, tool_yaw=True)
    start, yaw = world.state.ee_position[0].copy(), yaw_meter(world)
    for _ in range(15):
        world.step(world.action_towards(start, yaw_change=0.5 - yaw()))
    for _ in range(3):
        world.step(world.action_towards(start) + KNOCKS[control] * np.eye(7)[6])
    assert abs(yaw() - 0.5) > TWO_DEGREES, "the disturbance rotates the tool"
    go(world, start, steps=15)
    assert yaw() == pytest.approx(0.5, abs=TWO_DEGREES / 2)


@pytest.mark.parametrize("control", CONTROLS)
def test_reset_clears_the_yaw(make_world: MakeWorld, control: str) -> None:
    world = make_world("panda", objects=0, control=control, tool_yaw=True)
    start, yaw = world.state.ee_position[0].copy(), yaw_meter(world)
    for _ in range(10):
        world.step(world.action_towards(start, yaw_change=0.5 - yaw()))
    world.reset(NONE)
    go(world, start, steps=10)
    assert yaw() == pytest.approx(0.0, abs=TWO_DEGREES)


@pytest.mark.parametrize("control", CONTROLS)
def test_yaw_is_held_unless_enabled(make_world: MakeWorld, control: str) -> None:
    world = make_world("panda", objects=0, control=control)
    start, yaw = world.state.ee_position[0].copy(), yaw_meter(world)
    for _ in range(10):
        world.step(world.action_towards(start, yaw_change=0.5))
    assert yaw() == pytest.approx(0.0, abs=TWO_DEGREES)


def test_held_cube_rotates_with_the_tool(make_world: MakeWorld) -> None:
    world = make_world("panda", tool_yaw=True)
    world.reset(cube_at(0.0, 0.0))
    yaw = yaw_meter(world)
    go(world, (0.0, 0.0, 0.02), 1, 12)
    go(world, (0.0, 0.0, 0.02), -1, 10)
    go(world, (0.0, 0.0, 0.15), -1, 10)
    before = world.state.object_orientation[0, 0].copy()
    for _ in range(20):
        world.step(world.action_towards(np.array([0.0, 0.0, 0.15]), -1.0, yaw_change=0.7 - yaw()))
    np.testing.assert_allclose(
        rotation_vector(before, world.state.object_orientation[0, 0]), (0.0, 0.0, 0.7), atol=2 * TWO_DEGREES
    )


# by actions -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("robot", ROBOTS)
def test_delta_is_a_yaw_step_and_the_wrist_follows(make_world: MakeWorld, robot: str) -> None:
    world = make_world(robot, objects=0, gripper=False, tool_yaw=True)
    for sign in (1.0, -1.0):
        world.reset(NONE)
        yaw = yaw_meter(world)
        for step in range(1, 11):
            act_first(world, np.array([0.0, 0.0, 0.0, sign]))
            assert sign * yaw() == pytest.approx(step * YAW_STEP, abs=YAW_STEP)
        act_first(world, np.zeros(4))
        act_first(world, np.zeros(4))
        assert sign * yaw() == pytest.approx(10 * YAW_STEP, abs=TWO_DEGREES)


def test_absolute_action_is_a_yaw_approached_in_steps(make_world: MakeWorld) -> None:
    world = make_world("kuka", objects=0, control="ee_absolute", tool_yaw=True)
    yaw, action = yaw_meter(world), np.append(world.action_towards(world.state.ee_position[0])[:3], 0.5)
    world.step(action)
    assert yaw() < 1.5 * YAW_STEP
    for _ in range(15):
        world.step(action)
    assert yaw() == pytest.approx(YAW_RANGE / 2, abs=TWO_DEGREES)


def test_yaw_is_limited_and_returns_immediately(make_world: MakeWorld) -> None:
    world = make_world("panda", objects=0, gripper=False, tool_yaw=True)
    yaw = yaw_meter(world)
    for _ in range(40):
        world.step(np.array([0.0, 0.0, 0.0, 1.0]))
    assert yaw() == pytest.approx(YAW_RANGE, abs=TWO_DEGREES)
    for _ in range(4):
        world.step(np.array([0.0, 0.0, 0.0, -1.0]))
    assert yaw() < YAW_RANGE - 2 * YAW_STEP


def test_blocked_yaw_does_not_wind_up(make_world: MakeWorld) -> None:
    world = make_world("panda", objects=0, gripper=False, tool_yaw=True)
    joints, ee = world.state.joint_position[0], world.state.ee_position[0]
    for _ in range(10):
        world.controller.command(np.array([0.0, 0.0, 0.0, 1.0]), joints, ee)
    assert world.controller.yaw_command == pytest.approx(YAW_LAG, abs=1e-3)  # type: ignore[attr-defined]


def test_forward_tool_rotates_about_its_axis() -> None:
    workspace = load_workspace("verticalmaze")
    robot = next(robot for robot in ROBOTS if robot in workspace.robots)
    assert workspace.tool_direction != (0.0, 0.0, -1.0)
    world = bullet_world(load_robot(robot), workspace, gripper=False, tool_yaw=True)
    yaw = yaw_meter(world)
    for _ in range(6):
        world.step(np.array([0.0, 0.0, 0.0, 1.0]))
    world.step(np.zeros(4))
    assert yaw() == pytest.approx(6 * YAW_STEP, abs=TWO_DEGREES)
    world.close()


def test_only_end_effector_controllers_have_a_yaw_action(make_world: MakeWorld) -> None:
    assert make_world("panda", objects=0).control_names == ("ee_x", "ee_y", "ee_z", "gripper")
    for control in CONTROLS:
        commands = registry("controller").get(control).load().commands
        plain = make_world("panda", objects=0, control=control).control_names
        with_yaw = make_world("panda", objects=0, control=control, tool_yaw=True).control_names
        assert with_yaw == ((*plain[:3], "tool_yaw", *plain[3:]) if commands == "cartesian" else plain)


# two arms -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("control", CONTROLS)
def test_second_arm_reaches_its_target_and_closes_its_gripper(
    make_world: MakeWorld, tmp_path: Path, control: str
) -> None:
    world = make_world(two_armed(tmp_path), objects=0, control=control, tool_yaw=True)
    if control == "ee_delta":
        first, second = ("ee_x", "ee_y", "ee_z", "tool_yaw"), ("second_ee_x", "second_ee_y", "second_ee_z")
        assert world.control_names == (*first, *second, "gripper", "second_gripper")
    start, second_start = world.state.ee_position[0].copy(), world.state.second_ee_position[0, 0].copy()
    yaw, second_target = yaw_meter(world), second_start + np.array([0.05, -0.1, -0.05])
    for _ in range(25):
        world.step(world.action_towards(start, 1.0, 0.5 - yaw(), second_target, -1.0))
    np.testing.assert_allclose(world.state.ee_position[0], start, atol=0.005)
    np.testing.assert_allclose(world.state.second_ee_position[0, 0], second_target, atol=0.005)
    assert yaw() == pytest.approx(0.5, abs=TWO_DEGREES)
    assert world.state.gripper_width[0] == pytest.approx(0.08, abs=5e-4)
    assert world.state.second_gripper_width[0, 0] == pytest.approx(0.0, abs=5e-4)
    go(world, start, steps=25)
    np.testing.assert_allclose(world.state.second_ee_position[0, 0], second_start, atol=0.005)
    assert world.state.second_gripper_width[0, 0] == pytest.approx(0.08, abs=5e-4)
