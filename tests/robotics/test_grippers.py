"""Grippers from shapes and joints alone: signs and factors of mimics, linkages, single jaws, three fingers."""

from __future__ import annotations

import contextlib
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mygym
from mygym.errors import AssetError, ConfigError
from mygym.robotics.inference.findings import Finding
from mygym.robotics.inference.grippers import Grasp, infer_gripper
from mygym.robotics.objects import load_object
from mygym.robotics.robot import infer_robot
from mygym.robotics.robot_spec import check_model, robot_model
from mygym.robotics.surface_points import points_on
from mygym.robotics.transforms import quaternion_to_matrix
from mygym.robotics.urdf import read_joints, read_urdf

ARM = (("0 0 1", 0.15), ("0 1 0", 0.1), ("0 1 0", 0.42), ("0 0 1", 0.36), ("0 1 0", 0.06), ("0 0 1", 0.06))
"""Axis of each joint of an arm, and its distance in m from the joint before it."""

WRIST = "a6"
INERTIAL = '<inertial><mass value="{0}"/><inertia ixx="{1}" iyy="{1}" izz="{1}" ixy="0" ixz="0" iyz="0"/></inertial>'
BOX = '<{kind}><origin xyz="{xyz}" rpy="{rpy}"/><geometry><box size="{size}"/></geometry></{kind}>'


def box(size: str, xyz: str = "0 0 0", rpy: str = "0 0 0", kind: str = "collision") -> str:
    """Return a shape of a link."""
    return BOX.format(kind=kind, size=size, xyz=xyz, rpy=rpy)


def part(
    name: str,
    parent: str,
    shapes: str = "",
    xyz: str = "0 0 0",
    axis: str = "",
    kind: str = "prismatic",
    limits: Sequence[float] = (0.0, 0.04),
    mimic: str = "",
    rpy: str = "0 0 0",
    mass: float = 0.1,
) -> str:
    """Return a link and the joint `NAME_joint` that carries it; fixed without an axis."""
    limit = f'<limit lower="{limits[0]}" upper="{limits[1]}" effort="20" velocity="0.5"/>'
    moves = f'<axis xyz="{axis}"/>{limit}{mimic}' if axis else ""
    joint = (
        f'<joint name="{name}_joint" type="{kind if axis else "fixed"}"><parent link="{parent}"/>'
        f'<child link="{name}"/><origin xyz="{xyz}" rpy="{rpy}"/>{moves}</joint>'
    )
    return f'<link name="{name}">{INERTIAL.format(mass, mass * 1e-3)}{shapes}</link>{joint}'


def follows(joint: str, multiplier: float = 1.0, offset: float = 0.0) -> str:
    """Return a `<mimic>`."""
    return f'<mimic joint="{joint}" multiplier="{multiplier}" offset="{offset}"/>'


def robot(path: Path, *hand: str) -> Path:
    """Write a URDF of an arm of six joints with parts behind its last link `WRIST`."""
    links, parent = [f'<link name="base">{INERTIAL.format(5, 0.01)}{box("0.1 0.1 0.1", "0 0 0.05")}</link>'], "base"
    for number, (axis, height) in enumerate(ARM, start=1):
        links.append(part(f"a{number}", parent, "", f"0 0 {height}", axis, "revolute", (-2.9, 2.9), mass=1.0))
        links[-1] = links[-1].replace('effort="20" velocity="0.5"', 'effort="80" velocity="2.5"')
        parent = f"a{number}"
    path.write_text(f'<robot name="test">{"".join([*links, *hand])}</robot>')
    return path


def grasp_of(path: Path, findings: list[Finding] | None = None) -> Grasp:
    """Return the inferred gripper and tool of a URDF."""
    root = read_urdf(path)
    grasp = infer_gripper(root, read_joints(root), WRIST, [] if findings is None else findings)
    assert grasp is not None
    return grasp


def axes(grasp: Grasp) -> np.ndarray:
    """Return the axes of the tool in the wrist's frame as rows: x, closing, approach."""
    return quaternion_to_matrix(grasp.tool.orientation).T


def solved(path: Path, episodes: int = 6) -> float:
    """Return the share of episodes of pick_and_place that the scripted expert solves with a bare URDF."""
    config = {"task": "pick_and_place", "robot": str(path)}
    return mygym.evaluate(policy="oracle", config=config, episodes=episodes).success_rate


