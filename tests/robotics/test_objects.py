"""Objects: the catalogue, motion according to mass and inertia, URDF files, error messages."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import numpy as np
import pybullet_data
import pytest

from mygym.engines.bullet.client import bullet
from mygym.engines.bullet.object_bodies import MAX_PIECES, create_collision
from mygym.engines.bullet.world import BulletWorld
from mygym.engines.rendering.thumbnails import contact_sheet, silhouette, thumbnail
from mygym.errors import AssetError
from mygym.registry import registry
from mygym.robotics.assets import ASSETS
from mygym.robotics.files import temporary_folder
from mygym.robotics.mesh_files import read_hulls
from mygym.robotics.objects import density, load_object, object_names
from mygym.robotics.robot import load_robot
from mygym.robotics.transforms import matrix_to_quaternion, quaternion_to_matrix, rpy_to_matrix
from mygym.robotics.workspace import load_workspace
from tests.worlds import bullet_world, cube_at

DATA = Path(pybullet_data.getDataPath())
CATEGORIES = {"assembly", "geometric", "household", "storage", "toys"}
COMPOUNDS = ["mug", "l_block", "hammer", "gear", "duck", "wedge"]
"""Few and many pieces, hulls and meshes, principal axes equal to and different from the model's axes."""


@pytest.fixture
def world_of(request: pytest.FixtureRequest):
    """Return a function `world_of("mug")`: a world with this object, or with the object of a file."""
    worlds: list[BulletWorld] = []

    def make(*names: str | Path) -> BulletWorld:
        objects = [load_object(name) for name in names]
        worlds.append(bullet_world(load_robot("kuka"), load_workspace("table"), objects))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


def pose(world: BulletWorld, x: float, y: float, rpy: tuple[float, ...] = (0, 0, 0), lift: float = 0.0) -> np.ndarray:
    quaternion = matrix_to_quaternion(rpy_to_matrix(np.array(rpy)))
    return np.array([[x, y, world.objects[0].half_height + lift, *quaternion]])


# the catalogue ------------------------------------------------------------------------------------------------------


def test_catalogue_has_five_categories() -> None:
    specs = [load_object(name) for name in object_names()]
    assert len(specs) >= 80
    counts = {name: sum(spec.category == name for spec in specs) for name in CATEGORIES}
    assert sum(counts.values()) == len(specs)
    assert min(counts.values()) >= 12
    assert sum(spec.graspable for spec in specs) >= 60


@pytest.mark.parametrize(
    ("parts", "flat"),
    [
        (["shape: box, size: [0.04, 0.04, 0.04]"], True),
        (["shape: sphere, size: [0.02]"], False),
        (["shape: capsule, size: [0.02, 0.05]"], False),
        (["shape: cylinder, size: [0.02, 0.05]"], True),
        (["shape: cylinder, size: [0.02, 0.05], euler: [90, 0, 0]"], False),
        (["shape: cone, size: [0.02, 0.0, 0.05]"], False),
        (["shape: cone, size: [0.02, 0.01, 0.05]"], True),
        (["shape: box, size: [0.1, 0.1, 0.02]", "shape: sphere, size: [0.02], position: [0, 0, 0.02]"], False),
        (["shape: box, size: [0.1, 0.1, 0.1]", "shape: sphere, size: [0.02], position: [0, 0, 0.02]"], True),
        (
            [
                "shape: sphere, size: [0.035]",
                "shape: box, size: [0.01, 0.01, 0.01], position: [0, 0, 0.04], collides: false",
            ],
            False,
        ),
    ],
)
def test_round_tops_are_not_flat(parts: list[str], flat: bool, tmp_path: Path) -> None:
    lines = "".join(f"  - {{{part}}}\n" for part in parts)
    (tmp_path / "thing.yaml").write_text(f"parts:\n{lines}mass: 0.1\nfriction: 0.5\n")
    assert load_object(tmp_path / "thing.yaml").flat_top == flat


