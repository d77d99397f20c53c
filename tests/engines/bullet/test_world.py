"""BulletWorld: exact resets, memory and state."""

from __future__ import annotations

import dataclasses
import os

import numpy as np
import psutil
import pytest

from mygym.engines.bullet.world import BulletWorld, SolverSettings
from tests.components import ROBOTS, ROBOTS_AND_CONTROLS_QUICKLY
from tests.worlds import MakeWorld, act_first, cube_at, first_home, go


def snapshot(world: BulletWorld) -> list[np.ndarray]:
    return [getattr(world.state, field.name).copy() for field in dataclasses.fields(world.state)]


def episode(world: BulletWorld) -> list[list[np.ndarray]]:
    """Return the states of an episode with contacts, where replays would differ first."""
    world.reset(cube_at(0.02, 0.01, 0.3))
    states = [snapshot(world)]
    rng = np.random.default_rng(7)
    targets = [((0.02, 0.01, 0.02), 1, 6), ((0.02, 0.01, 0.015), -1, 4), ((0.1, 0.05, 0.1), -1, 4)]
    for target, gripper, steps in targets:
        for _ in range(steps):
            noise = rng.uniform(-0.1, 0.1, world.action_size)
            world.step(world.action_towards(np.array(target), gripper) + noise)
            states.append(snapshot(world))
    return states


def history(world: BulletWorld, seed: int) -> None:
    """Play random steps with contacts and grasps before the next reset."""
    rng = np.random.default_rng(seed)
    if seed % 3 == 0:
        world.reset(cube_at(*rng.uniform(-0.1, 0.1, 2)))
    x, y, _ = world.state.object_position[0, 0]
    go(world, (x, y, 0.02), 1, int(rng.integers(0, 8)))
    go(world, (x, y, 0.02), -1, int(rng.integers(0, 5)))
    for action in rng.uniform(-1, 1, (int(rng.integers(0, 6)), world.action_size)):
        world.step(action)


@pytest.mark.parametrize("histories", [7, pytest.param(18, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("robot", "control"), ROBOTS_AND_CONTROLS_QUICKLY)
def test_reset_is_exact_after_any_history(make_world: MakeWorld, robot: str, control: str, histories: int) -> None:
    world = make_world(robot, control=control)
    other = make_world(robot, control=control)  # a second world in the same process must have no effect
    expected = episode(world)
    index = [field.name for field in dataclasses.fields(world.state)].index("object_position")
    assert any(not np.array_equal(expected[0][index], state[index]) for state in expected), "never touched the cube"
    for seed in range(histories):
        history(world, seed)
        if seed % 6 == 0:
            history(other, seed + 1)
        for step, (actual_state, expected_state) in enumerate(zip(episode(world), expected, strict=True)):
            for field, a, b in zip(dataclasses.fields(world.state), actual_state, expected_state, strict=True):
                assert np.array_equal(a, b), (
                    f"history {seed}, step {step}: {field.name} differs by {np.abs(a - b).max()}"
                )


@pytest.mark.slow
def test_memory_does_not_grow_over_resets(make_world: MakeWorld) -> None:
    world, process = make_world("panda"), psutil.Process(os.getpid())
    pose = cube_at(0.0, 0.0)
    for _ in range(300):
        world.reset(pose)
    before = process.memory_info().rss
    for _ in range(700):
        world.reset(pose)
    assert process.memory_info().rss - before < 0.7e6


def test_state_arrays_are_refilled_in_place(make_world: MakeWorld) -> None:
    world = make_world("panda")
    state, arrays = world.state, [getattr(world.state, field.name) for field in dataclasses.fields(world.state)]
    world.step(np.ones(world.action_size))
    world.reset(cube_at(0.1, 0.1))
    assert world.state is state
    assert all(
        getattr(state, field.name) is array for field, array in zip(dataclasses.fields(state), arrays, strict=True)
    )


@pytest.mark.parametrize("robot", ROBOTS)
def test_state_after_reset(make_world: MakeWorld, robot: str) -> None:
    world = make_world(robot)
    world.reset(cube_at(0.1, -0.1, 0.5))
    state = world.state
    np.testing.assert_allclose(state.ee_position[0], world.workspace.tool_home, atol=1e-3)
    np.testing.assert_allclose(state.joint_position[0], world.home, atol=1e-12)
    np.testing.assert_allclose(state.object_position[0, 0], (0.1, -0.1, 0.02), atol=1e-12)
    np.testing.assert_allclose(state.object_orientation[0, 0], cube_at(0, 0, 0.5)[0, 3:], atol=1e-9)
    assert state.time[0] == 0.0
    assert not state.ee_velocity.any()
    assert not state.joint_velocity.any()
    assert not state.object_velocity.any()
    assert not state.finger_contact.any()
    world.step(np.zeros(world.action_size))
    assert state.time[0] == pytest.approx(world.dt)


@pytest.mark.parametrize("robot", ROBOTS)
def test_end_effector_velocity_is_the_derivative_of_its_position(make_world: MakeWorld, robot: str) -> None:
    fine = {"control_hz": 500.0, "solver": SolverSettings(1, 50, 1e-9)}
    world = make_world(robot, objects=0, control="joint_delta", gripper=False, **fine)
    for _ in range(100):  # rotation of the tool: its velocity differs from that of the link
        before = world.state.ee_position[0].copy()
        act_first(world, np.array([0.1, -0.1, 0.1, 0.1, -0.2, 0.3, 0.1])[: len(first_home(world))])
    difference = (world.state.ee_position[0] - before) / world.dt
    assert np.linalg.norm(difference) > 0.05
    np.testing.assert_allclose(world.state.ee_velocity[0], difference, atol=2e-3)


def test_reset_to_given_joints(make_world: MakeWorld) -> None:
    world = make_world("panda", objects=0)
    q = world.kinematics.inverse(world.home, np.array([0.1, 0.1, 0.1]), world.kinematics.chain.rotation)
    world.reset(np.zeros((0, 7)), q)
    np.testing.assert_allclose(world.state.ee_position[0], (0.1, 0.1, 0.1), atol=1e-3)


def test_motor_force_does_not_depend_on_substeps(make_world: MakeWorld) -> None:
    """Bullet multiplies motor forces by the number of substeps; fingers pressed on a cube show it."""
    from mygym.engines.bullet.client import bullet

    world = make_world("panda")
    world.reset(cube_at(0.0, 0.0))
    go(world, (0.0, 0.0, 0.02), 1, 12)
    go(world, (0.0, 0.0, 0.02), -1, 15)
    points = bullet.getContactPoints(world.robot_body.body, world.object_bodies.ids[0], physicsClientId=world.client)
    # Bullet divides the impulse of one substep by the control step.
    force = sum(point[9] for point in points if point[7][1] > 0.5) * world.solver.substeps
    assert world.robot.gripper is not None
    assert force == pytest.approx(world.robot.gripper.force, rel=0.4)
