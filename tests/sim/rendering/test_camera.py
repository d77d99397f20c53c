"""Images: type, contents, visible goal, unchanged physics."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

import mygym
from mygym.errors import ConfigError
from mygym.sim.inference import is_installed
from mygym.sim.inspection import around_robot
from mygym.sim.rendering.camera import Camera
from tests.components import ROBOTS
from tests.sim.test_world import snapshot
from tests.worlds import MakeWorld, cube_at


@pytest.mark.parametrize("robot", ROBOTS)
def test_images(make_world: MakeWorld, robot: str) -> None:
    world = make_world(robot)
    world.reset(cube_at(0.0, 0.1))
    camera = Camera(world)
    for name in world.workspace.cameras:
        image = camera.render(64, 48, name)
        assert image.shape == (48, 64, 3)
        assert image.dtype == np.uint8
        assert len(np.unique(image.reshape(-1, 3), axis=0)) > 20, "blank"
    plain = camera.render(160, 120, "top")  # the arm does not hide the goal
    np.testing.assert_array_equal(plain, camera.render(160, 120, "top"))
    goal = camera.render(160, 120, "top", goal=np.array([0.1, 0.2, 0.2])).astype(int)
    green = (goal[..., 1] > goal[..., 0] + 40) & (goal[..., 1] > goal[..., 2] + 40)
    assert green.sum() > 5, "a green sphere"
    assert (goal != plain).any(axis=2).sum() < 200, "no other change"
    np.testing.assert_array_equal(plain, camera.render(160, 120, "top"))
    world.step(np.ones(world.action_size))
    assert (camera.render(160, 120, "top") != plain).any(), "the image follows the world"
    assert camera.render(32, 24, samples=2, shadow=True).shape == (24, 32, 3)
    camera.close()
    camera.close()


def test_invalid_arguments_are_refused(make_world: MakeWorld) -> None:
    camera = Camera(make_world("kuka"))
    with pytest.raises(ConfigError, match="did you mean 'main'"):
        camera.render(10, 10, "mian")
    with pytest.raises(ConfigError, match="render_width"):
        camera.render(0, 10)
    camera.close()


@pytest.mark.parametrize("robot", ROBOTS)
def test_rendering_does_not_change_physics(make_world: MakeWorld, robot: str) -> None:
    rendered, plain = make_world(robot), make_world(robot)
    camera = Camera(rendered)
    for world in (rendered, plain):
        world.reset(cube_at(0.02, 0.0, 0.2))
    for action in np.random.default_rng(3).uniform(-1, 1, (20, rendered.action_size)) - (
        0,
        0,
        0.5,
        *[0] * (rendered.action_size - 3),
    ):
        camera.render(16, 12, goal=np.zeros(3))
        rendered.step(action)
        plain.step(action)
        for a, b in zip(snapshot(rendered), snapshot(plain), strict=True):
            np.testing.assert_array_equal(a, b)
    camera.close()


@pytest.mark.parametrize("robot", [name for name in ("panda", "kuka", "so100", "baxter") if is_installed(name)])
def test_the_fitted_camera_sees_the_whole_robot(robot: str) -> None:
    with mygym.make_env({"robot": robot}) as env:
        world = env.world
        cameras = world.workspace.cameras
        fitted = around_robot(world, cameras["main"], 4 / 3)
        world.workspace = replace(world.workspace, cameras={"main": fitted})
        with closing(Camera(world)) as camera:
            mask = camera.robot_mask(160, 120)
    edges = np.concatenate([mask[0], mask[:, 0], mask[:, -1]])  # the table or a fixture may be below
    assert not edges.any()
    assert mask.mean() > 0.02
