"""Workspaces: articulated parts, exact resets, robots at home, invalid descriptions."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import ArrayLike

from mygym.checks.scenes import part_travels
from mygym.engines.bullet.client import urdf_file
from mygym.engines.bullet.world import BulletWorld
from mygym.engines.rendering.camera import Camera
from mygym.engines.world import GRAVITY
from mygym.envs.areas import reached
from mygym.errors import AssetError, ConfigError
from mygym.registry import ASSETS
from mygym.robotics.assets import asset_names
from mygym.robotics.fixtures import fixture_urdf
from mygym.robotics.robot import load_robot
from mygym.robotics.workspace import Area, load_workspace
from mygym.tasks.state import State
from tests.components import ROBOTS
from tests.engines.bullet.test_world import snapshot
from tests.worlds import WorldIn, first_home

NO_OBJECTS = np.zeros((0, 7))
WORKSPACES = asset_names("workspaces")
MOVING = [name for name in WORKSPACES if any(fixture.joints for fixture in load_workspace(name).fixtures.values())]
AT_HOME = [(name, robot) for name in WORKSPACES for robot in load_workspace(name).robots if robot in ROBOTS]


def fixture(folder: Path, **description: Any) -> Path:
    """Write the table's description with an additional fixture."""
    data = yaml.safe_load((ASSETS / "workspaces" / "table.yaml").read_text())
    data["fixtures"]["thing"] = description
    path = folder / "custom.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return path


BOX = {"shape": "box", "size": [0.1, 0.1, 0.1]}
SLIDE: dict[str, Any] = {
    "type": "slide", "axis": [0, 0, 1], "range": [-2.0, 0.5], "mass": 2.0, "force": 60.0, "handle": [0, 0, 0],
    "parts": [BOX],
}  # fmt: skip
HINGE = SLIDE | {"type": "hinge", "axis": [0, 2, 0], "range": [-4.0, 4.0], "handle": [0, 0, -0.2], "force": 9.0}
HINGE |= {"parts": [BOX | {"position": [0.0, 0.0, -0.2]}]}


# built-in workspaces -------------------------------------------------------------------------------------------------


def test_eleven_workspaces_are_built_in() -> None:
    names = "table collabtable drawer fridge panel baskets darts football maze verticalmaze stairs"
    assert set(names.split()) <= set(WORKSPACES)


def test_a_workspace_names_its_task_and_has_three_cameras() -> None:
    for name in WORKSPACES:
        spec = load_workspace(name)
        assert {"main", "side", "top"} <= set(spec.cameras)
        assert name == "table" or "Its task: " in (ASSETS / "workspaces" / f"{name}.yaml").read_text()


@pytest.mark.parametrize(("name", "robot"), AT_HOME)
def test_the_tool_has_the_workspaces_pose(world_in: WorldIn, name: str, robot: str) -> None:
    world = world_in(name, robot)
    pose = world.kinematics.pose(world.state.joint_position[0, : len(first_home(world))])
    np.testing.assert_allclose(pose[:3, 2], world.workspace.tool_direction, atol=5e-3)
    np.testing.assert_allclose(pose[:3, 3], world.workspace.tool_home, atol=1e-3)


def test_urdf_lines_are_short_enough_for_bullet() -> None:
    for name in WORKSPACES:
        for key, spec in load_workspace(name).fixtures.items():
            lines = Path(urdf_file(key, fixture_urdf(spec, "visual"))).read_text().splitlines()
            assert max(map(len, lines)) < 8000