def finger(side: int, name: str, axis: str, limits: Sequence[float], mimic: str = "", y: float = 0.0) -> str:
    """Return a finger whose inner surface is in the plane y = 0 of its frame; `side` is 1 or -1."""
    shape = box("0.02 0.012 0.08", f"0 {side * 0.006} 0.04")
    return part(name, WRIST, shape, f"0 {y} 0.08", axis, "prismatic", limits, mimic)


MIRRORED = (
    finger(1, "one", "0 1 0", (0.015, 0.05), y=-0.015),
    finger(-1, "other", "0 1 0", (-0.05, -0.015), follows("one_joint", -1), y=0.015),
)
"""As Interbotix: both joints have the same axis, and limits that do not begin at 0; their names do not help."""


def test_fingers_close_at_opposite_ends_of_their_limits_if_one_mirrors_the_other(tmp_path: Path) -> None:
    path = robot(tmp_path / "a.urdf", *MIRRORED)
    grasp = grasp_of(path)
    assert grasp.gripper.closed == (0.015, -0.015)
    assert grasp.gripper.open == (0.05, -0.05)
    assert grasp.gripper.width == pytest.approx(0.07, abs=0.002)
    np.testing.assert_allclose(grasp.tool.position, (0, 0, 0.15), atol=1e-3)  # 1 cm before the tips
    assert solved(path) == 1.0


def test_a_mimic_has_a_multiplier_and_an_offset_and_needs_no_limits(tmp_path: Path) -> None:
    """The second finger goes 0.02 - 0.5 q, within limits that mean nothing."""
    first = finger(1, "one", "0 1 0", (0.0, 0.04))
    mimic = follows("one_joint", -0.5, 0.02)
    other = finger(-1, "other", "0 1 0", (-3.1, 3.1), mimic, y=-0.02)
    gripper = grasp_of(robot(tmp_path / "a.urdf", first, other)).gripper
    assert gripper.closed == (0.0, 0.02)
    assert gripper.open == (0.04, 0.0)
    assert gripper.width == pytest.approx(0.06, abs=0.002)


def test_a_joint_that_follows_a_locked_joint_is_where_it_leads(tmp_path: Path) -> None:
    """It stayed at zero, so that a lift of two stages rose by one."""
    mimic = follows("one_joint", -0.5, 0.02)
    other = finger(-1, "other", "0 1 0", (-3.1, 3.1), mimic, y=-0.02)
    spec = infer_robot(robot(tmp_path / "a.urdf", finger(1, "one", "0 1 0", (0.0, 0.04)), other)).spec
    joints = read_joints(robot_model(replace(spec, gripper=None, locked={"one_joint": 0.03})))
    assert joints["one_joint"].origin[1, 3] == pytest.approx(0.03)
    assert joints["other_joint"].origin[1, 3] == pytest.approx(-0.02 + 0.005)


def test_a_gripper_without_a_finger_that_follows_is_refused(tmp_path: Path) -> None:
    spec = infer_robot(robot(tmp_path / "a.urdf", *MIRRORED)).spec
    assert spec.gripper is not None
    one = replace(spec, gripper=replace(spec.gripper, joints=("one_joint",), closed=(0.015,), open=(0.05,)))
    with pytest.raises(AssetError, match=r"gripper\.joints: .*other_joint"):
        check_model(one)
    check_model(replace(one, locked={"other_joint": -0.05}))


def test_a_finger_goes_where_it_mimics_beyond_its_limits(tmp_path: Path) -> None:
    """As the PR2: a finger that goes backwards has the limits of the finger that goes forwards."""
    limits = (0.0, 0.04)
    mirrored = finger(-1, "other", "0 1 0", limits, follows("one_joint", -1))
    path = robot(tmp_path / "a.urdf", finger(1, "one", "0 1 0", limits), mirrored)
    joints = read_joints(robot_model(infer_robot(path).spec))
    assert (joints["one_joint"].lower, joints["one_joint"].upper) == limits
    assert (joints["other_joint"].lower, joints["other_joint"].upper) == (-0.04, 0.04)
    assert solved(path, 2) == 1.0


def test_fingers_without_mimic_and_with_odd_names_are_a_gripper_and_a_camera_is_not(tmp_path: Path) -> None:
    camera = [
        part("a_camera", WRIST, box("0.02 0.05 0.02"), "0.06 0 0.04"),
        part("a_camera_optical_frame", "a_camera", rpy="0 0.5 0"),
    ]
    path = robot(
        tmp_path / "a.urdf",
        *camera,
        finger(1, "carriage", "0 1 0", (0.0, 0.04)),
        finger(-1, "slider", "0 1 0", (-0.04, 0.0)),
    )
    grasp = grasp_of(path)
    assert grasp.gripper.links == ("carriage", "slider")
    assert grasp.gripper.open == (0.04, -0.04)
    np.testing.assert_allclose(axes(grasp)[2], (0, 0, 1), atol=1e-6)
    np.testing.assert_allclose(np.abs(axes(grasp)[1]), (0, 1, 0), atol=1e-6)


