"""Distractors that move to and fro."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mygym.engines.bullet.world import BulletWorld
from mygym.engines.world import MovingDistractor
from mygym.registry import registry
from mygym.robotics.objects import load_object
from mygym.robotics.robot import load_robot
from mygym.robotics.workspace import load_workspace
from tests.worlds import bullet_world

ALONG = MovingDistractor((0.0, 1.0, 0.0), speed=0.2, range=0.1)
CAN = load_object(registry("object").get("can").load())


@given(time=st.floats(0, 100), speed=st.floats(0.01, 1), reach=st.floats(0.01, 1))
def test_position_stays_in_range_at_constant_speed(time: float, speed: float, reach: float) -> None:
    distractor = MovingDistractor((0.6, 0.0, 0.8), speed, reach)
    position, next_position = (
        np.array(distractor.position((1.0, 2.0, 3.0), t)) - (1, 2, 3) for t in (time, time + 1e-4)
    )
    assert np.linalg.norm(position) <= reach + 1e-9
    assert np.linalg.norm(next_position - position) <= speed * 1e-4 + 1e-9
    assert np.cross(position, distractor.axis) == pytest.approx(0, abs=1e-9)


def test_motion_starts_in_the_middle_and_returns() -> None:
    positions = [ALONG.position((0, 0, 0), quarter * 0.5)[1] for quarter in range(5)]
    assert positions == pytest.approx([0.0, 0.1, 0.0, -0.1, 0.0])


@pytest.fixture
def world() -> Iterator[BulletWorld]:
    robot = load_robot(registry("robot").get("panda").load())
    table = load_workspace(registry("workspace").get("table").load())
    cube = load_object(registry("object").get("cube").load())
    world = bullet_world(robot, table, [cube, CAN], moving_distractors={1: ALONG})
    yield world
    world.close()


def start(world: BulletWorld, cube: tuple[float, float] = (-0.1, -0.2), can: tuple[float, float] = (0.15, 0.0)) -> None:
    poses = np.zeros((2, 7))
    poses[:, 6] = 1.0
    poses[0, :3] = *cube, world.objects[0].half_height
    poses[1, :3] = *can, CAN.half_height
    world.reset(poses)


NO_ACTION = np.zeros(4)


def test_the_body_follows_its_nominal_position(world: BulletWorld) -> None:
    start(world)
    for step in range(1, 80):
        world.step(NO_ACTION)
        expected = ALONG.position((0.15, 0.0, CAN.half_height), step * world.dt)
        assert math.dist(world.state.object_position[0, 1], expected) < 1e-3
        assert abs(world.state.object_orientation[0, 1, 3]) > 0.9999
        assert np.linalg.norm(world.state.object_velocity[0, 1]) <= 2.1 * ALONG.speed


def test_the_body_pushes_obstacles_and_continues(world: BulletWorld) -> None:
    start(world, cube=(0.15, 0.08))
    for _ in range(13):
        world.step(NO_ACTION)
    assert world.state.object_position[0, 0, 1] > 0.1
    for _ in range(100):
        world.step(NO_ACTION)
    expected = ALONG.position((0.15, 0.0, CAN.half_height), float(world.state.time[0]))
    assert math.dist(world.state.object_position[0, 1], expected) < 0.01


def test_the_arm_is_not_pushed_away(world: BulletWorld) -> None:
    start(world, can=(0.0, -0.12))
    for _ in range(12):
        world.step(world.action_towards(np.array([0.0, 0.02, 0.04]), -1.0))
    held = world.state.ee_position[0].copy()
    for _ in range(60):
        world.step(world.action_towards(held, -1.0))
    assert math.dist(world.state.ee_position[0], held) < 0.01


def test_resets_are_exact(world: BulletWorld) -> None:
    def episode() -> list[bytes]:
        start(world, cube=(0.15, 0.08))
        states = []
        for step in range(30):
            world.step(world.action_towards(np.array([0.15, 0.0, 0.05]), -1.0) if step > 5 else NO_ACTION)
            states.append(world.state.object_position.tobytes() + world.state.object_velocity.tobytes())
        return states

    first = episode()
    start(world)
    for _ in range(17):
        world.step(NO_ACTION)
    assert episode() == first