# parts ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MOVING)
def test_static_friction_holds_and_a_released_part_keeps_its_position(world_in: WorldIn, name: str) -> None:
    world = world_in(name)
    for part, spec in enumerate(world.parts):
        assert spec.friction > 0
        if spec.spring:  # the spring returns the part
            continue
        assert spec.force is not None
        share = np.zeros(len(world.part_names))
        for force, moves in ((0.9, False), (1.3, True)):
            world.reset(NO_OBJECTS)
            share[part] = force * spec.friction / spec.force
            for _ in range(25):  # a light part needs fewer steps
                if world.state.part_position[0, part] < (spec.lower + spec.upper) / 2:
                    world.push_parts(share)
                world.step(np.zeros(world.action_size))
            position = world.state.part_position[0, part]
            assert (position > spec.rest + 0.02 * (spec.upper - spec.lower)) == moves
        for _ in range(10):  # until it rests
            world.step(np.zeros(world.action_size))
        released = world.state.part_position[0, part]
        assert released < spec.upper
        for _ in range(25):
            world.step(np.zeros(world.action_size))
        assert world.state.part_position[0, part] == pytest.approx(released, abs=1e-6)
        assert world.state.part_velocity[0, part] == pytest.approx(0.0, abs=1e-6)


def test_free_fall_and_pendulum_match_physics(world_in: WorldIn, tmp_path: Path) -> None:
    world = world_in(fixture(tmp_path, position=[0, 0.6, 2.0], joints={"weight": SLIDE, "pendulum": HINGE}))
    assert world.part_names == ("thing.weight", "thing.pendulum")
    world.reset(NO_OBJECTS, None, np.array([0.0, 0.3]))
    swing = []
    for _ in range(60):
        world.step(np.zeros(world.action_size))
        swing.append(world.state.part_position[0, 1])
        if world.state.time[0] < 0.41:
            # Half g t² plus the error of semi-implicit integration; Bullet removes 4 % of the speed in a second.
            fallen = 0.5 * GRAVITY * world.state.time[0] * (world.state.time[0] + world.dt / world.solver.substeps)
            assert world.state.part_position[0, 0] == pytest.approx(-fallen, rel=0.02)
    crossed = np.flatnonzero(np.diff(np.sign(swing))) * world.dt
    # A box of 0.1 m on an arm of 0.2 m: half a period of 2 pi sqrt((l² + a²/6) / (g l)), at 0.3 rad 0.6 % longer.
    half = np.pi * np.sqrt((0.2**2 + 0.1**2 / 6) / (GRAVITY * 0.2)) * 1.006
    assert crossed[2] - crossed[0] == pytest.approx(2 * half, abs=2 * world.dt)
    assert max(np.abs(swing)) == pytest.approx(0.3, abs=0.02)


def test_a_spring_pulls_by_its_stiffness(world_in: WorldIn, tmp_path: Path) -> None:
    spring = {"stiffness": 50.0, "rest": 0.1}
    joint = SLIDE | {"axis": [0, 1, 0], "damping": 10.0, "spring": spring, "range": [-1.0, 1.0]}
    world = world_in(fixture(tmp_path, position=[0, 0.6, 0.5], joints={"button": joint}))
    for force, expected in ((0.0, 0.1), (10.0, 0.3), (-5.0, 0.0)):
        for _ in range(100):
            world.push_parts(np.array([force / 60.0]))
            world.step(np.zeros(world.action_size))
        assert world.state.part_position[0, 0] == pytest.approx(expected, abs=2e-3)


def test_a_spring_adds_no_energy(world_in: WorldIn, tmp_path: Path) -> None:
    """The spring force is taken in the middle of a control step; taken at its start, this oscillation grows by half."""
    joint = SLIDE | {"axis": [0, 1, 0], "spring": {"stiffness": 50.0}, "range": [-1.0, 1.0]}
    world = world_in(fixture(tmp_path, position=[0, 0.6, 0.5], joints={"swing": joint}))
    world.reset(NO_OBJECTS, None, np.array([0.2]))
    swing = []
    for _ in range(75):  # 2.4 periods of 2 pi sqrt(2 kg / 50 N/m)
        world.step(np.zeros(world.action_size))
        swing.append(world.state.part_position[0, 0])
    assert 0.15 < max(swing[-32:]) < 0.205