def test_the_mass_of_the_fingers_does_not_move_the_tool(tmp_path: Path) -> None:
    first = finger(1, "one", "0 1 0", (0.0, 0.04)).replace("<inertial>", '<inertial><origin xyz="0.03 0.02 -0.05"/>')
    other = finger(-1, "other", "0 -1 0", (0.0, 0.04))
    tool = grasp_of(robot(tmp_path / "a.urdf", first, other)).tool
    np.testing.assert_allclose(tool.position, (0, 0, 0.15), atol=1e-3)


def linkage(side: int, name: str, driver: str = "") -> tuple[str, ...]:
    """Return a parallel linkage as Robotiq's: a knuckle turns outwards, a finger at its end turns back, beside a second
    knuckle; all follow the first joint of the gripper."""
    turn = "0 0 0" if side > 0 else "0 0 3.14159265"
    mimic = follows(driver) if driver else ""
    first = driver or f"{name}_knuckle_joint"
    knuckle = box("0.02 0.01 0.05", "0 0.015 0.02", "-0.5 0 0")
    return (
        part(f"{name}_knuckle", WRIST, knuckle, f"0 {side * 0.03} 0.06", "1 0 0", "revolute", (0, 0.8), mimic, turn),
        part(
            f"{name}_tip",
            f"{name}_knuckle",
            box("0.022 0.006 0.05", "0 -0.006 0.03"),
            "0 0.03 0.04",
            "1 0 0",
            "revolute",
            (-0.9, 0),
            follows(first, -1),
        ),
        part(
            f"{name}_inner",
            WRIST,
            box("0.01 0.005 0.04", "0 0.01 0.02", "-0.5 0 0"),
            f"0 {side * 0.012} 0.07",
            "1 0 0",
            "revolute",
            (0, 0.9),
            follows(first),
            turn,
        ),
    )


def test_a_linkage_closes_parallel_and_its_tips_are_the_pads(tmp_path: Path) -> None:
    path = robot(tmp_path / "a.urdf", *linkage(1, "left"), *linkage(-1, "right", "left_knuckle_joint"))
    grasp = grasp_of(path)
    closed = dict(zip(grasp.gripper.joints, grasp.gripper.closed, strict=True))
    opened = dict(zip(grasp.gripper.joints, grasp.gripper.open, strict=True))
    assert len(closed) == 6
    for side in ("left", "right"):
        assert closed[f"{side}_knuckle_joint"] - opened[f"{side}_knuckle_joint"] > 0.3
        assert closed[f"{side}_tip_joint"] == pytest.approx(-closed[f"{side}_knuckle_joint"])
    assert grasp.gripper.links == ("left_tip", "right_tip")
    assert solved(path) > 0.5


JAW = (
    part("body", WRIST, box("0.03 0.06 0.03", "0 0.01 0.02") + box("0.02 0.01 0.08", "0 -0.02 0.07"), "0 0 0.02"),
    part("beak", "body", box("0.02 0.01 0.08", "0 0 0.04"), "0 0.03 0.03", "1 0 0", "revolute", (-1.6, 0.6)),
)
"""As SO-101: one jaw that turns against a jaw that is part of the palm."""


def test_one_jaw_closes_against_the_palm(tmp_path: Path) -> None:
    path = robot(tmp_path / "a.urdf", *JAW)
    findings: list[Finding] = []
    gripper = grasp_of(path, findings).gripper
    assert gripper.joints == ("beak_joint",)
    assert gripper.links == ("beak", WRIST)
    assert gripper.closed[0] > 0.3 > -0.1 > gripper.open[0] > -1.0, "it does not open to the side"
    assert [finding.certainty for finding in findings if finding.key == "gripper"] == ["guess"]
    assert solved(path) == 1.0