def test_objects_have_realistic_properties() -> None:
    for name in object_names():
        path = Path(registry("object").get(name).load())
        text = path.read_text(encoding="utf-8")
        assert text.startswith("# "), name
        assert path.parent.parent == ASSETS / "objects", name
        assert text.count("#") >= 2 or name in ("ball", "can"), f"{name}: no comment with the source of its friction"
        spec = load_object(path)
        assert 0.002 < max(spec.size) < 0.5, name
        assert 0.001 <= spec.mass <= 3.0, name
        assert 0.1 <= spec.friction <= 1.0, name


# motion -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMPOUNDS)
def test_state_has_centre_of_mass_and_model_orientation(name: str, world_of) -> None:
    world = world_of(name)
    poses = pose(world, 0.1, 0.2, (0.3, -0.2, 1.0), lift=0.2)
    world.reset(poses)
    np.testing.assert_allclose(world.state.object_position[0, 0], poses[0, :3], atol=1e-12)
    rotation = quaternion_to_matrix(world.state.object_orientation[0, 0])
    np.testing.assert_allclose(rotation, quaternion_to_matrix(poses[0, 3:]), atol=1e-9)
    world.reset(pose(world, 0.1, 0.2))
    assert above_table(world) == pytest.approx(0.0, abs=1.5e-3), "in the model's orientation it touches the table"
    world.reset(pose(world, 0.1, 0.2, lift=0.02))
    assert above_table(world) == pytest.approx(0.02, abs=1.5e-3)


def above_table(world: BulletWorld) -> float:
    """Return the distance in m of the first object and the first fixture."""
    table = bullet.getBodyUniqueId(0, physicsClientId=world.client)
    points = bullet.getClosestPoints(world.object_bodies.ids[0], table, 0.1, physicsClientId=world.client)
    return min(point[8] for point in points)


@pytest.mark.parametrize("name", COMPOUNDS)
def test_push_rotates_a_body_by_its_inertia(name: str, world_of) -> None:
    """Spin after an impulse at a point: I⁻¹ (r × F) dt, with the inertia in the world frame."""
    world = world_of(name)
    spec = world.objects[0]
    world.reset(pose(world, 0.1, 0.2, (0.4, 0.3, -0.9), lift=0.2))
    body, client = world.object_bodies.ids[0], world.client
    arm, force = np.array([0.02, -0.01, 0.015]), np.array([0.01, 0.02, -0.015]) * spec.mass
    bullet.setPhysicsEngineParameter(fixedTimeStep=1e-3, numSubSteps=1, physicsClientId=client)
    point = world.state.object_position[0, 0] + arm
    bullet.applyExternalForce(body, -1, force.tolist(), point.tolist(), bullet.WORLD_FRAME, physicsClientId=client)
    bullet.stepSimulation(physicsClientId=client)
    velocity, spin = bullet.getBaseVelocity(body, physicsClientId=client)
    turn = quaternion_to_matrix(pose(world, 0, 0, (0.4, 0.3, -0.9))[0, 3:])
    inertia = turn @ spec.inertial.inertia @ turn.T
    expected = np.linalg.solve(inertia, np.cross(arm, force)) * 1e-3
    np.testing.assert_allclose(spin, expected, rtol=2e-3, atol=2e-3 * np.abs(expected).max())
    np.testing.assert_allclose(velocity, force / spec.mass * 1e-3, rtol=1e-3)


@pytest.mark.parametrize("name", ["gear", "basket", "pallet", "elbow"])
def test_each_of_many_pieces_collides(name: str, world_of) -> None:
    world = world_of(name)
    body = world.objects[0].body
    assert len(body.pieces) > MAX_PIECES
    client = world.client
    world.reset(np.array([[0.1, 0.2, 0.3, 0.0, 0.0, 0.0, 1.0]]))
    _, turn = bullet.getBasePositionAndOrientation(world.object_bodies.ids[0], physicsClientId=client)
    probe = bullet.createCollisionShape(bullet.GEOM_SPHERE, radius=1e-4, physicsClientId=client)
    ball = bullet.createMultiBody(0.0, probe, useMaximalCoordinates=True, physicsClientId=client)
    for piece in body.pieces:
        middle = np.array([0.1, 0.2, 0.3]) + quaternion_to_matrix(turn) @ piece.position
        bullet.resetBasePositionAndOrientation(ball, middle.tolist(), (0, 0, 0, 1), physicsClientId=client)
        points = bullet.getClosestPoints(world.object_bodies.ids[0], ball, 0.1, physicsClientId=client)
        assert min(point[8] for point in points) < 0, "a probe at the centre of each piece is inside the body"
    with pytest.raises(ValueError, match="more than the 16"):
        create_collision(client, body.pieces)