@pytest.mark.parametrize("axis", ["-1 0 0", "-2 0 0"])
def test_a_fixture_has_the_joints_of_its_urdf(world_in: WorldIn, tmp_path: Path, axis: str) -> None:
    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    box = '<geometry><box size="0.1 0.1 0.1"/></geometry>'
    shapes = f"<visual>{box}</visual><collision>{box}</collision>"
    (tmp_path / "chest.urdf").write_text(
        f'<robot name="chest"><link name="body">{inertial}{shapes}</link><link name="tray">{inertial}{shapes}</link>'
        f'<link name="knob">{inertial}{shapes}</link>'
        '<joint name="runner" type="prismatic"><parent link="body"/><child link="tray"/><origin xyz="-0.1 0 0"/>'
        f'<axis xyz="{axis}"/><limit lower="0.05" upper="0.3" effort="20" velocity="1"/>'
        '<dynamics damping="5" friction="3"/></joint>'
        '<joint name="screw" type="fixed"><parent link="tray"/><child link="knob"/><origin xyz="-0.1 0 0"/></joint>'
        "</robot>"
    )
    path = fixture(tmp_path, urdf="chest.urdf", position=[0.3, 0.0, 0.06], handles={"runner": [-0.1, 0.0, 0.02]})
    world = world_in(path)
    assert world.part_names == ("thing.runner",)
    assert world.state.part_position[0, 0] == 0.05
    np.testing.assert_allclose(world.state.part_handle_position[0, 0], (0.05, 0.0, 0.08), atol=1e-9)
    assert part_travels(world, 0) == ""
    assert world.inspection.overlapping_fixtures() == []


# resets ---------------------------------------------------------------------------------------------------------------


def along(world: BulletWorld, share: ArrayLike) -> np.ndarray:
    """Return positions `(P,)` m or rad of parts at a share of their range."""
    lower, upper = np.array([(part.lower, part.upper) for part in world.parts]).T
    return lower + share * (upper - lower)


def episode(world: BulletWorld) -> list[list[np.ndarray]]:
    """Return the states of an episode with contacts, where replays would differ first."""
    low = world.workspace.areas["object"].low
    world.reset(np.array([[low[0] + 0.05, low[1] + 0.05, 0.02, 0.0, 0.0, 0.0, 1.0]]), None, along(world, 0.1))
    handle = world.state.part_handle_position[0, 0].copy()
    states, rng = [snapshot(world)], np.random.default_rng(3)
    above = handle + np.array((0.0, 0.0, 0.04))
    for target, gripper, steps in ((above, 1, 12), (handle, 1, 6), (handle, -1, 4), (low, -1, 8)):
        for _ in range(steps):
            world.step(world.action_towards(np.array(target), gripper) + rng.uniform(-0.1, 0.1, world.action_size))
            states.append(snapshot(world))
    return states


@pytest.mark.parametrize("name", MOVING)
def test_reset_is_exact_after_any_history(world_in: WorldIn, name: str) -> None:
    world, rng = world_in(name, objects=["cube"]), np.random.default_rng(0)
    expected = episode(world)
    part = [field.name for field in fields(State)].index("part_position")
    assert any(not np.array_equal(expected[0][part], state[part]) for state in expected), "the part never moved"
    for number in range(18):
        for _ in range(int(rng.integers(0, 12))):  # continue after the last episode
            world.push_parts(rng.uniform(-2, 2, len(world.part_names)))
            world.step(rng.uniform(-1, 1, world.action_size))
        if number % 3 == 0:
            world.reset(
                np.array([[-0.1, 0.0, 0.3, 0.0, 0.0, 0.0, 1.0]]),
                None,
                along(world, rng.uniform(size=len(world.part_names))),
            )
            world.step(rng.uniform(-1, 1, world.action_size))
        for actual_state, expected_state in zip(episode(world), expected, strict=True):
            assert all(map(np.array_equal, actual_state, expected_state)), f"history {number}"


