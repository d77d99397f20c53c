"""Robots from a URDF alone: the arm between torso and hand, the tool of a hand, and the place of a short arm."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pybullet_data
import pytest

import mygym
from mygym.engines.engine import BULLET, MUJOCO
from mygym.envs.robot_env import RobotEnv
from mygym.errors import AssetError, ConfigError
from mygym.robotics.inference.arms import Arm, infer_arm, infer_tool
from mygym.robotics.inference.grippers import infer_gripper
from mygym.robotics.robot import infer_robot
from mygym.robotics.robot_spec import robot_model
from mygym.robotics.urdf import Joint, read_joints, read_urdf
from mygym.robotics.workspace import load_workspace
from tests.robotics.test_grippers import MIRRORED, robot

INERTIAL = (
    '<inertial><mass value="0.5"/><inertia ixx="0.002" iyy="0.002" izz="0.002" ixy="0" ixz="0" iyz="0"/></inertial>'
)
LIMIT = '<limit lower="{}" upper="{}" effort="50" velocity="3"/>'
ROOT = '<link name="root"/>'
AXES = ("0 0 1", "0 1 0", "0 1 0", "0 0 1", "0 1 0", "0 0 1")
HEIGHTS = (0.1, 0.1, 0.3, 0.15, 0.15, 0.05)
"""m: offsets of the joints of an arm along z; 0.7 m behind the second joint with a tool of 5 cm."""


def link_of(
    joint: str,
    parent: str,
    xyz: Sequence[float],
    axis: str = "",
    limits: Sequence[float] = (-2.8, 2.8),
    box: float = 0.02,
) -> str:
    """Return a joint and its child link `JOINT_link`, a cube of edge `box` m; fixed without an axis."""
    origin = f'<origin xyz="{" ".join(map(str, xyz))}"/>'
    moves = f'<axis xyz="{axis}"/>{LIMIT.format(*limits)}' if axis else ""
    ends = f'<parent link="{parent}"/><child link="{joint}_link"/>'
    shape = f'<collision><geometry><box size="{box} {box} {box}"/></geometry></collision>'
    link = f'<link name="{joint}_link">{INERTIAL}{shape}</link>'
    return f'<joint name="{joint}" type="{"revolute" if axis else "fixed"}">{ends}{origin}{moves}</joint>{link}'


def arm(
    name: str,
    parent: str,
    start: Sequence[float] = (0, 0, 0),
    size: float = 1.0,
    limits: Mapping[int, Sequence[float]] = MappingProxyType({}),
) -> Iterator[str]:
    """Yield the links of an arm of six joints, `limits` by number; the last link is `NAME_6_link`."""
    for number, (axis, height) in enumerate(zip(AXES, HEIGHTS, strict=True), start=1):
        x, y, z = start if number == 1 else (0, 0, 0)
        yield link_of(f"{name}_{number}", parent, (x, y, z + size * height), axis, limits.get(number, (-2.8, 2.8)))
        parent = f"{name}_{number}_link"


def write(path: Path, links: Iterator[str] | Sequence[str]) -> Path:
    """Write a URDF whose root link is `root`."""
    path.write_text(f'<robot name="test">{ROOT}{"".join(links)}</robot>')
    return path


def arm_of(path: Path) -> Arm:
    """Return the inferred arm of a URDF."""
    return infer_arm(read_joints(read_urdf(path)))


def names(joints: Sequence[Joint]) -> list[str]:
    """Return the names of joints."""
    return [joint.name for joint in joints]


SIX = [f"arm_{number}" for number in range(1, 7)]


def hand(wrist: str) -> Iterator[str]:
    """Yield a palm with three fingers of two joints; the tips are 15 cm from the wrist."""
    yield link_of("palm", wrist, (0, 0, 0.05))
    for number, name in enumerate(("index", "ring", "little")):
        yield link_of(f"{name}_1", "palm_link", (0, 0.03 * number - 0.03, 0.05), "0 1 0", (0, 1.5))
        yield link_of(f"{name}_2", f"{name}_1_link", (0, 0, 0.04), "0 1 0", (0, 1.5))


def test_an_arm_ends_at_the_palm_and_its_tool_is_at_the_finger_tips(tmp_path: Path) -> None:
    """The longest chain ends in a finger that has another name."""
    path = write(tmp_path / "a.urdf", [*arm("arm", "root"), *hand("arm_6_link")])
    result = arm_of(path)
    assert names(result.joints) == SIX
    assert len(result.hand) == 6
    root = read_urdf(path)
    tool, _, _ = infer_tool(root, read_joints(root), result.joints, result.hand)
    np.testing.assert_allclose(tool.position, (0, 0, 0.14), atol=1e-3)  # 1 cm before the tips


def test_the_tool_ends_where_a_jaw_that_stays_still_ends(tmp_path: Path) -> None:
    shape = '<collision><origin xyz="0 0 0.03"/><geometry><box size="0.02 0.02 0.06"/></geometry></collision></link>'
    jaw = link_of("jaw", "arm_6_link", (0, 0, 0.05), "0 0 1", (-3, 3)).replace("</link>", shape)
    root = read_urdf(write(tmp_path / "a.urdf", [*arm("arm", "root"), jaw]))
    joints = read_joints(root)
    tool, _, _ = infer_tool(root, joints, [joints[name] for name in SIX], ())
    np.testing.assert_allclose(tool.position, (0, 0, 0.10), atol=1e-3)  # 1 cm before the end of the jaw


def test_the_tool_is_at_the_tool_frame_not_at_a_camera_and_not_in_the_air(tmp_path: Path) -> None:
    """The frame is 5 cm from the wrist, whose cube ends 1 cm from it: beyond, nothing would push."""
    frames = [
        '<link name="camera_link"/>',
        '<joint name="camera" type="fixed"><parent link="arm_6_link"/><child link="camera_link"/>'
        '<origin xyz="0.06 0 0.02" rpy="0 0.6 0"/></joint>',
        '<link name="tool0"/>',
        '<joint name="flange" type="fixed"><parent link="arm_6_link"/><child link="tool0"/>'
        '<origin xyz="0 0 0.05"/></joint>',
    ]
    path = write(tmp_path / "a.urdf", [*arm("arm", "root"), *frames])
    tool = infer_robot(path).spec.end_effector
    assert tool.link == "tool0"
    np.testing.assert_allclose(tool.position, (0, 0, -0.04), atol=1e-4)
    assert mygym.evaluate(policy="oracle", config={"robot": str(path), "task": "push"}, episodes=4).success_rate == 1.0


def test_an_arm_begins_behind_a_torso_with_two_arms(tmp_path: Path) -> None:
    torso = [link_of("waist", "root", (0, 0, 0.2), "0 0 1"), link_of("chest", "waist_link", (0, 0, 0.2), "0 1 0")]
    shoulders = [*arm("arm", "chest_link", (0, 0.2, 0)), *arm("other", "chest_link", (0, -0.2, 0))]
    head = [link_of("neck", "chest_link", (0, 0, 0.2), "0 0 1"), link_of("nod", "neck_link", (0, 0, 0.05), "0 1 0")]
    assert names(arm_of(write(tmp_path / "two.urdf", torso + shoulders + head)).joints) == SIX
    single = arm_of(write(tmp_path / "one.urdf", torso + shoulders[:6] + head))
    assert names(single.joints) == ["waist", "chest", *SIX], "a head is no second arm"


def test_a_wrist_with_the_name_of_a_gripper_belongs_to_the_arm(tmp_path: Path) -> None:
    wrist = link_of("gripper_yaw", "arm_6_link", (0, 0, 0.05), "0 0 1")
    fingers = [link_of(f"gripper_{side}", "gripper_yaw_link", (0.02, 0, 0.05), "0 1 0", (0, 1)) for side in "ab"]
    carried = arm_of(write(tmp_path / "a.urdf", [*arm("arm", "root"), wrist, *fingers]))
    assert names(carried.joints) == [*SIX, "gripper_yaw"]
    single = arm_of(write(tmp_path / "b.urdf", [*arm("arm", "root"), wrist]))
    assert names(single.joints) == SIX


def test_fingers_with_fixed_links_that_have_names_of_fingers_are_a_gripper(tmp_path: Path) -> None:
    links = [*arm("arm", "root")]
    for side, x in (("left", 0.02), ("right", -0.02)):
        links.append(link_of(f"{side}_finger", "arm_6_link", (x, 0, 0.05), "0 1 0", (0, 1)))
        links.append(link_of(f"{side}_finger_tip", f"{side}_finger_link", (0, 0, 0.04)))
    root = read_urdf(write(tmp_path / "a.urdf", links))
    grasp = infer_gripper(root, read_joints(root), "arm_6_link", [])
    assert grasp is not None
    assert grasp.gripper.links == ("left_finger_link", "right_finger_link")


def test_a_package_name_with_three_slashes_is_a_path_in_a_folder_above(tmp_path: Path) -> None:
    mesh = tmp_path / "arms" / "wedge.obj"
    mesh.parent.mkdir()
    mesh.write_text("v 0 0 0\nv 1 0 0\nv 0 2 0\nv 0 0 3\nf 1 2 3\nf 1 2 4\nf 2 3 4\nf 1 3 4\n")
    visual = '<visual><geometry><mesh filename="package:///arms/wedge.obj"/></geometry></visual>'
    path = mesh.with_name("a.urdf")
    path.write_text(f'<robot name="test"><link name="root">{visual}</link></robot>')
    element = read_urdf(path).find("link/visual/geometry/mesh")
    assert element is not None
    assert element.get("filename") == str(mesh)


def test_a_urdf_with_the_name_of_a_built_in_robot_does_not_get_its_settings(tmp_path: Path) -> None:
    """The table has areas for the base of the built-in z1, which is not where an inferred base is."""
    with mygym.make_env({"robot": str(write(tmp_path / "z1.urdf", arm("arm", "root")))}) as env:
        assert env.world.workspace.areas == load_workspace("table").areas
        assert load_workspace("table").for_robot("z1").areas != load_workspace("table").areas


def test_the_expert_reaches_with_an_arm_behind_a_torso_and_with_a_hand(tmp_path: Path) -> None:
    """The torso, the second arm and the fingers stay still."""
    torso = link_of("waist", "root", (0, 0, 0.05), "0 0 1")
    arms = [*arm("arm", "waist_link", (0, 0.3, 0)), *arm("other", "waist_link", (0, -0.3, 0))]
    path = write(tmp_path / "a.urdf", [torso, *arms, *hand("arm_6_link")])
    evaluation = mygym.evaluate(policy="oracle", config={"robot": str(path)}, episodes=5)
    assert evaluation.success_rate == 1.0
    rows = {finding.key: finding for finding in infer_robot(path).findings}
    assert [rows[key].certainty for key in ("joints", "end_effector", "locked")] == ["likely", "likely", "certain"]
    assert all(word in rows["joints"].reason for word in ("longest", "waist_link", "palm arm_6_link"))
    assert "fingers" in rows["end_effector"].reason


# short arms ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_table_shrinks_for_a_short_arm_and_the_expert_reaches(tmp_path: Path) -> None:
    """The arm of 37 cm bends down to -y in the middle of its ranges, so that its base turns to the left."""
    path = write(tmp_path / "a.urdf", arm("arm", "root", size=0.5, limits={1: (-3.1, 0.0), 2: (0.0, 2.8)}))
    inferred = infer_robot(path)
    scale, table = inferred.spec.area_scale, load_workspace("table")
    assert inferred.reaches == 1.0
    assert scale < 1.0
    np.testing.assert_allclose(inferred.spec.base_orientation, (0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)), atol=1e-5)
    assert f"an area_scale of {scale:g}" in "; ".join(finding.text for finding in inferred.findings)
    assert "turned by 90°" in "; ".join(finding.text for finding in inferred.findings)
    assert [finding.key for finding in inferred.findings if finding.key and not finding.reason] == []
    with mygym.make_env({"robot": str(path)}) as env:
        env.reset(seed=0)
        assert env.world.workspace.areas == table.scaled(scale).areas
        assert env.world.inspection.collisions() == []
    assert mygym.evaluate(policy="oracle", config={"robot": str(path)}, episodes=5).success_rate == 1.0
    with pytest.raises(ConfigError, match="the tool_home of drawer"):
        mygym.make_env({"robot": str(path), "workspace": "drawer"})


@pytest.mark.parametrize("engine", [BULLET, MUJOCO])
def test_an_arm_moves_within_the_limits_of_its_controllers(tmp_path: Path, engine: str) -> None:
    """Limits of 0 and 0 are placeholders, one that is missing is 0 as in URDF, and infinite ones are none."""
    limits = {
        'lower="0" upper="0"': (-np.pi, np.pi),
        'upper="2"': (0.0, 2.0),
        'lower="-2"': (-2.0, 0.0),
        'lower="-inf" upper="inf"': (-np.pi, np.pi),
        'lower="-9" upper="9"': (-9.0, 9.0),
        "": (-np.pi, np.pi),
    }
    links = [
        link.replace('lower="-2.8" upper="2.8"', limit) for link, limit in zip(arm("arm", "root"), limits, strict=True)
    ]
    path = write(tmp_path / "a.urdf", links)
    spec = infer_robot(path).spec
    simulated = read_joints(robot_model(spec)).values()
    assert [(joint.lower, joint.upper) for joint in spec.joints] == list(limits.values())
    assert [(joint.lower, joint.upper) for joint in simulated if joint.kind != "fixed"] == list(limits.values())
    with RobotEnv("reach", robot=str(path), engine=engine, control="joint_position") as env:
        env.reset(seed=0)
        target = np.array([1.5, 0.5, -0.5, 1.5, 1.5, 1.5])
        low, high = np.transpose(list(limits.values()))
        for _ in range(40):
            env.step((2 * target - low - high) / (high - low))
        np.testing.assert_allclose(env.world.state.joint_position[0], target, atol=0.05)


def test_wheels_are_no_arm() -> None:
    car = Path(pybullet_data.getDataPath()) / "racecar" / "racecar.urdf"
    with pytest.raises(AssetError, match=r"racecar.urdf' has no arm: its joints span .* m; allowed: .* 0.03 m long"):
        infer_robot(car)


def test_an_arm_that_reaches_the_table_keeps_its_areas(tmp_path: Path) -> None:
    inferred = infer_robot(write(tmp_path / "a.urdf", arm("arm", "root")))
    assert inferred.spec.area_scale == 1.0
    assert inferred.spec.base_orientation == (0.0, 0.0, 0.0, 1.0)
    rows = {finding.key: finding for finding in inferred.findings if finding.key}
    assert list(rows) == ["joints", "gripper", "end_effector", "base_position", "joints.home"]
    assert all(row.reason for row in rows.values())
    assert rows["joints"].certainty == "certain", "no other joint moves"
    assert "[0.0, 0.0, 0.2] m" in rows["joints.home"].reason
    assert all(f"{joint.name} {joint.home + 0.0:g}" in rows["joints.home"].text for joint in inferred.spec.joints)


@pytest.mark.parametrize("limits", [(3.3, 6.2), (-6.2, -3.3)])
def test_a_range_beyond_half_a_turn_is_kept(tmp_path: Path, limits: tuple[float, float]) -> None:
    """It was cut at π, to nothing."""
    spec = infer_robot(write(tmp_path / "a.urdf", arm("arm", "root", limits={4: limits}))).spec
    joint = spec.joints[3]
    assert (joint.lower, joint.upper) == limits
    assert joint.lower < joint.home < joint.upper


@pytest.mark.parametrize("column", [pytest.param(0.4, marks=pytest.mark.slow), 0.72])
def test_a_base_stands_on_the_floor_if_the_arm_begins_above_the_table(tmp_path: Path, column: float) -> None:
    """The column is as narrow as a point; the first joint is 10 cm above it, and the floor 70 cm below the table."""
    path = write(tmp_path / "a.urdf", arm("arm", "root", (0, 0, column)))
    assert (infer_robot(path).spec.base_position[2] == -0.7) == (column == 0.72)
    with mygym.make_env({"robot": str(path)}) as env:
        env.reset(seed=0)
        assert env.world.inspection.collisions() == []


@pytest.mark.parametrize("joints", [5, 6])
def test_the_tool_of_an_arm_with_five_joints_lies_along_its_last_joint(tmp_path: Path, joints: int) -> None:
    """Such an arm could not hold a tilted tool down."""
    last = link_of("finger_1", f"arm_{joints}_link", (0.03, 0, 0.08), "0 1 0", (0, 1))
    other = link_of("finger_2", f"arm_{joints}_link", (0.03, 0.03, 0.08), "0 1 0", (0, 1))
    links = [*list(arm("arm", "root"))[:joints], last, other]
    links[joints - 1] = links[joints - 1].replace('axis xyz="0 1 0"', 'axis xyz="0 0 1"')
    root = read_urdf(write(tmp_path / "a.urdf", links))
    chain = infer_arm(read_joints(root)).joints
    assert len(chain) == joints
    hand = [read_joints(root)["finger_1"]]
    tool, _, _ = infer_tool(root, read_joints(root), chain, hand)
    assert (tool.position[0] == 0.0) == (joints == 5)
    assert tool.position[2] == pytest.approx(0.08, abs=0.01)


def scara(path: Path, axis: str = "0 0 1") -> Path:
    """Write an arm of two hinges, a quill that slides along an axis, and a tool that turns below it."""
    quill = link_of("quill", "elbow_link", (0.25, 0, -0.125), axis, (-0.2, 0)).replace("revolute", "prismatic")
    hangs = '<collision><origin xyz="0 0 -0.04"/><geometry><box size="0.02 0.02 0.08"/></geometry></collision></link>'
    tool = link_of("roll", "quill_link", (0, 0, 0), axis, (-3.1, 3.1)).replace("</link>", hangs)
    shoulder = link_of("shoulder", "root", (0, 0, 0.35), axis)
    elbow = link_of("elbow", "shoulder_link", (0.3, 0, 0.05), axis)
    return write(path, [shoulder, elbow, quill, tool])


@pytest.mark.slow
def test_the_quill_of_a_scara_is_a_joint_of_its_arm_and_the_expert_reaches(tmp_path: Path) -> None:
    """The arm had one joint; its tool hangs from the last link, which no joint tilts."""
    path = scara(tmp_path / "a.urdf")
    assert names(arm_of(path).joints) == ["shoulder", "elbow", "quill", "roll"]
    assert mygym.evaluate(policy="oracle", config={"robot": str(path)}, episodes=3).success_rate == 1.0


@pytest.mark.parametrize(
    ("control", "hinge", "slide"),
    [
        ("joint_position", "rad", "m"),
        ("joint_delta", "rad per control step", "m per control step"),
        ("joint_velocity", "rad/s", "m/s"),
        ("joint_torque", "N m", "N"),
    ],
)
def test_components_of_slides_have_units_of_lengths(tmp_path: Path, control: str, hinge: str, slide: str) -> None:
    with RobotEnv("reach", robot=str(scara(tmp_path / "a.urdf")), control=control) as env:
        (controller,) = env.world.controllers
        assert [limits.unit for limits in controller.ranges] == [hinge, hinge, slide, hinge]


def test_a_joint_of_the_arm_that_mimics_another_is_a_finding(tmp_path: Path) -> None:
    """The parallel arm of a palletizer: its simulation has a motor more."""
    path = write(tmp_path / "a.urdf", arm("arm", "root"))
    head, mark, tail = path.read_text().partition('<joint name="arm_5"')
    path.write_text(head + mark + tail.replace("</joint>", '<mimic joint="arm_3"/></joint>', 1))
    (finding,) = (finding for finding in infer_robot(path).findings if "arm_5 from arm_3" in finding.text)
    assert (finding.key, finding.certainty) == ("joints", "guess")


@pytest.mark.parametrize("engine", [BULLET, MUJOCO])
def test_an_axis_of_another_length_is_a_direction(tmp_path: Path, engine: str) -> None:
    """PyBullet moves a slide by its position times the length of its axis."""
    path = scara(tmp_path / "a.urdf", "0 0 3")
    with RobotEnv("reach", robot=str(path), engine=engine, control="joint_delta") as env:
        env.reset(seed=0)
        for step in range(12):
            env.step(np.array([0.5, 0.5, 1.0 if step < 4 else -1.0, 0.5]))
        q = env.world.state.joint_position[0].copy()
        assert q[2] < -0.03
        np.testing.assert_allclose(env.world.kinematics.pose(q)[:3, 3], env.world.state.ee_position[0], atol=1e-4)


@pytest.mark.parametrize("fingers", [1.0, 0.5])
def test_a_velocity_of_1_that_all_joints_have_is_a_placeholder(tmp_path: Path, fingers: float) -> None:
    """As the SO-100's: at 1 rad/s it does not get behind objects in time."""
    path = robot(tmp_path / "a.urdf", *MIRRORED)
    text = re.sub(r'effort="[\d.]+" velocity="[\d.]+"', 'effort="35" velocity="1"', path.read_text())
    head, mark, tail = text.partition('<link name="one">')
    path.write_text(head + mark + tail.replace('velocity="1"', f'velocity="{fingers}"'))
    inferred = infer_robot(path)
    is_placeholder = fingers == 1.0
    assert {joint.velocity for joint in inferred.spec.joints} == {3.0 if is_placeholder else 1.0}
    assert (
        any("1 rad/s" in note and "7 joints" in note for note in (finding.text for finding in inferred.findings))
        == is_placeholder
    )
