"""Robot descriptions: their values hold in the world, with one arm and with two; invalid descriptions are refused."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pybullet_data
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import mygym
from mygym.checks.robots import follow_sine
from mygym.engines.robots import enclosing, mesh_points, replace_meshes
from mygym.engines.world import World
from mygym.errors import AssetError, ConfigError, RegistryError
from mygym.registry import ASSETS, registry
from mygym.robotics import assets
from mygym.robotics.robot import find_robot, infer_robot, inferred_robot, load_robot
from mygym.robotics.robot_spec import robot_model
from mygym.robotics.urdf import inertial, merge_fixed_joints, read_joints, read_urdf
from tests.components import CONTROLS, ROBOTS, ROBOTS_AND_CONTROLS_QUICKLY, needs_extra
from tests.episodes import play
from tests.worlds import MakeWorld, cube_at, go, two_armed

NONE = np.zeros((0, 7))
FOLDER = ASSETS / "robots"
EXTRA = [entry.name for entry in registry("robot") if entry.requires]


def described(folder: Path, base: str = "kuka", **changes: Any) -> Path:
    """Write a changed copy of a built-in description, with absolute paths of its files."""
    data = yaml.safe_load((FOLDER / f"{base}.yaml").read_text()) | changes
    data["urdf"] = changes.get("urdf", str(FOLDER / data["urdf"]))
    data["mounts"] = [{**mount, "urdf": str(FOLDER / mount["urdf"])} for mount in data.get("mounts", ())]
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


# built-in robots------------------------------------------------------------------------------------------------------


def test_at_least_twenty_robots_are_registered() -> None:
    assert len(registry("robot").names()) >= 20
    assert {"panda", "kuka", "kuka_gripper", "xarm6"} <= set(ROBOTS)


@needs_extra
@pytest.mark.parametrize("robot", EXTRA)
def test_robots_of_the_extra_load_and_reach(robot: str) -> None:
    with mygym.make_env({"task": "reach", "robot": robot}) as env:
        assert all(play(env, seed)[-1][4]["is_success"] for seed in range(5))


def test_a_missing_extra_gives_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(assets, "distribution", missing)
    with pytest.raises(AssetError, match=r"ur5_robot\.urdf' .*allowed: pip install 'mygym\[robots\]'"):
        find_robot("ur5")


@pytest.mark.parametrize(("robot", "control"), ROBOTS_AND_CONTROLS_QUICKLY)
def test_follows_sines_with_every_controller(make_world: MakeWorld, robot: str, control: str) -> None:
    behind, beside = follow_sine(make_world(robot, objects=0, control=control, gripper=False))
    assert behind < 0.015
    assert beside < 0.005


def test_a_mounted_gripper_grasps(make_world: MakeWorld) -> None:
    world = make_world("kuka_gripper")
    world.reset(cube_at(0.0, 0.0))
    assert world.state.gripper_width[0] == pytest.approx(0.085, abs=1e-6)
    for height, gripper in ((0.1, 1), (0.02, 1), (0.02, -1), (0.2, -1)):
        go(world, (0.0, 0.0, height), gripper, 15)
    assert world.state.object_position[0, 0, 2] > 0.18
    assert world.state.finger_contact.all()


# models -------------------------------------------------------------------------------------------------------------


def test_locked_joints_are_fixed_at_their_position(tmp_path: Path) -> None:
    spec = load_robot(FOLDER / "panda.yaml")
    joints = [vars_of(joint) for joint in spec.joints[:5]]
    shorter = {"joints": joints, "locked": {"panda_joint6": 1.9}, "end_effector": {"link": "panda_link5"}}
    path = described(tmp_path, "panda", **shorter)
    joints_now = read_joints(robot_model(load_robot(path)))
    moving = [name for name, joint in joints_now.items() if joint.kind != "fixed"]
    assert moving == [joint.name for joint in spec.joints[:5]] + ["panda_finger_joint1", "panda_finger_joint2"]
    before = read_joints(robot_model(spec))["panda_joint6"].origin
    turned = before[:3, :3].T @ joints_now["panda_joint6"].origin[:3, :3]
    assert np.arccos((np.trace(turned) - 1) / 2) == pytest.approx(1.9, abs=1e-6)


def vars_of(joint: Any) -> dict[str, Any]:
    return {key: getattr(joint, key) for key in ("name", "home", "lower", "upper", "velocity", "effort")}


def test_invalid_inertia_tensors_are_corrected() -> None:
    """The published xArm 6 has such links."""
    root = robot_model(load_robot("xarm6"))
    merge_fixed_joints(root)
    for link in root.findall("link"):
        small, middle, large = np.linalg.eigvalsh(inertial(link)[2])
        assert large <= small + middle + 1e-12


def test_collision_meshes_are_replaced_and_visuals_kept() -> None:
    root = robot_model(load_robot("xarm6"))
    visual_count = len(root.findall("link/visual/geometry/mesh"))
    replace_meshes(root)
    assert not root.findall("link/collision/geometry/mesh")
    assert len(root.findall("link/collision")) > 5
    assert len(root.findall("link/visual/geometry/mesh")) == visual_count > 5


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.floats(0.01, 1.0), st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_a_primitive_encloses_its_points_and_is_no_larger_than_their_box(
    seed: int, x: float, y: float, z: float
) -> None:
    points = np.random.default_rng(seed).normal(size=(40, 3)) * (x, y, z) + (z, x, y)
    shape = enclosing(points)
    sizes = {key: np.array([float(word) for word in text.split()]) for key, text in shape.sizes.items()}
    local = (points - shape.pose[:3, 3]) @ shape.pose[:3, :3]
    assert np.linalg.det(shape.pose[:3, :3]) == pytest.approx(1.0)
    if shape.tag == "box":
        outside = (np.abs(local) - sizes["size"] / 2).max()
    elif shape.tag == "cylinder":
        outside = max(
            (np.hypot(*local.T[:2]) - sizes["radius"]).max(), (np.abs(local[:, 2]) - sizes["length"] / 2).max()
        )
    else:
        half = sizes.get("length", np.zeros(1))[0] / 2
        beyond = np.maximum(np.abs(local[:, 2]) - half, 0.0)
        outside = (np.linalg.norm(np.c_[local[:, :2], beyond], axis=1) - sizes["radius"]).max()
    assert outside < 1e-9
    assert shape.volume <= np.prod(np.ptp(points, axis=0)) * (1 + 1e-9)


def test_mesh_points_are_scaled_and_invalid_files_refused(tmp_path: Path) -> None:
    path = tmp_path / "wedge.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nv 0 2 0\nv 0 0 3\nf 1 2 3\nf 1 2 4\nf 2 3 4\nf 1 3 4\n")
    np.testing.assert_allclose(np.ptp(mesh_points(str(path), "1 1 2"), axis=0), (1, 2, 6), atol=1e-6)
    (tmp_path / "nothing.stl").write_bytes(b"\0" * 84)
    with pytest.raises(AssetError, match=r"nothing\.stl"):
        mesh_points(str(tmp_path / "nothing.stl"))


def test_inverse_dynamics_give_the_acceleration(make_world: MakeWorld) -> None:
    world = make_world("kuka", objects=0, control="joint_torque")
    world.reset(NONE)
    acceleration = np.array([0.5, -0.3, 0.4, 0.2, -0.6, 0.3, 0.8])
    q, velocity = world.state.joint_position[0].copy(), np.zeros(7)
    torque = world.controller.inverse_dynamics(q, velocity, acceleration)
    world.step(torque / world.controller.limits.effort)
    np.testing.assert_allclose(world.state.joint_velocity[0], acceleration * world.dt, atol=2e-3)


def test_a_robot_is_mounted_twice_with_a_prefix(tmp_path: Path) -> None:
    """The first arm is unchanged, and the second has the same parts."""
    root, single = robot_model(load_robot("panda_pair")), robot_model(load_robot("panda"))
    names = {element.get("name") for element in root.findall("joint")}
    joints = {element.get("name") for element in single.findall("joint")}
    assert names == joints | {f"second_{name}" for name in joints} | {"panda_link0_to_second_panda_link0"}
    for name, joint in read_joints(single).items():
        twin = read_joints(root)[f"second_{name}"]
        assert (twin.parent, twin.child) == (f"second_{joint.parent}", f"second_{joint.child}")
        np.testing.assert_array_equal(twin.axis, joint.axis)
    assert len(root.findall("link/visual")) == 2 * len(single.findall("link/visual"))


def test_a_second_arm_is_at_its_mount(make_world: MakeWorld) -> None:
    """The second arm faces the first, so its base frame is rotated by half a turn."""
    world = make_world("panda_pair", objects=0)
    base = np.add(world.robot.base_position, world.robot.mounts[0].position)
    single = make_world("panda", objects=0)
    posture = single.kinematics.inverse(
        single.kinematics.chain.home, np.array((0.0, 0.1, 0.3)), single.kinematics.chain.rotation, iterations=100
    )
    world.reset(NONE, np.concatenate([world.home[:7], posture]))
    np.testing.assert_allclose(world.state.second_ee_position[0, 0], np.add(base, (-0.6, -0.1, 0.3)), atol=1e-3)


# two arms -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("control", CONTROLS)
def test_two_arms_act_with_one_action_vector(tmp_path: Path, control: str) -> None:
    with mygym.make_env({"task": "reach", "robot": str(two_armed(tmp_path)), "control": control}) as env:
        world = env.world
        half = world.action_size // 2
        assert env.action_space.shape == (2 * half,)
        assert world.control_names[half:] == tuple(f"second_{name}" for name in world.control_names[:half])
        size = 12 + sum(controller.command_offset_size for controller in world.controllers)
        size += 28 if world.controller.commands == "joint" else 0
        assert env.observation_space["observation"].shape[0] == size
        env.reset(seed=1)
        other = world.state.second_ee_position[0, 0].copy()
        assert play(env, 1)[-1][4]["is_success"], "the first arm does tasks of one arm"
        np.testing.assert_allclose(world.state.second_ee_position[0, 0], other, atol=0.002)


def test_each_half_of_the_action_moves_one_arm(tmp_path: Path) -> None:
    with mygym.make_env({"task": "reach", "robot": str(two_armed(tmp_path))}) as env:
        world = env.world
        for arm in (0, 1):
            env.reset(seed=1)
            start = tools_of(world)
            action = np.zeros(6, dtype=np.float32)
            action[3 * arm + 2] = -0.5
            for _ in range(5):
                env.step(action)
            moved = np.linalg.norm(tools_of(world) - start, axis=1)
            assert moved[arm] > 0.1
            assert moved[1 - arm] < 0.003


def tools_of(world: World) -> np.ndarray:
    """Return the positions of both tools, `(2, 3)` m."""
    return np.stack([world.state.ee_position[0], world.state.second_ee_position[0, 0]])


@needs_extra
def test_baxter_takes_an_object_with_one_hand_and_opens_and_closes_both() -> None:
    with mygym.make_env({"task": "pick_and_place", "robot": "baxter"}) as env:
        assert env.world.control_names[-2:] == ("gripper", "second_gripper")
        env.reset(seed=3)
        action = np.zeros(env.world.action_size, dtype=np.float32)
        for sign in (-1.0, 1.0):
            action[-2:] = sign, -sign
            for _ in range(15):
                env.step(action)
            widths = env.world.state.gripper_width[0], env.world.state.second_gripper_width[0, 0]
            wide, shut = widths if sign > 0 else widths[::-1]
            assert wide == pytest.approx(0.0416, abs=0.002)
            assert shut == pytest.approx(0.0, abs=0.002)


# URDF only ----------------------------------------------------------------------------------------------------------


def test_a_urdf_is_a_robot_with_notes_on_inferred_values() -> None:
    path = str(FOLDER / "panda.urdf")
    spec = find_robot(path)
    assert [joint.name for joint in spec.joints] == [joint.name for joint in load_robot("panda").joints]
    assert spec.gripper is not None
    assert spec.gripper.open > spec.gripper.closed
    assert spec.gripper.width == pytest.approx(0.082, abs=0.001)
    inferred = inferred_robot(path)
    assert inferred is not None
    notes = "\n".join(finding.text for finding in inferred.findings)
    assert "an arm of 7 joints, panda_joint1 to panda_joint7" in notes
    assert "a gripper of panda_finger_joint1, panda_finger_joint2 that opens 8.2 cm" in notes
    assert inferred_robot("panda") is None
    with mygym.make_env({"task": "pick_and_place", "robot": path, "control": "ee_delta"}) as env:
        assert sum(play(env, seed)[-1][4]["is_success"] for seed in range(10)) >= 9


def test_a_linkage_gripper_is_inferred_and_grasps() -> None:
    """Six joints move two fingers; the links behind the finger tips touch nothing."""
    path = str(Path(pybullet_data.getDataPath()) / "xarm" / "xarm6_with_gripper.urdf")
    spec = find_robot(path).gripper
    assert spec is not None
    assert len(spec.joints) == 6
    assert spec.links == ("left_finger", "right_finger")
    assert spec.width == pytest.approx(0.085, abs=0.005)  # data sheet
    with mygym.make_env({"task": "AG", "robot": path}) as env:
        env.reset(seed=0)
        assert any(env.step(env.expert_action())[4]["is_success"] for _ in range(env.task.horizon))


@pytest.mark.skipif(bool(registry("robot").get("ur5").missing_extras), reason="needs the extra `robots`")
@pytest.mark.parametrize("name", ["ur3", "ur5", "ur10"])
def test_an_inferred_home_has_the_elbow_above_the_table(name: str) -> None:
    with mygym.make_env({"robot": load_robot(name).urdf}) as env:
        env.reset(seed=0)
        assert env.world.inspection.collisions() == []


def test_missing_limits_are_assumed_and_noted(tmp_path: Path) -> None:
    text = (FOLDER / "kuka.urdf").read_text()
    text = re.sub(r'filename="meshes', f'filename="{FOLDER / "meshes"}', text)
    text = re.sub(r' effort="[0-9.]+" velocity="[0-9.]+"', "", text)
    path = tmp_path / "bare.urdf"
    path.write_text(text)
    inferred = infer_robot(path)
    assert {joint.velocity for joint in inferred.spec.joints} == {3.0}
    assert any(
        "at up to 3.0 rad/s; the file has no limit" in note for note in (finding.text for finding in inferred.findings)
    )


# invalid input-------------------------------------------------------------------------------------------------------


def urdf(kind: str | None = None, mass: float = 1.0, inertia: float = 1.0) -> str:
    """Return a URDF of two links with a joint of type `kind`."""
    tensor = f'<inertia ixx="{inertia}" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
    links = '<link name="a"/>' + f'<link name="b"><inertial><mass value="{mass}"/>{tensor}</inertial></link>'
    ends = '<parent link="a"/><child link="b"/><axis xyz="0 0 1"/>'
    limit = '<limit lower="-1" upper="1" effort="9" velocity="1"/>'
    joint = f'<joint name="turn" type="{kind}">{ends}{limit}</joint>' if kind else ""
    return f'<robot name="mine">{links}{joint}</robot>'


def test_collisions_are_drawn_in_place_of_a_missing_visual_mesh(tmp_path: Path) -> None:
    text = re.sub(r'filename="meshes', f'filename="{FOLDER / "meshes"}', (FOLDER / "kuka.urdf").read_text())
    link = '<link name="lbr_iiwa_link_7">'
    lost = '<visual><geometry><mesh filename="package://arm/gone.dae"/></geometry></visual>'
    path = tmp_path / "arm.urdf"
    path.write_text(re.sub(f"{link}(.*?)<visual>.*?</visual>", rf"{link}\1{lost}", text, count=1, flags=re.DOTALL))
    assert lost in path.read_text()
    with pytest.warns(UserWarning, match=r"arm\.urdf: mesh filename: 'package://arm/gone\.dae' is not a file"):
        root = read_urdf(path)
    element = root.find("link[@name='lbr_iiwa_link_7']")
    assert element is not None
    assert [shape.tag for shape in element.findall("visual/geometry/*")] == ["cylinder"]
    assert len(element.findall("collision")) == 1


CONTACT = '<contact><lateral_friction value="{}"/></contact>'
SHAPE = "<collision><geometry><%s/></geometry></collision>"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("<robot", "not a URDF file", id="malformed"),
        pytest.param(urdf(), "allowed: a URDF with moving joints", id="no joints"),
        pytest.param(urdf("prismatic"), "allowed: a URDF with an arm of revolute joints", id="no arm"),
        pytest.param("<sdf/>", "it begins with <sdf>, not with <robot>", id="no robot"),
        pytest.param(urdf("revolute").replace('"-1"', '"low"'), "joint turn: limit lower: 'low'", id="no number"),
        pytest.param(urdf("revolute").replace("0 0 1", "0 1"), "joint turn: axis xyz: '0 1'", id="two numbers"),
        pytest.param(urdf("revolute").replace("0 0 1", "0 0 0"), "joint turn: axis: '0 0 0'", id="no axis"),
        *(
            pytest.param(urdf("revolute").replace(*change), message, id=message)
            for change, message in [
                (("<axis", '<origin xyz="0 0 1e20"/><axis'), "joint turn: origin xyz: '0 0 1e20' is out of range"),
                (("</link>", SHAPE % 'sphere radius="-1"' + "</link>"), "link b: sphere radius: '-1' is out of range"),
                (("</link>", SHAPE % 'box size="inf 1 1"' + "</link>"), "link b: box size: 'inf 1 1' is out of range"),
                (("<axis", '<dynamics damping="high"/><axis'), "joint turn: dynamics damping: 'high' is not"),
                (("<axis", '<dynamics friction=""/><axis'), "joint turn: dynamics friction: '' is not"),
                (("</link>", f"{CONTACT.format('x')}</link>"), "link b: lateral_friction value: 'x' is not"),
                (('"turn"', f'"{"turn" * 1000}"'), "joint: name: 'turnturnturnturnturn…' is longer than 200"),
            ]
        ),
        pytest.param(urdf("turning"), "joint turn: type: 'turning' is not allowed; allowed: revolute", id="no type"),
        pytest.param(
            urdf("revolute").replace('parent link="a"', 'parent link="c"'), "parent: 'c' is not", id="no link"
        ),
        pytest.param(urdf("revolute").replace('parent link="a"', 'parent link="b"'), "is a cycle", id="circle"),
    ],
)
def test_an_invalid_urdf_is_refused_with_the_reason(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.urdf"
    path.write_text(text)
    with pytest.raises(AssetError, match=re.escape(message)) as caught:
        find_robot(str(path))
    assert "mine.urdf" in str(caught.value)


def test_robot_files_of_other_formats_are_named() -> None:
    with pytest.raises(RegistryError, match=r"robot: 'a\.sdf' .*allowed: a URDF, xacro.*SDF"):
        find_robot("a.sdf")


NO_JOINT = {"name": "joint_9", "home": 0, "lower": -1, "upper": 1, "velocity": 1, "effort": 1}
ROD = {"urdf": "tools/rod.urdf", "link": "lbr_iiwa_link_7"}
WRIST = {"link": "lbr_iiwa_link_7", "position": [0.1, 0, 0], "target": [0.1, 0, 1], "up": [1, 0, 0]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"urdf": "gone.urdf"}, "urdf: "),
        ({"base_position": [-0.5, 0.0]}, "base_position: [-0.5, 0.0] is too short"),
        ({"base_orientation": [0, 0, 0, 0]}, "base_orientation: [0, 0, 0, 0] is not allowed; allowed: a quaternion"),
        ({"motor": {"position_gain": -1}}, "motor.position_gain: -1 is not allowed; allowed: greater than 0"),
        ({"joints": [NO_JOINT]}, "joints.0.name: 'joint_9' is not a joint of the URDF"),
        ({"locked": {"elbow": 1.0}}, "locked: 'elbow' is no moving joint outside arms and grippers"),
        ({"end_effector": {"link": "tip"}}, "end_effector.link: 'tip' is not a link of the URDF"),
        ({"end_effector": {"link": "lbr_iiwa_link_3"}}, "a link behind lbr_iiwa_joint_7"),
        ({"mounts": [ROD | {"link": "hand"}]}, "mounts.0.link: 'hand' is not a link"),
        ({"cameras": {"wrist": WRIST | {"link": "palm"}}}, "cameras.wrist.link: 'palm' is not a link"),
        ({"cameras": {"wrist": WRIST | {"target": WRIST["position"]}}}, "allowed: a point other than `position`"),
        ({"cameras": {"wrist": WRIST | {"up": [0, 0, 2.0]}}}, "allowed: a direction other than that of the view"),
        ({"cameras": {"wrist": WRIST | {"fov": 180}}}, "cameras.wrist.fov: 180"),
        ({"mounts": [ROD, ROD]}, "mounts: 'rod' is a link of both"),
        ({"joints": []}, "joints: [] is empty"),
    ],
)  # fmt: skip
def test_a_description_that_contradicts_its_urdf_is_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = described(tmp_path, **changes)
    with pytest.raises(AssetError, match=re.escape(message)) as caught:
        load_robot(path)
    assert str(path) in str(caught.value)


def test_joints_that_form_no_chain_are_refused(tmp_path: Path) -> None:
    first, second, *other_joints = (vars_of(joint) for joint in load_robot("kuka").joints)
    with pytest.raises(AssetError, match=r"joints\.1\.name: 'lbr_iiwa_joint_1'.*lbr_iiwa_joint_2"):
        load_robot(described(tmp_path, joints=[second, first, *other_joints]))


def test_an_unreachable_tool_home_is_refused(tmp_path: Path) -> None:
    path = described(tmp_path, base_position=[-2.5, 0.0, 0.0])
    with pytest.raises(
        ConfigError,
        match=r"robot: 'mine' cannot reach tool_home \(\d+\.\d cm short, .*tilted by \d+°\).*of table",
    ):
        mygym.make_env({"robot": str(path)})