@pytest.mark.parametrize("name", MOVING)
def test_parts_start_at_the_given_positions(world_in: WorldIn, name: str) -> None:
    world = world_in(name)
    ends = along(world, 1.0)
    world.reset(NO_OBJECTS, None, ends)
    np.testing.assert_array_equal(world.state.part_position[0], ends)
    assert not world.state.part_velocity.any()
    world.reset(NO_OBJECTS)
    np.testing.assert_array_equal(world.state.part_position[0], [part.rest for part in world.parts])
    with pytest.raises(ConfigError, match=rf"part_position of {world.part_names[0]}.*allowed"):
        world.reset(NO_OBJECTS, None, ends + 1.0)
    with pytest.raises(ConfigError, match=rf"part_position.*{len(ends)} numbers"):
        world.reset(NO_OBJECTS, None, np.zeros(len(ends) + 1))


def test_the_image_follows_the_drawer(world_in: WorldIn) -> None:
    world = world_in("drawer")
    camera = Camera(world)
    closed = camera.render(80, 60)
    world.reset(NO_OBJECTS, None, np.array([0.2]))
    assert (camera.render(80, 60) != closed).any()
    world.reset(NO_OBJECTS)
    np.testing.assert_array_equal(camera.render(80, 60), closed)
    camera.close()


def test_every_shape_of_a_large_fixture_collides(world_in: WorldIn, tmp_path: Path) -> None:
    """Bullet accepts 16 shapes per body."""
    parts = [BOX | {"position": [0.0, 0.2 * number, 0.0]} for number in range(40)]
    world = world_in(fixture(tmp_path, parts=parts, position=[0.0, 1.0, 1.0], euler=[0.0, 0.0, 90.0]))
    for number in (0, 15, 16, 39):
        x = -0.2 * number
        assert world.inspection.fixtures_in(Area((x - 0.01, 0.99, 0.99), (x + 0.01, 1.01, 1.01))) == ["thing"]
    assert world.inspection.fixtures_in(Area((-0.11, 0.99, 0.99), (-0.09, 1.01, 1.01))) == []


# robots at home -------------------------------------------------------------------------------------------------------


def test_workspaces_define_base_areas_and_cameras_for_each_robot(world_in: WorldIn) -> None:
    spec = load_workspace("maze")
    home = spec.robots["kuka"]
    assert home is not None
    assert world_in("maze", "kuka").robot.base_position == home.base_position != load_robot("kuka").base_position
    assert world_in("maze", "panda").robot == load_robot("panda")
    table = load_workspace("table")
    assert table.for_robot("z1").areas["reach"] != table.areas["reach"] == table.for_robot("panda").areas["reach"]
    assert table.for_robot("z1").areas.keys() == table.areas.keys()
    assert table.for_robot("z1").cameras["main"] != table.cameras["main"]
    assert table.for_robot("stranger") == table


def test_areas_shrink_for_short_arms_in_workspaces_without_fixtures_in_them() -> None:
    table, drawer = load_workspace("table"), load_workspace("drawer")
    short = replace(load_robot("kuka"), name="short", area_scale=0.5)
    fitted = table.fit(short)
    assert fitted.areas["reach"] == Area((-0.075, -0.075, 0.02), (0.075, 0.075, 0.16))  # its floor stays
    assert fitted.areas["surface"].high[2] == 0.0
    assert fitted.tool_home == (0.0, 0.0, 0.1)
    assert fitted.cameras["main"].distance == table.cameras["main"].distance / 2
    assert fitted.bounds == table.bounds
    assert drawer.fit(short) == drawer
    assert table.fit(replace(short, area_scale=1.0)) == table
    assert table.fit(replace(short, name="z1")) == table.for_robot("z1")


WITH_PATHS = [name for name in WORKSPACES if load_workspace(name).paths]


@pytest.mark.parametrize("name", WITH_PATHS)
def test_a_path_is_free_and_ends_in_the_goal_area(world_in: WorldIn, name: str) -> None:
    spec = load_workspace(name)
    low, high = np.array(spec.areas["goal"].low), np.array(spec.areas["goal"].high)
    for path in spec.paths.values():
        assert ((low - 1e-9 < path[-1]) & (path[-1] < high + 1e-9)).all()
        for x, y, z in path:
            assert world_in(name).inspection.fixtures_in(Area((x, y, z + 0.01), (x, y, z + 0.02))) == []


