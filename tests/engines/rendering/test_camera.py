"""Images: type, contents, visible goal, unchanged physics."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mygym
from mygym.engines.bullet.client import connect
from mygym.engines.rendering.camera import Camera, around
from mygym.engines.rendering.scene import Scene
from mygym.errors import ConfigError
from mygym.registry import registry
from mygym.robotics.robot import load_robot
from mygym.robotics.urdf import read_urdf
from tests.components import ROBOTS
from tests.engines.bullet.test_world import snapshot
from tests.worlds import MakeWorld, cube_at

INSTALLED = [name for name in ("panda", "kuka", "so100", "baxter") if not registry("robot").get(name).missing_extras]


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


@pytest.mark.parametrize("robot", INSTALLED)
def test_the_fitted_camera_sees_the_whole_robot(robot: str) -> None:
    with mygym.make_env({"robot": robot}) as env:
        world = env.world
        cameras = world.workspace.cameras
        fitted = around(world.inspection.robot_corners(), cameras["main"], 4 / 3)
        world.workspace = replace(world.workspace, cameras={"main": fitted})
        with closing(Camera(world)) as camera:
            mask = camera.robot_mask(160, 120)
    edges = np.concatenate([mask[0], mask[:, 0], mask[:, -1]])  # the table or a fixture may be below
    assert not edges.any()
    assert mask.mean() > 0.02


def test_a_frame_has_depth_and_the_body_of_each_pixel(make_world: MakeWorld) -> None:
    world = make_world("panda")
    world.reset(cube_at(0.05, -0.1))
    with closing(Camera(world)) as camera:
        frame = camera.capture(160, 160, "top")
        np.testing.assert_array_equal(frame.rgb, camera.render(160, 160, "top"))
        np.testing.assert_array_equal(frame.segmentation == 0, camera.robot_mask(160, 160, "top"))
        far = camera.capture(64, 64, "side")
    assert (frame.labels[0], frame.labels[-1]) == ("robot", "cube")
    height, spec = world.workspace.cameras["top"].distance, world.workspace.cameras["top"]
    table, cube = (frame.segmentation == frame.labels.index(name) for name in ("table", "cube"))
    assert np.median(frame.depth[table]) == pytest.approx(height, abs=0.01)
    assert np.median(frame.depth[cube]) == pytest.approx(height - 0.04, abs=0.01), "the upper face of the cube"
    rows, columns = np.nonzero(cube)
    metres = 2 * (height - 0.04) * np.tan(np.radians(spec.fov / 2)) / 160
    offset = np.array([79.5 - rows.mean(), 79.5 - columns.mean()]) * metres  # up and left in the image
    assert np.linalg.norm(offset) == pytest.approx(np.hypot(0.05, 0.1), abs=0.02)
    background = far.segmentation == -1
    assert background.any()
    assert np.isinf(far.depth[background]).all()
    assert np.isfinite(far.depth[~background]).all()


@pytest.mark.parametrize("robot", [name for name in ROBOTS if load_robot(name).cameras])
def test_a_camera_on_the_hand_moves_with_it(robot: str) -> None:
    with mygym.make_env({"robot": robot, "task": "pick_and_place"}) as env:
        (name,) = env.robot.cameras
        env.reset(seed=1)
        seen = []
        while env.progress.stage[0] < 2:  # until the fingers hold the cube
            frame = env.capture(name, 96, 96)
            cube = np.nonzero(frame.segmentation == frame.labels.index("cube"))
            seen.append((*np.mean(cube, axis=1), len(cube[0])) if len(cube[0]) else None)
            env.step(env.expert_action())
        held = env.capture(name, 96, 96)
    assert 0 < (held.segmentation == 0).mean() < 0.4, "the fingers do not hide the view"
    assert abs(seen[-1][1] - 47.5) < 8, "the cube is between the fingers, in the middle of the image"
    assert seen[-1][2] > 2 * next(each for each in seen if each)[2], "it has come nearer"


@pytest.mark.parametrize("robot", ROBOTS)
def test_links_of_the_scene_are_where_those_of_the_world_are(make_world: MakeWorld, robot: str) -> None:
    world = make_world(robot)
    world.reset(cube_at(0.0, 0.1))
    for _ in range(3):
        world.step(np.full(world.action_size, 0.5))
    with closing(Scene(world, connect())) as scene:
        scene.mirror()
        tool, base = world.robot.end_effector, read_urdf(Path(world.robot.urdf)).find("link")
        point = scene.link_pose(tool.link) @ (*tool.position, 1.0)
        np.testing.assert_allclose(point[:3], world.state.ee_position[0], atol=1e-5)
        np.testing.assert_allclose(scene.link_pose(base.get("name"))[:3, 3], world.robot.base_position, atol=1e-6)