def test_peg_fits_its_hole_only(world_of) -> None:
    for peg, hole in (("square_peg", "square_hole"), ("round_peg", "round_hole"), ("round_peg", "stacking_ring")):
        world = world_of(peg, hole)
        for x, fits in ((0.2, True), (0.23, False)):
            poses = np.zeros((2, 7))
            poses[:, 6] = 1.0
            poses[0, :3] = x, 0.3, world.objects[0].half_height + 0.045
            poses[1, :3] = 0.2, 0.3, world.objects[1].half_height
            world.reset(poses)
            for _ in range(20):
                world.step(np.zeros(world.action_size))
            fallen = float(poses[0, 2] - world.state.object_position[0, 0, 2])
            upright = quaternion_to_matrix(world.state.object_orientation[0, 0])[2, 2] > 0.97
            assert (fallen > 0.035 and upright) == fits, (peg, hole, x, fallen)


def test_resets_read_no_mesh(world_of) -> None:
    for name in ("gear", "duck", "mug"):
        world = world_of(name)
        start = pose(world, 0.1, 0.2)
        world.reset(start)
        size = bullet.getAABB(world.object_bodies.ids[0], physicsClientId=world.client)
        contents = {path: path.read_bytes() for path in temporary_folder(os.getpid()).glob("*hull.obj")}
        for path in contents:
            path.write_bytes(b"")
        try:
            world.reset(start)
        finally:
            for path, content in contents.items():
                path.write_bytes(content)
        assert bullet.getAABB(world.object_bodies.ids[0], physicsClientId=world.client) == size


# URDF files ---------------------------------------------------------------------------------------------------------

INERTIAL = '<inertial><mass value="{mass}"/><inertia ixx="{i}" iyy="{i}" izz="{i}" ixy="0" ixz="0" iyz="0"/></inertial>'
SHAPE = '<geometry><box size="0.04 0.06 0.02"/></geometry>'
BODY = f"<visual>{SHAPE}</visual><collision>{SHAPE}</collision>"
LINK = f"<link name='thing'>{INERTIAL.format(mass=0.1, i=4e-5)}{BODY}</link>"


def urdf(folder: Path, inside: str = LINK, name: str = "thing") -> Path:
    path = folder / f"{name}.urdf"
    path.write_text(f"<robot name='{name}'>{inside}</robot>")
    return path


def test_urdf_is_loaded_as_an_object(tmp_path: Path, world_of) -> None:
    spec = load_object(urdf(tmp_path))
    assert (spec.name, spec.mass, spec.friction) == ("thing", 0.1, 0.5)
    np.testing.assert_allclose(spec.size, (0.04, 0.06, 0.02))
    np.testing.assert_allclose(np.diag(spec.inertial.inertia), 4e-5)
    world = world_of(tmp_path / "thing.urdf")
    world.reset(pose(world, 0.1, 0.2))
    for _ in range(10):
        world.step(np.zeros(world.action_size))
    assert world.state.object_position[0, 0, 2] == pytest.approx(0.01, abs=1e-3)


def test_links_with_fixed_joints_are_one_body(tmp_path: Path) -> None:
    other = LINK.replace("'thing'", "'other'")
    joint = "<joint name='j' type='fixed'><parent link='thing'/><child link='other'/><origin xyz='0.1 0 0'/></joint>"
    spec = load_object(urdf(tmp_path, LINK + other + joint))
    assert spec.mass == pytest.approx(0.2)
    np.testing.assert_allclose(spec.inertial.centre, (0.05, 0, 0), atol=1e-12)
    np.testing.assert_allclose(spec.size, (0.14, 0.06, 0.02))
    assert spec.inertial.inertia[2, 2] == pytest.approx(2 * (4e-5 + 0.1 * 0.05**2))