def test_a_task_that_keeps_the_hand_closed_has_its_tool_where_one_jaw_meets_the_other(tmp_path: Path) -> None:
    path = robot(tmp_path / "a.urdf", *JAW)
    with contextlib.ExitStack() as stack:
        tools = {}
        for task in ("push", "pick_and_place"):
            env = stack.enter_context(contextlib.closing(mygym.make_env({"task": task, "robot": str(path)}).unwrapped))
            tools[task] = np.array(env.robot.end_effector.position)
        offset = axes(grasp_of(path)).T @ (tools["push"] - tools["pick_and_place"])
    assert abs(offset[1]) > 0.02, "the fixed jaw is 3 cm beside the middle of the opened hand"
    assert grasp_of(path).gripper.closed_tip == pytest.approx(offset, abs=1e-3)
    assert mygym.evaluate(policy="oracle", config={"robot": str(path), "task": "push"}, episodes=8).success_rate >= 0.8


def test_one_sliding_jaw_of_two(tmp_path: Path) -> None:
    fixed = part("fixed", WRIST, box("0.02 0.012 0.08", "0 -0.006 0.04"), "0 0 0.08")
    grasp = grasp_of(robot(tmp_path / "a.urdf", fixed, finger(1, "moving", "0 1 0", (0.0, 0.08))))
    assert grasp.gripper.closed == (0.0,)
    assert grasp.gripper.open == (0.08,)
    assert grasp.tool.position[1] == pytest.approx(0.03, abs=0.002)  # room for a cube of 4 cm beside the fixed jaw


def test_three_fingers_close_towards_each_other(tmp_path: Path) -> None:
    fingers = []
    for number, (x, y, yaw) in enumerate(((0, -0.05, 0), (0.02, 0.05, 3.14159), (-0.02, 0.05, 3.14159)), start=1):
        shape = box("0.015 0.012 0.09", "0 0 0.045")
        place = f"{x} {y} 0.05"
        fingers.append(part(f"f{number}", WRIST, shape, place, "1 0 0", "revolute", (-0.7, 0.2), rpy=f"0 0 {yaw}"))
    palm = part("palm", WRIST, box("0.08 0.12 0.04"), "0 0 0.03")
    path = robot(tmp_path / "a.urdf", palm, *fingers)
    gripper = grasp_of(path).gripper
    assert gripper.links == ("f1", "f2", "f3")
    assert all(closed < opened for closed, opened in zip(gripper.closed, gripper.open, strict=True))
    assert solved(path) == 1.0


def fingers_of_three_joints(*places: tuple[float, int], limits: Sequence[float] = (0.0, 1.2)) -> list[str]:
    """Return fingers that bend to the middle, without mimics; each has a place along x and a side along y."""
    parts = [part("palm", WRIST, box("0.1 0.12 0.04"), "0 0 0.03")]
    for number, (x, side) in enumerate(places):
        parent, place = WRIST, f"{x} {0.05 * side} 0.05"
        for joint in range(3):
            name = f"f{number}_{joint}"
            shape = box("0.012 0.012 0.035", "0 0 0.0175")
            low = limits[0] if joint else limits[0] - 0.3
            parts.append(part(name, parent, shape, place, f"{side} 0 0", "revolute", (low, limits[1]), mass=0.03))
            parent, place = name, "0 0 0.035"
    return parts


@pytest.mark.parametrize(
    ("places", "links"),
    [
        pytest.param(((0, 1), (0.025, -1), (-0.025, -1)), ("f0_2", "f1_2", "f2_2"), id="three fingers"),
        pytest.param(
            ((-0.0375, -1), (-0.0125, -1), (0.0125, -1), (0.0375, -1), (0, 1)), ("f1_2", "f2_2", "f4_2"), id="a hand"
        ),
    ],
)
def test_many_independent_joints_close_towards_the_middle(
    places: Sequence[tuple[float, int]], links: tuple[str, ...], tmp_path: Path
) -> None:
    path = robot(tmp_path / "a.urdf", *fingers_of_three_joints(*places))
    gripper = grasp_of(path).gripper
    assert len(gripper.joints) == 3 * len(places)
    assert all(closed > opened for closed, opened in zip(gripper.closed, gripper.open, strict=True))
    assert gripper.links == links, "fingers beside the object hold nothing"
    assert solved(path, 3) == 1.0


def test_many_joints_that_do_not_close_name_the_keys_to_write(tmp_path: Path) -> None:
    fingers = fingers_of_three_joints((0, 1), (0.025, 1), (-0.025, 1))
    findings = infer_robot(robot(tmp_path / "a.urdf", *fingers)).findings
    (reason,) = (finding.reason for finding in findings if finding.key == "gripper")
    assert "9 joints" in reason
    assert "gripper.joints" in reason


