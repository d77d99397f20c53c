"""Robots from a URDF alone: the arm between torso and hand, and the tool of a hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import mygym
from mygym.models.urdf import Joint, read_joints, read_urdf
from mygym.models.workspace import load_workspace
from mygym.sim.arm_inference import Arm, infer_arm
from mygym.sim.tool_inference import infer_gripper, infer_tool

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


def arm(name: str, parent: str, start: Sequence[float] = (0, 0, 0), size: float = 1.0) -> Iterator[str]:
    """Yield the links of an arm of six joints; the last link is `NAME_6_link`."""
    for number, (axis, height) in enumerate(zip(AXES, HEIGHTS, strict=True), start=1):
        x, y, z = start if number == 1 else (0, 0, 0)
        yield link_of(f"{name}_{number}", parent, (x, y, z + size * height), axis)
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
    tool = infer_tool(root, read_joints(root), "arm_6_link", None, result.hand)
    np.testing.assert_allclose(tool.position, (0, 0, 0.14), atol=1e-3)  # 1 cm before the tips


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
    gripper = infer_gripper(root, read_joints(root), "arm_6_link", [])
    assert gripper is not None
    assert gripper.links == ("left_finger_link", "right_finger_link")


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