def test_yaml_file_sets_mass_and_color_of_a_urdf(tmp_path: Path) -> None:
    urdf(tmp_path)
    path = tmp_path / "custom.yaml"
    path.write_text("urdf: thing.urdf\nmass: 0.2\nfriction: 0.7\ncolor: [0, 1, 0, 1]\ncategory: custom\n")
    spec = load_object(path)
    assert (spec.mass, spec.friction, spec.category) == (0.2, 0.7, "custom")
    np.testing.assert_allclose(spec.inertial.inertia[2, 2], 0.2 / 12 * (0.04**2 + 0.06**2))
    green = thumbnail(spec, 40, 30).reshape(-1, 3).astype(int)
    assert (green[:, 1] > green[:, 0] + 60).any()


GOOD = ["jenga/jenga.urdf", "domino/domino.urdf", "lego/lego.urdf", "block.urdf", "objects/mug.urdf", "duck_vhacd.urdf"]


@pytest.mark.parametrize("name", GOOD)
def test_third_party_urdf_files(name: str, world_of) -> None:
    world = world_of(DATA / name)
    world.reset(pose(world, 0.1, 0.2, lift=0.1))
    for _ in range(5):
        world.step(np.zeros(world.action_size))
    assert np.isfinite(world.state.object_position).all()
    assert silhouette(world.objects[0], 32, 32).any()


MESH = '<collision><geometry><mesh filename="{}"/></geometry></collision>'
INVALID_URDFS = {
    "not xml": ("<robot", "not a URDF file"),
    "another file": ("<sdf/>", "begins with <sdf>, not with <robot>"),
    "a moving joint": (
        LINK + LINK.replace("thing", "lid") + "<joint name='hinge' type='revolute'><parent link='thing'/>"
        "<child link='lid'/></joint>",
        "joint: 'hinge' is revolute; allowed: an object is one rigid body",
    ),
    "two bodies": (LINK + LINK.replace("thing", "other"), "link: .*are not connected"),
    "a missing mesh": (
        LINK.replace(f"<collision>{SHAPE}</collision>", MESH.format("no.obj")),
        "mesh filename: 'no.obj'",
    ),
    "a mesh of another type": (
        LINK.replace(f"<collision>{SHAPE}</collision>", MESH.format("a.ply")),
        "OBJ, STL or DAE",
    ),
    "no mass": (LINK.replace('"0.1"', '"0"'), "mass: 0.0 is not above 0.*workspace"),
    "no inertial": (f"<link name='a'><collision>{SHAPE}</collision></link>", "mass: 0.0"),
    "no inertia": (LINK.replace('"4e-05"', '"0"'), "inertia: .*a box of its size and mass has ixx=3.33e-05"),
    "no collision shape": (LINK.replace("collision", "nothing"), "collision: None is missing"),
    "an unknown shape": (LINK.replace("<box", "<plane"), "geometry: 'plane'"),
    "a size without numbers": (LINK.replace("0.04 0.06", "0.04 wide"), "0.04 wide 0.02.*3 numbers"),
    "a size too short": (LINK.replace("0.04 0.06 0.02", "0.04 0.06"), "box size.*3 numbers"),
}


@pytest.mark.parametrize("mistake", INVALID_URDFS)
def test_invalid_urdf(mistake: str, tmp_path: Path) -> None:
    inside, words = INVALID_URDFS[mistake]
    (tmp_path / "a.ply").write_text("")
    path = urdf(tmp_path, inside)
    if inside.startswith(("<robot", "<sdf")):
        path.write_text(inside)
    with pytest.raises(AssetError, match=words) as error:
        load_object(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value).strip()


# YAML files ---------------------------------------------------------------------------------------------------------