def test_fingers_without_collision_shapes_get_pads_from_their_visual_shapes(tmp_path: Path) -> None:
    fingers = [text.replace("collision", "visual") for text in MIRRORED]
    path = robot(tmp_path / "a.urdf", *fingers)
    gripper = grasp_of(path).gripper
    assert {pad.link for pad in gripper.pads} == {"one", "other"}
    assert solved(path, 3) == 1.0


def test_a_gripper_that_is_too_narrow_for_the_cube_has_a_finding(tmp_path: Path) -> None:
    fingers = finger(1, "one", "0 1 0", (0.0, 0.015)), finger(-1, "other", "0 -1 0", (0.0, 0.015))
    path = robot(tmp_path / "a.urdf", *fingers)
    findings = infer_robot(path).findings
    assert ["3.0 cm" in finding.text for finding in findings if finding.key == "gripper.width"] == [True]
    with pytest.raises(ConfigError, match="cube"):
        mygym.make_env({"task": "pick_and_place", "robot": str(path)})


def test_what_does_not_open_a_gap_is_no_gripper(tmp_path: Path) -> None:
    wheel = part("wheel", WRIST, box("0.03 0.03 0.03"), "0 0 0.05", "0 0 1", "continuous")
    path = robot(tmp_path / "a.urdf", wheel.replace('type="continuous"', 'type="revolute"'))
    root = read_urdf(path)
    findings: list[Finding] = []
    assert infer_gripper(root, read_joints(root), WRIST, findings) is None
    assert findings[0].text == "no gripper"
    assert findings[0].reason


def test_fingers_without_any_shape_are_named(tmp_path: Path) -> None:
    root = read_urdf(robot(tmp_path / "a.urdf", part("first", WRIST, "", "0 0 0.1", "0 1 0")))
    findings: list[Finding] = []
    assert infer_gripper(root, read_joints(root), WRIST, findings) is None
    assert "first" in findings[0].reason


# objects -------------------------------------------------------------------------------------------------------------


def test_the_tool_of_a_fixed_fork_is_on_a_prong(tmp_path: Path) -> None:
    prongs = box("0.005 0.02 0.05", "0.03 0 0.035") + box("0.005 0.02 0.05", "-0.03 0 0.035")
    fork = part("fork", WRIST, prongs + box("0.065 0.02 0.005", "0 0 0.01")), part("tip", WRIST, "", "0 0 0.03")
    path = robot(tmp_path / "a.urdf", *fork)
    tool = infer_robot(path).spec.end_effector
    assert (tool.link, abs(tool.position[0])) == ("tip", pytest.approx(0.03, abs=0.003))
    assert mygym.evaluate(policy="oracle", config={"robot": str(path), "task": "push"}, episodes=10).success_rate == 1.0


def test_an_object_is_grasped_at_the_middle_of_its_shape(tmp_path: Path) -> None:
    """At the centre of mass, 2 cm below, the palm would land on the can."""
    inertia = '<mass value="0.3"/><inertia ixx="1e-3" iyy="1e-3" izz="1e-3" ixy="0" ixz="0" iyz="0"/>'
    shape = '<collision><geometry><cylinder radius="0.0325" length="0.1"/></geometry></collision>'
    link = f'<link name="can"><inertial><origin xyz="0 0 -0.02"/>{inertia}</inertial>{shape}</link>'
    path = tmp_path / "can.urdf"
    path.write_text(f'<robot name="can">{link}</robot>')
    assert load_object(str(path)).middle == pytest.approx((0.0, 0.0, 0.02))
    config = {"task": "pick_and_place", "robot": "panda", "task_params": {"object": str(path)}}
    assert mygym.evaluate(policy="oracle", config=config, episodes=4).success_rate == 1.0


def test_an_object_as_wide_as_the_hand_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wide.yaml"
    path.write_text("{shape: box, size: [0.0795, 0.0795, 0.04], mass: 0.1, friction: 0.6}")
    with pytest.raises(ConfigError, match="wide") as info:
        mygym.make_env({"task": "pick_and_place", "robot": "panda", "task_params": {"object": str(path)}})
    assert "task_params.object" in str(info.value)


@pytest.mark.parametrize(
    "shape", ['<box size="0.1 0.06 0"/>', '<cylinder radius="0.05" length="0"/>', '<sphere radius="0"/>']
)
def test_flat_shapes_have_points(shape: str) -> None:
    points = points_on(ET.fromstring(shape))
    assert len(points)
    assert (points[:, 2] == 0).all()