def test_the_reachable_share_of_an_area(world_in: WorldIn) -> None:
    world = world_in("table")
    assert reached(world, world.workspace.areas["reach"]) == (1.0, None)
    share, where = reached(world, Area((0.0, 0.0, 0.1), (0.6, 0.0, 0.1)))  # points at 0, 0.15, ... 0.6; reach is 0.2
    assert share == pytest.approx(2 / 5)
    assert where == [0.3, 0.0, 0.1]


# invalid descriptions -----------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "nothing there": ({}, ("fixtures.thing", "size, parts, urdf")),
    "two kinds": ({"size": [1, 1, 1], "parts": [BOX]}, ("fixtures.thing", "one of size, parts, urdf")),
    "size": ({"size": [1, 1]}, ("fixtures.thing.size", "3 numbers for a box")),
    "size of a part": ({"parts": [BOX, BOX | {"size": [1]}]}, ("fixtures.thing.parts.1.size", "3 numbers")),
    "unknown key": ({"size": [1, 1, 1], "frictoin": 1}, ("fixtures.thing.frictoin", "did you mean 'friction'")),
    "no such file": ({"urdf": "none.urdf"}, ("urdf", "none.urdf", "is not a file")),
    "joints of a urdf": ({"urdf": "x.urdf", "joints": {"a": SLIDE}}, ("fixtures.thing.joints", "urdf")),
    "handles without": ({"size": [1, 1, 1], "handles": {"a": [0, 0, 0]}}, ("fixtures.thing.handles", "urdf")),
    "unseen joints": ({"joints": {"a": SLIDE}, "visible": False}, ("fixtures.thing.visible", "joints")),
    "no axis": ({"joints": {"a": SLIDE | {"axis": [0, 0, 0]}}}, ("fixtures.thing.joints.a.axis", "direction")),
    "range": ({"joints": {"a": SLIDE | {"range": [1, 0]}}}, ("fixtures.thing.joints.a.range", "lowest")),
    "rest": ({"joints": {"a": SLIDE | {"rest": 0.6}}}, ("fixtures.thing.joints.a.rest", "-2 to 0.5")),
    "force": ({"joints": {"a": SLIDE | {"friction": 60}}}, ("fixtures.thing.joints.a.force", "more than the friction")),
    "no parts": ({"joints": {"a": SLIDE | {"parts": []}}}, ("fixtures.thing.joints.a.parts", "one shape")),
    "type": ({"joints": {"a": SLIDE | {"type": "screw"}}}, ("fixtures.thing.joints.a.type", "slide")),
    "mass": ({"joints": {"a": SLIDE | {"mass": 0}}}, ("fixtures.thing.joints.a.mass", "greater than 0")),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_invalid_fixtures_are_refused(tmp_path: Path, mistake: str) -> None:
    description, words = WRONG[mistake]
    with pytest.raises(AssetError) as caught:
        load_workspace(fixture(tmp_path, **description))
    for word in ("custom.yaml", *words):
        assert word in str(caught.value)


def test_invalid_homes_directions_and_paths_are_refused(tmp_path: Path) -> None:
    path = fixture(tmp_path, size=[0.1, 0.1, 0.1])
    data = yaml.safe_load(path.read_text())
    for change, words in (
        ({"tool_direction": [1, 0, -1]}, "tool_direction.*length 1"),
        (
            {"robots": {"panda": {"areas": {"reach": {"low": [1, 0, 0], "high": [0, 1, 1]}}}}},
            "robots.panda.areas.reach",
        ),
        ({"robots": {"panda": {"base": [0, 0, 0]}}}, "robots.panda.base.*base_position"),
        ({"paths": {"way": []}}, "paths.way.*empty"),
        ({"paths": {"way": [[0, 0, 0], [0, 0, 9]]}}, r"paths.way.1.*9.*bounds"),
        ({"paths": {"way": [[0, 0]]}}, "paths.way.0"),
    ):
        path.write_text(yaml.safe_dump(data | change))
        with pytest.raises(AssetError, match=words):
            load_workspace(path)