INVALID_YAML = {
    "no shape": ("mass: 1\nfriction: 0.5", "shape: None is missing; allowed: exactly one of shape, parts, urdf"),
    "two sources": ("shape: sphere\nsize: [0.1]\nurdf: a.urdf\nmass: 1\nfriction: 1", "shape and urdf.*exactly one"),
    "no mass": ("shape: sphere\nsize: [0.1]\nfriction: 0.5", "mass: None is missing"),
    "no friction": ("shape: sphere\nsize: [0.1]\nmass: 0.5", "friction: None is missing"),
    "a size without shape": (
        "size: [1]\nparts: [{shape: sphere, size: [0.1]}]\nmass: 1\nfriction: 1",
        "size: .*no shape",
    ),
    "nothing collides": (
        "parts: [{shape: sphere, size: [0.1], collides: false}]\nmass: 1\nfriction: 0.5",
        "parts: .*collides: true",
    ),
    "an invalid part": ("parts: [{shape: sphere, size: [0.1, 0.2]}]\nmass: 1\nfriction: 1", "parts.0.size: .*thinner"),
    "a misspelt key of a part": (
        "parts: [{shape: sphere, size: [0.1], colour: [1, 0, 0, 1]}]\nmass: 1\nfriction: 1",
        "parts.0.colour: .*did you mean 'color'",
    ),
    "a misspelt shape": ("parts: [{shape: spheer, size: [0.1]}]\nmass: 1\nfriction: 1", "parts.0.shape: 'spheer'"),
    "a missing mesh": (
        "parts: [{shape: mesh, file: no.obj}]\nmass: 1\nfriction: 1",
        "parts.0.file: .*no.obj",
    ),
    "a missing urdf": ("urdf: no.urdf", "urdf: .*no.urdf"),
    "contradictory masses": (
        "parts: [{shape: sphere, size: [0.1], mass: 2}]\nmass: 1\nfriction: 0.5",
        "mass: 1.0 .*the sum of its geoms",
    ),
}


@pytest.mark.parametrize("mistake", INVALID_YAML)
def test_invalid_yaml(mistake: str, tmp_path: Path) -> None:
    text, words = INVALID_YAML[mistake]
    path = tmp_path / "custom.yaml"
    path.write_text(text)
    with pytest.raises(AssetError, match=words) as error:
        load_object(path)
    assert str(error.value).count("custom.yaml") == 1


def test_density_of_hollow_objects_uses_the_walls() -> None:
    assert density(load_object("cube")) == pytest.approx(719, abs=1)
    assert 900 < density(load_object("ping_pong_ball")) < 1200


def test_large_mesh_is_reduced_to_few_points() -> None:
    for group in read_hulls(str(DATA / "duck_vhacd.obj")):
        assert 4 <= len(group) <= 64


# pictures -----------------------------------------------------------------------------------------------------------


def test_portrait_and_contact_sheet() -> None:
    specs = [load_object(name) for name in ("mug", "cube", "duck")]
    picture = thumbnail(specs[0], 60, 40)
    assert (picture.shape, picture.dtype) == ((40, 60, 3), np.uint8)
    np.testing.assert_array_equal(picture, thumbnail(specs[0], 60, 40))
    mask = silhouette(specs[0], 60, 40)
    assert mask.any(axis=0)[20:40].all(), "the object fills the centre"
    assert not mask[[0, -1]].any()
    assert not mask[:, [0, -1]].any()
    sheet = contact_sheet(specs, width=420, columns=2)
    assert sheet.shape[1:] == (420, 3)
    more = contact_sheet([*specs, dataclasses.replace(specs[0], category="custom")], width=420, columns=2)
    assert len(more) > len(sheet), "another category adds a row"


def test_default_cube_has_the_moments_of_a_box(world_of) -> None:
    """The default object has the analytical moments of inertia."""
    world = world_of("cube")
    world.reset(cube_at(0.1, 0.1))
    moments = bullet.getDynamicsInfo(world.object_bodies.ids[0], -1, physicsClientId=world.client)[2]
    np.testing.assert_allclose(moments, 0.046 * 0.04**2 / 6, rtol=1e-9)
