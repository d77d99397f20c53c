"""Shapes: volumes and inertias match textbook values, Bullet's bodies have the described size."""

from __future__ import annotations

import math
import os
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mygym.engines.bullet.client import bullet, connect, disconnect
from mygym.engines.bullet.object_bodies import create_collision
from mygym.errors import AssetError
from mygym.robotics.assets import ASSETS
from mygym.robotics.files import temporary_file
from mygym.robotics.inertia import mass_properties, volume
from mygym.robotics.links import link_element
from mygym.robotics.mesh_files import read_hulls
from mygym.robotics.meshes import few_points, hull, obj_text, shrunk, volume_properties
from mygym.robotics.shapes import SIZES, GeomSpec, bounds, check_geom, mesh_of, pieces

PI = math.pi
CUBE = tuple((x, y, z) for x in (-0.02, 0.02) for y in (-0.02, 0.02) for z in (-0.02, 0.02))
GEOMS = {
    "box": GeomSpec("box", (0.1, 0.2, 0.3)),
    "sphere": GeomSpec("sphere", (0.03,)),
    "cylinder": GeomSpec("cylinder", (0.03, 0.08)),
    "capsule": GeomSpec("capsule", (0.02, 0.05)),
    "cone": GeomSpec("cone", (0.04, 0.0, 0.08)),
    "prism": GeomSpec("prism", (0.03, 0.04)),
    "tube": GeomSpec("tube", (0.04, 0.04, 0.006, 0.09)),
    "torus": GeomSpec("torus", (0.04, 0.01)),
    "hull": GeomSpec("hull", points=CUBE),
    "mesh": GeomSpec("mesh", file=str(ASSETS / "robots" / "meshes" / "kuka" / "link7.obj")),
}
BALL = 4 / 3 * PI * 0.02**3
VOLUMES = {
    "box": 0.006,
    "sphere": 4 / 3 * PI * 0.03**3,
    "cylinder": PI * 0.03**2 * 0.08,
    "capsule": PI * 0.02**2 * 0.05 + BALL,
    "cone": PI * 0.04**2 * 0.08 / 3,
    "prism": 1.5 * 3**0.5 * 0.03**2 * 0.04,
    "tube": PI * (0.04**2 - 0.034**2) * 0.09,
    "torus": 2 * PI**2 * 0.04 * 0.01**2,
    "hull": 0.04**3,
}


@pytest.fixture
def client() -> Iterator[int]:
    number = connect()
    yield number
    disconnect(number)


def test_a_mesh_that_is_not_a_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.obj")  # reading it would block
    with pytest.raises(AssetError, match=r"^mesh: .*pipe\.obj"):
        read_hulls(str(tmp_path / "pipe.obj"))


def test_all_shapes_are_covered() -> None:
    assert set(GEOMS) == set(SIZES)


def test_volumes() -> None:
    for shape in VOLUMES:
        assert volume([GEOMS[shape]]) == pytest.approx(VOLUMES[shape], rel=2e-3)


@pytest.mark.parametrize("shape", GEOMS)
def test_inertia_matches_sampled_points(shape: str) -> None:
    """Points are sampled uniformly inside the collision shape."""
    geom = GEOMS[shape]
    inertial = mass_properties([geom], 2.0)
    rng = np.random.default_rng(0)
    low, high = bounds([geom])
    points = rng.uniform(low, high, (60_000, 3))
    points = points[_inside(geom, points)]
    middle = points.mean(axis=0)
    offsets = points - middle
    squares = np.einsum("ij,ik->jk", offsets, offsets) / len(points) * 2.0
    size = np.trace(squares)
    np.testing.assert_allclose(inertial.centre, middle, atol=0.03 * np.abs(high - low).max())
    np.testing.assert_allclose(inertial.inertia, np.trace(squares) * np.eye(3) - squares, atol=0.03 * size)


