"""Pictures in numpy: cameras as PyBullet's, and the geometry of simple shapes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mygym.engines import drawing
from mygym.engines.bullet.client import bullet
from mygym.engines.rendering.camera import Camera
from tests.worlds import WorldIn, cube_at

SIZE = 200
FOV = 40.0
NEAR, FAR = 0.1, 5.0
FOCAL = 0.5 * SIZE / math.tan(math.radians(FOV) / 2)
RED = (1.0, 0.0, 0.0, 1.0)
LIGHT: dict[str, Any] = {"lightDirection": (0.0, -1.0, 0.0), "lightColor": (1.0, 1.0, 1.0)}
"""From the camera of `picture`."""

ARM = """<robot name="arm"><material name="blue"><color rgba="0 0 1 1"/></material><link name="base"/>
<link name="slider"><visual><geometry><box size="0.2 0.2 0.2"/></geometry><material name="blue"/></visual></link>
<link name="hinge"><visual><origin xyz="0.3 0 0"/><geometry><box size="0.1 0.1 0.1"/></geometry></visual></link>
<joint name="slide" type="prismatic"><parent link="base"/><child link="slider"/><axis xyz="1 0 0"/></joint>
<joint name="turn" type="revolute"><parent link="slider"/><child link="hinge"/><axis xyz="0 0 2"/></joint></robot>"""


@pytest.fixture
def client() -> Iterator[int]:
    number = drawing.connect()
    yield number
    drawing.disconnect(number)


def sphere(client: int, radius: float, position: tuple[float, float, float]) -> int:
    shape = drawing.createVisualShape(drawing.GEOM_SPHERE, radius, RED, client)
    return drawing.createMultiBody(0.0, -1, shape, position, (0.0, 0.0, 0.0, 1.0), client)


def picture(client: int, **arguments: Any) -> tuple[Any, Any, Any]:
    """Return colours, distances along the axis in m and bodies, from 1 m before the origin along y."""
    view = drawing.computeViewMatrix((0.0, -1.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 1.0))
    projection = drawing.computeProjectionMatrixFOV(FOV, 1.0, NEAR, FAR)
    light = LIGHT | arguments
    _, _, colors, depth, bodies = drawing.getCameraImage(SIZE, SIZE, view, projection, **light, physicsClientId=client)
    return colors, FAR * NEAR / (FAR - (FAR - NEAR) * depth), bodies


def test_cameras_are_those_of_pybullet() -> None:
    from_angles = (0.1, 0.5, -0.2), 1.7, 35.0, -30.0, 0.0, 2
    np.testing.assert_allclose(
        drawing.computeViewMatrixFromYawPitchRoll(*from_angles),
        bullet.computeViewMatrixFromYawPitchRoll(*from_angles),
        atol=1e-6,
    )
    between = (0.3, -0.4, 0.6), (0.1, 0.5, 0.0), (0.1, 0.0, 1.0)
    np.testing.assert_allclose(drawing.computeViewMatrix(*between), bullet.computeViewMatrix(*between), atol=1e-6)
    lens = 40.0, 1.5, 0.05, 10.0
    np.testing.assert_allclose(
        drawing.computeProjectionMatrixFOV(*lens), bullet.computeProjectionMatrixFOV(*lens), rtol=1e-5, atol=1e-6
    )


def test_a_sphere_has_its_size_place_distance_and_shade(client: int) -> None:
    body = sphere(client, 0.1, (0.05, 0.0, 0.02))
    colors, distance, bodies = picture(client)
    rows, columns = np.nonzero(bodies == body)
    tilt = math.asin(0.1 / math.hypot(1.0, 0.05, 0.02))
    assert len(rows) == pytest.approx(math.pi * (FOCAL * math.tan(tilt)) ** 2, rel=0.02)
    assert columns.mean() - 99.5 == pytest.approx(0.05 * FOCAL, abs=0.6)
    assert 99.5 - rows.mean() == pytest.approx(0.02 * FOCAL, abs=0.6)
    assert distance[bodies == body].min() == pytest.approx(0.9, abs=1e-3)
    assert (bodies[0, 0], colors[0, 0].tolist()) == (-1, [255] * 4)
    middle, edge = colors[round(rows.mean()), round(columns.mean())], colors[round(rows.mean()), columns.min() + 1]
    assert middle.tolist() == [255, 0, 0, 255]
    assert 0.6 * 255 <= edge[0] < 0.9 * 255  # ambient light


def test_the_nearer_body_hides_the_farther(client: int) -> None:
    front, back = sphere(client, 0.05, (0.0, -0.2, 0.0)), sphere(client, 0.2, (0.0, 0.3, 0.0))
    bodies = picture(client)[2]
    assert bodies[100, 100] == front
    assert bodies[100, 80] == back
    drawing.removeBody(front, client)
    assert picture(client)[2][100, 100] == back
    drawing.resetBasePositionAndOrientation(back, (0.0, -3.0, 0.0), (0.0, 0.0, 0.0, 1.0), client)
    assert (picture(client)[2] == -1).all()  # behind the camera


def test_a_surface_through_the_camera_is_cut_off(client: int, tmp_path: Path) -> None:
    """A floor from behind the camera to the horizon fills the lower half, up to the farthest distance."""
    path = tmp_path / "floor.urdf"
    path.write_text(
        '<robot name="floor"><link name="floor"><visual><origin xyz="0 0 -0.2"/>'
        '<geometry><box size="20 20 0.002"/></geometry></visual></link></robot>'
    )
    floor = drawing.loadURDF(str(path), physicsClientId=client)
    _, distance, bodies = picture(client)
    assert (bodies[:100] == -1).all()
    for row in (120, 150, 199):
        assert (bodies[row] == floor).all()
        assert distance[row, 50] == pytest.approx(0.199 * FOCAL / (row - 99.5), rel=1e-3)


def test_shadows_fall_along_the_light(client: int) -> None:
    sphere(client, 0.04, (0.0, -0.3, 0.0))
    wall = sphere(client, 0.3, (0.0, 0.5, 0.0))
    slanted = {"lightDirection": (-0.3, -1.0, 0.0), "lightDiffuseCoeff": 0.3}
    bright, dark = (picture(client, shadow=shadow, **slanted)[0][..., 0] for shadow in (0, 1))
    rows, columns = np.nonzero((dark < 0.9 * bright) & (picture(client)[2] == wall))
    assert len(rows) > 20
    assert columns.mean() > 105  # the light comes from the left
    assert abs(rows.mean() - 99.5) < 2


def test_links_move_with_their_joints_as_in_pybullet(client: int, tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(ARM)
    pose = (0.1, 0.2, 0.3), (0.0, 0.0, math.sin(0.4), math.cos(0.4))
    mine = drawing.loadURDF(str(path), *pose, physicsClientId=client)
    names = [drawing.getJointInfo(mine, index, client) for index in range(drawing.getNumJoints(mine, client))]
    assert [(info[1], info[12], info[16]) for info in names] == [(b"slide", b"slider", -1), (b"turn", b"hinge", 0)]
    for index, position in enumerate((0.25, math.pi / 2)):
        drawing.resetJointState(mine, index, position, client)
    position, orientation = drawing.getLinkState(mine, 1, physicsClientId=client)[4:6]
    angle = 0.8  # of the base about z
    assert position == pytest.approx((0.1 + 0.25 * math.cos(angle), 0.2 + 0.25 * math.sin(angle), 0.3))
    assert np.abs(orientation) == pytest.approx((0.0, 0.0, math.sin(0.4 + math.pi / 4), math.cos(0.4 + math.pi / 4)))
    shapes = drawing.getVisualShapeData(mine, physicsClientId=client)
    assert [shape[1] for shape in shapes] == [0, 1]
    assert shapes[0][7] == (0.0, 0.0, 1.0, 1.0)
    assert shapes[1][5] == (0.3, 0.0, 0.0)


def test_other_functions_of_pybullet_are_missing() -> None:
    with pytest.raises(ModuleNotFoundError, match="pybullet"):
        drawing.stepSimulation()


def test_a_scene_is_that_of_pybullet(world_in: WorldIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly all pixels show the same body in the same distance; the rest are at outlines."""
    world = world_in("fridge", objects=["cube"])
    world.reset(cube_at(0.1, 0.4)[None])
    with closing(Camera(world)) as camera:
        expected = camera.capture(160, 120)
    with monkeypatch.context() as patch:
        for module in ("bullet.client", "rendering.scene", "rendering.camera", "rendering.appearance"):
            patch.setattr(f"mygym.engines.{module}.bullet", drawing)
        with closing(Camera(world)) as camera:
            drawn = camera.capture(160, 120)
    assert drawn.labels == expected.labels
    same = drawn.segmentation == expected.segmentation
    assert same.mean() > 0.975
    both = same & (expected.segmentation >= 0)
    assert np.quantile(np.abs(drawn.depth[both] - expected.depth[both]), 0.95) < 0.02
    assert np.abs(drawn.rgb.astype(float) - expected.rgb).mean() < 8