def _inside(geom: GeomSpec, points: np.ndarray) -> np.ndarray:
    x, y, z = points.T
    r = np.hypot(x, y)
    size = geom.size
    if geom.shape in ("box", "hull"):
        return np.ones(len(points), dtype=bool)
    if geom.shape == "sphere":
        return (points**2).sum(axis=1) < size[0] ** 2
    if geom.shape == "cylinder":
        return r < size[0]
    if geom.shape == "capsule":
        return np.hypot(r, np.maximum(np.abs(z) - size[1] / 2, 0)) < size[0]
    if geom.shape == "cone":
        return r < size[0] + (size[1] - size[0]) * (z / size[2] + 0.5)
    if geom.shape == "tube":
        return (r < size[0]) & (r > size[0] - size[2])
    if geom.shape == "torus":
        return np.hypot(r - size[0], z) < size[1]
    mesh = hull(read_hulls(geom.file)[0]) if geom.shape == "mesh" else None
    if mesh is None:  # a prism of six sides
        angles = np.arange(6) * PI / 3 + PI / 6
        return (np.outer(x, np.cos(angles)) + np.outer(y, np.sin(angles)) < size[0] * math.cos(PI / 6)).all(axis=1)
    corners = mesh.vertices[mesh.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return (points @ normals.T < (normals * corners[:, 0]).sum(axis=1)).all(axis=1)


def test_two_halves_have_the_inertia_of_the_whole() -> None:
    halves = [GeomSpec("box", (0.1, 0.1, 0.1), position=(0, 0, z)) for z in (0.05, 0.15)]
    whole = GeomSpec("box", (0.2, 0.1, 0.1), position=(0, 0, 0.1), euler=(0, 90, 0))
    np.testing.assert_allclose(mass_properties(halves, 2.0).inertia, mass_properties([whole], 2.0).inertia, atol=1e-12)


def test_masses_of_geoms() -> None:
    head, handle = GeomSpec("box", (0.1, 0.02, 0.02), mass=0.5), GeomSpec("box", (0.02, 0.02, 0.2), (0.0, 0.0, -0.11))
    inertial = mass_properties([head, handle], 0.6)
    assert inertial.centre[2] == pytest.approx(-0.11 * 0.1 / 0.6)
    assert mass_properties([head], None).mass == 0.5
    for geoms, mass, words in (
        ([head, handle], None, "is missing"),
        ([head, handle], 0.5, "more than the sum"),
        ([head], 0.6, "the sum of its geoms"),
    ):
        with pytest.raises(AssetError, match=words):
            mass_properties(geoms, mass)


@pytest.mark.parametrize("turn", [(0.0, 0.0, 0.0), (30.0, -50.0, 70.0)])
@pytest.mark.parametrize("shape", GEOMS)
def test_bullet_body_has_the_described_size(shape: str, turn: tuple[float, float, float], client: int) -> None:
    geom = GeomSpec(**{**vars(GEOMS[shape]), "position": (0.3, -0.2, 0.1), "euler": turn})
    collision = create_collision(client, pieces((geom,)))
    body = bullet.createMultiBody(1.0, collision, -1, useMaximalCoordinates=True, physicsClientId=client)
    low, high = bounds([geom])
    wall = bullet.createCollisionShape(bullet.GEOM_BOX, halfExtents=[1.0, 1.0, 1.0], physicsClientId=client)
    for axis in range(3):
        for side, end in ((-1, low), (1, high)):
            position = [0.3, -0.2, 0.1]
            position[axis] = end[axis] + side * 1.01
            other = bullet.createMultiBody(0.0, wall, -1, position, useMaximalCoordinates=True, physicsClientId=client)
            bullet.performCollisionDetection(physicsClientId=client)
            points = bullet.getClosestPoints(body, other, 0.05, physicsClientId=client)
            assert min(point[8] for point in points) == pytest.approx(0.01, abs=1.6e-3)
            bullet.removeBody(other, physicsClientId=client)


@pytest.mark.parametrize("sides", [None, 6])
def test_tube_has_a_hole(sides: int | None, client: int) -> None:
    geom = GeomSpec("tube", (0.04, 0.03, 0.01, 0.06), sides=sides)
    collision = create_collision(client, pieces((geom,)))
    body = bullet.createMultiBody(0.0, collision, -1, physicsClientId=client)
    peg = bullet.createCollisionShape(bullet.GEOM_SPHERE, radius=0.019, physicsClientId=client)
    ball = bullet.createMultiBody(1.0, peg, -1, (0.0, 0.0, 0.02), physicsClientId=client)
    points = bullet.getClosestPoints(body, ball, 0.05, physicsClientId=client)
    assert 0.0 < min(point[8] for point in points) < 0.005


def test_hull_is_shrunk_by_bullets_margin_and_has_few_points() -> None:
    np.testing.assert_allclose(np.abs(shrunk(CUBE)), 0.019, atol=1e-6)
    thin = np.array(CUBE) * (1, 1, 0.02)
    assert np.abs(shrunk(thin)[:, 2]).max() > 0
    ball = np.random.default_rng(0).normal(size=(2000, 3))
    ball /= np.linalg.norm(ball, axis=1, keepdims=True)
    few = few_points(ball)
    assert len(few) <= 64
    assert volume_properties(hull(few))[0] > 0.85 * 4 / 3 * PI


@pytest.mark.parametrize("shape", GEOMS)
def test_urdf_link_of_any_shape_loads(shape: str, client: int) -> None:
    robot = ET.Element("robot", name="thing")
    robot.append(link_element("thing", [GEOMS[shape]], inertial=mass_properties([GEOMS[shape]], 0.5)))
    path = temporary_file("thing.urdf", ET.tostring(robot, encoding="unicode"))
    flags = bullet.URDF_USE_INERTIA_FROM_FILE
    body = bullet.loadURDF(path, flags=flags, physicsClientId=client)
    assert bullet.getDynamicsInfo(body, -1, physicsClientId=client)[0] == pytest.approx(0.5)
    moments = bullet.getDynamicsInfo(body, -1, physicsClientId=client)[2]
    expected = np.linalg.eigvalsh(mass_properties([GEOMS[shape]], 0.5).inertia)
    np.testing.assert_allclose(sorted(moments), expected, rtol=1e-3)
    assert len(bullet.getVisualShapeData(body, physicsClientId=client)) == 1
    assert len(bullet.getCollisionShapeData(body, -1, physicsClientId=client)) == len(pieces((GEOMS[shape],)))


STL = "solid s\nfacet normal 0 0 1\nouter loop\n{}\nendloop\nendfacet\nendsolid s\n"


def test_meshes_are_read(tmp_path: Path) -> None:
    corners = np.array([[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1]])
    triangles = corners[[[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]]
    ascii = tmp_path / "a.stl"
    ascii.write_text(STL.format("\n".join(f"vertex {x} {y} {z}" for x, y, z in triangles.reshape(-1, 3))))
    binary = tmp_path / "b.STL"
    rows = np.zeros(4, dtype=np.dtype([("normal", "<f4", 3), ("points", "<f4", 9), ("attribute", "<u2")]))
    rows["points"] = triangles.reshape(4, 9)
    binary.write_bytes(bytes(80) + np.uint32(4).tobytes() + rows.tobytes())
    groups = tmp_path / "c.obj"
    vertices = "".join(f"v {x} {y} {z}\n" for x, y, z in np.concatenate([corners, corners + 1]))
    groups.write_text(f"{vertices}o one\nf 1/1 2/1 3/1\nf 1 2 4\no two\nf 5 6 7 8\n")
    for path in (ascii, binary, groups):
        np.testing.assert_allclose(sorted(read_hulls(str(path))[0].tolist()), sorted(corners.tolist()), atol=1e-7)
    assert len(read_hulls(str(groups))) == 2


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.obj", None, "cannot be read"),
        ("a.ply", "", "OBJ, STL or DAE"),
        ("a.dae", "", "cannot be read"),
        ("empty.obj", "", "is empty"),
        ("flat.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", "has no volume"),
        ("wrong.obj", "v 0 0 zero\n", "cannot be read"),
        ("far.obj", "v 0 0 0\nf 1 2 3\n", "cannot be read"),
        ("wrong.stl", "ply\n", "cannot be read"),
    ],
)
def test_invalid_meshes(name: str, content: str | None, words: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(AssetError, match=words) as error:
        read_hulls(str(tmp_path / name))
    assert name in str(error.value)


@pytest.mark.parametrize(
    ("geom", "words"),
    [
        (GeomSpec("box", (0.1, 0.1)), "parts.1.size: .*3 numbers for a box: edge along x"),
        (GeomSpec("cylinder", (0.0, 0.1)), "parts.1.size.*above 0"),
        (GeomSpec("cone", (0.0, 0.0, 0.1)), "parts.1.size.*above 0"),
        (GeomSpec("tube", (0.02, 0.01, 0.01, 0.1)), "parts.1.size.*thinner"),
        (GeomSpec("tube", (0.02, 0.02, 0.001, 0.1), sides=4), "parts.1.size.*thicker than"),
        (GeomSpec("torus", (0.01, 0.02)), "parts.1.size.*smaller than the ring"),
        (GeomSpec("sphere", (0.01, 0.02)), "parts.1.size.*thinner"),
        (GeomSpec("hull", points=CUBE[:3]), "parts.1.points.*four points"),
        (GeomSpec("hull", points=CUBE[:4]), "parts.1.points.*one plane"),
        (GeomSpec("hull", (0.1,), points=CUBE), "parts.1.size.*no numbers"),
        (GeomSpec("box", (0.1, 0.1, 0.1), sides=4), "parts.1.sides.*not a key of a box"),
        (GeomSpec("box", (0.1, 0.1, 0.1), points=CUBE), "parts.1.points.*not a key of a box"),
        (GeomSpec("mesh", file="none.obj"), "parts.1.file.*not a file"),
        (GeomSpec("mesh", file=GEOMS["mesh"].file, scale=(1, 0, 1)), "parts.1.scale"),
    ],
)
def test_invalid_shapes(geom: GeomSpec, words: str) -> None:
    with pytest.raises(AssetError, match=words):
        check_geom(geom, "parts.1.")


def test_valid_shapes() -> None:
    for geom in GEOMS.values():
        check_geom(geom, "")


def test_normals_are_smooth_on_a_sphere_and_sharp_on_a_cube() -> None:
    for shape, sharp in (("sphere", False), ("hull", True)):
        text = obj_text(mesh_of(GEOMS[shape], 24))
        vertices = np.array([line.split()[1:] for line in text.splitlines() if line.startswith("v ")], dtype=float)
        normals = np.array([line.split()[1:] for line in text.splitlines() if line.startswith("vn ")], dtype=float)
        faces = [line.split()[1:] for line in text.splitlines() if line.startswith("f ")]
        for word in (word for face in faces for word in face):
            vertex, normal = (int(number) - 1 for number in word.split("/")[::2])
            outwards = vertices[vertex] / np.linalg.norm(vertices[vertex])
            if sharp:
                assert np.abs(normals[normal]).max() == pytest.approx(1.0)
                assert normals[normal] @ outwards == pytest.approx(3**-0.5, abs=1e-3)
            else:
                assert normals[normal] @ outwards > 0.98
