"""Robots' files as they come: repairs are findings, and mistakes of one kind are one message."""

from __future__ import annotations

import io
import sys
import tarfile
import warnings
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mygym.engines.engine import BULLET, MUJOCO
from mygym.engines.robots import mesh_points, replace_meshes
from mygym.envs.robot_env import RobotEnv
from mygym.errors import AssetError, MygymError, RegistryError
from mygym.registry import RobotFileName, is_file_name, registry
from mygym.robotics import robot
from mygym.robotics.mesh_files import MAX_TRIANGLES, binary_stl, find_mesh, read_triangles, readable_mesh
from mygym.robotics.robot import find_robot, inferred_robot
from mygym.robotics.robot_descriptions import read_robot, robot_stamps
from mygym.robotics.robot_spec import RobotSpec
from mygym.robotics.surface_points import points_of_links, points_on
from mygym.robotics.urdf import inertial, read_joints

HOME = (0.0, 0.25, 1.39, 0.0, 1.5, 0.0)
"""rad: the joints of `arm` with its tool down, above the table."""


@pytest.fixture(autouse=True)
def _placed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put each arm at the base and home that the search finds for `arm`; see test_base_placement.py for the search."""

    def place(spec: RobotSpec, *_: Any) -> tuple[RobotSpec, float]:
        joints = (replace(joint, home=home) for joint, home in zip(spec.joints, HOME, strict=False))
        return replace(spec, base_position=(-0.336, 0.0, 0.126), joints=tuple(joints)), 1.0

    monkeypatch.setattr(robot, "place_base", place)


AXES = ("0 0 1", "0 1 0", "0 1 0", "0 0 1", "0 1 0", "0 0 1")
BOX = '<box size="0.06 0.08 0.2"/>'
INERTIAL = '<inertial><mass value="{}"/><inertia ixx="{}" iyy="{}" izz="{}" ixy="0" ixz="0" iyz="0"/></inertial>'
GOOD = INERTIAL.format(1, 0.01, 0.01, 0.01)
BOXES = f"<collision><geometry>{BOX}</geometry></collision>"
LIMIT = '<limit lower="-2.5" upper="2.5" effort="50" velocity="2"/>'
CORNERS = np.array([[0, 0, 0], [0.1, 0, 0], [0, 0.2, 0], [0, 0, 0.3]])
FACES = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]])
TETRAHEDRON = CORNERS[FACES]


def arm(
    inertials: Mapping[int, str] | str = GOOD, shapes: str = f"<collision><geometry>{BOX}</geometry></collision>"
) -> str:
    """Return a URDF of an arm of six joints; `inertials` by number of the link, `shapes` of every link."""
    text = '<robot name="arm"><link name="base"/>'
    for number, axis in enumerate(AXES, start=1):
        parent = f"l{number - 1}" if number > 1 else "base"
        mass = inertials if isinstance(inertials, str) else inertials.get(number, GOOD)
        text += f'<link name="l{number}">{mass}{shapes}</link><joint name="j{number}" type="revolute">'
        text += f'<parent link="{parent}"/><child link="l{number}"/><origin xyz="0 0 0.15"/><axis xyz="{axis}"/>{LIMIT}'
        text += "</joint>"
    return f"{text}</robot>"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def repairs(path: Path | str) -> list[str]:
    return [finding.text for finding in read_robot(path).repairs]


def mesh_shape(name: str, kind: str = "collision") -> str:
    return f'<{kind}><geometry><mesh filename="{name}"/></geometry></{kind}>'


def test_masses_and_inertias_that_are_missing_or_impossible_are_estimated_in_one_finding(tmp_path: Path) -> None:
    bad = {
        1: "",
        2: '<inertial><mass value="2"/></inertial>',
        3: INERTIAL.format(-1, 1, 1, 1),
        4: INERTIAL.format(1, 0, 0.01, 0.01),
        5: INERTIAL.format("nan", 1, 1, 1),
        6: '<inertial><inertia ixx="1" iyy="1"/></inertial>',
    }
    path = write(tmp_path / "a.urdf", arm(bad))
    root = read_robot(path).root
    values = {link.get("name"): inertial(link) for link in root.findall("link")}
    assert values["l1"][0] == pytest.approx(1000 * 0.06 * 0.08 * 0.2)
    assert values["l2"][0] == 2, "a mass that is given stays"
    assert values["l4"][0] == 1
    x, y = 0.96 / 12 * (0.08**2 + 0.2**2), 0.96 / 12 * (0.06**2 + 0.2**2)
    np.testing.assert_allclose(np.diag(values["l1"][2])[:2], [x, y], atol=1e-4)
    for number in range(1, 7):
        assert (np.linalg.eigvalsh(values[f"l{number}"][2]) > 0).all()
    (text,) = [text for text in repairs(path) if "inertia" in text]
    assert "6 links" in text
    assert "l1, l2, l3, l4, l5, l6" in text
    assert find_robot(str(path)).joints[0].name == "j1"


def test_moments_that_no_body_has_are_replaced_by_the_nearest(tmp_path: Path) -> None:
    path = write(tmp_path / "a.urdf", arm({3: INERTIAL.format(1, 0.001, 0.001, 0.01)}))
    moments = np.linalg.eigvalsh(inertial(read_robot(path).root.findall("link")[3])[2])
    assert moments[2] <= moments[0] + moments[1]
    assert any("moments" in text and text.endswith(" l3") for text in repairs(path))


def test_a_body_whose_fixed_part_has_the_mass_is_not_repaired(tmp_path: Path) -> None:
    ends = '<parent link="l1"/><child link="core"/>'
    part = f'<link name="core">{GOOD}</link><joint name="weld" type="fixed">{ends}</joint>'
    path = write(tmp_path / "a.urdf", arm({1: ""}).replace("</robot>", f"{part}</robot>"))
    assert not any("inertia" in text for text in repairs(path))


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("link.stl", "arms/urdf/link.stl"),
        ("meshes/link.stl", "arms/meshes/link.stl"),
        ("package://arms/meshes/link.stl", "arms/meshes/link.stl"),
        ("package://other_name/meshes/link.stl", "arms/meshes/link.stl"),
        ("package://other/deep/meshes/link.stl", "arms/meshes/link.stl"),
        ("model://arms/meshes/link.stl", "arms/meshes/link.stl"),
        ("model://link.stl", "arms/urdf/link.stl"),
        (r"..\meshes\link.stl", "arms/meshes/link.stl"),
        ("file://ROOT/arms/meshes/link.stl", "arms/meshes/link.stl"),
        ("file:///home/someone/arms/meshes/link.stl", "arms/meshes/link.stl"),
        ("my%20meshes/link.stl", "arms/urdf/my meshes/link.stl"),
        ("package://ros/meshes/link.stl", "ros_packages/ros/meshes/link.stl"),
        ("package://ament/meshes/link.stl", "install/share/ament/meshes/link.stl"),
        ("package://lost/link.stl", "elsewhere/a/lost/link.stl"),
    ],
)
def test_meshes_are_looked_up(name: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(tmp_path / "ros_packages"))
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "install"))
    monkeypatch.setenv("MYGYM_MESH_PATH", str(tmp_path / "elsewhere"))
    write(tmp_path / file, "")
    (tmp_path / "arms" / "urdf").mkdir(parents=True, exist_ok=True)
    if file.startswith("elsewhere"):
        write(tmp_path / "elsewhere" / "b" / "link.stl", "")
    results = find_mesh(tmp_path / "arms" / "urdf" / "a.urdf", name.replace("ROOT", str(tmp_path)))
    assert results is not None
    assert results.resolve() == tmp_path / file


def collada(unit: str = "0.001") -> str:
    """Return a tetrahedron in mm, moved by 50 mm, as a polygon list."""
    points = " ".join(str(value) for value in (1000 * CORNERS).ravel())
    indices = " ".join(map(str, FACES.ravel()))
    return f"""<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><unit meter="{unit}"/></asset><library_geometries><geometry id="g"><mesh>
<source id="p"><float_array id="a" count="12">{points}</float_array><technique_common>
<accessor count="4" source="#a" stride="3"><param name="X" type="float"/><param name="Y" type="float"/>
<param name="Z" type="float"/></accessor></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
<polylist count="4"><input offset="0" semantic="VERTEX" source="#v"/><vcount>3 3 3 3</vcount><p>{indices}</p></polylist>
</mesh></geometry></library_geometries><library_visual_scenes><visual_scene id="s"><node id="n">
<translate>50 0 0</translate><instance_geometry url="#g"/></node></visual_scene></library_visual_scenes>
<scene><instance_visual_scene url="#s"/></scene></COLLADA>"""


def meshes(folder: Path) -> dict[str, Path]:
    """Write a tetrahedron in every format."""
    trimesh = pytest.importorskip("trimesh")
    files = {name: folder / f"link.{name}" for name in ("stl", "obj", "dae", "glb", "ply")}
    files["ascii"] = folder / "ascii.STL"
    mesh = trimesh.Trimesh(CORNERS, FACES)
    for name in ("glb", "ply", "obj"):
        mesh.export(files[name])
    mesh.export(files["ascii"], file_type="stl_ascii")
    files["stl"].write_bytes(binary_stl(TETRAHEDRON))
    files["dae"].write_text(collada())
    return files


def test_bullet_reads_the_meshes_of_every_format(tmp_path: Path) -> None:
    for name, file in meshes(tmp_path).items():
        shift = [0.05, 0, 0] if name == "dae" else [0, 0, 0]
        points = mesh_points(str(readable_mesh(file).file)) - shift
        np.testing.assert_allclose(points.max(axis=0), [0.1, 0.2, 0.3], atol=2e-3, err_msg=name)
        np.testing.assert_allclose(points.min(axis=0), 0, atol=2e-3, err_msg=name)
        mesh = read_triangles(file)
        assert len(mesh.faces) == 4
        np.testing.assert_allclose(mesh.vertices.max(axis=0) - shift, [0.1, 0.2, 0.3], atol=1e-6, err_msg=name)


def test_an_arm_of_glb_meshes_collides_and_is_drawn(tmp_path: Path) -> None:
    import mygym

    meshes(tmp_path)
    path = write(tmp_path / "a.urdf", arm(shapes=mesh_shape("link.glb") + mesh_shape("link.glb", "visual")))
    with mygym.make_env({"robot": str(path)}, render_mode="rgb_array") as env:
        env.reset(seed=0)
        drawn = env.render()
    boxes = write(tmp_path / "b.urdf", arm(shapes=""))
    with mygym.make_env({"robot": str(boxes)}, render_mode="rgb_array") as env:
        env.reset(seed=0)
        empty = env.render()
    assert np.abs(np.asarray(drawn, dtype=int) - np.asarray(empty, dtype=int)).sum() > 10_000


def test_the_colour_of_a_glb_mesh_is_drawn_unless_the_file_names_another(tmp_path: Path) -> None:
    trimesh = pytest.importorskip("trimesh")
    mesh = trimesh.Trimesh(CORNERS, FACES)
    mesh.visual.face_colors = [255, 0, 0, 255]
    mesh.export(tmp_path / "red.glb")
    shape = mesh_shape("red.glb", "visual")
    root = read_robot(write(tmp_path / "a.urdf", arm(shapes=shape))).root
    colors = {color.get("rgba") for color in root.findall("link/visual/material/color")}
    assert colors == {"1.000 0.000 0.000 1.000"}
    painted = shape.replace("</visual>", '<material name="blue"><color rgba="0 0 1 1"/></material></visual>')
    root = read_robot(write(tmp_path / "b.urdf", arm(shapes=painted))).root
    assert {color.get("rgba") for color in root.findall("link/visual/material/color")} == {"0 0 1 1"}


def test_a_glb_mesh_without_trimesh_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "link.glb", "")
    monkeypatch.setitem(sys.modules, "trimesh", None)
    with pytest.raises(RegistryError, match=r"link\.glb.*mygym\[meshes\]"):
        readable_mesh(tmp_path / "link.glb")
    path = write(tmp_path / "a.urdf", arm(shapes=mesh_shape("link.glb")))
    with pytest.raises(AssetError, match=r"link\.glb.*mygym\[meshes\]"):
        read_robot(path)


def test_missing_visual_meshes_are_drawn_as_collisions_without_a_warning(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.urdf",
        arm(shapes=BOXES + mesh_shape("gone.stl", "visual")),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        root = read_robot(path).root
    assert [shape.tag for shape in root.findall("link[@name='l2']/visual/geometry/*")] == ["box"]
    (text,) = repairs(path)
    assert "l1, l2, l3, l4, l5, l6" in text
    assert "gone.stl" in text
    assert "MYGYM_MESH_PATH" in text


def test_missing_collision_meshes_become_the_visual_shapes_or_capsules(tmp_path: Path) -> None:
    (tmp_path / "link.stl").write_bytes(binary_stl(TETRAHEDRON))
    path = write(tmp_path / "a.urdf", arm(shapes=mesh_shape("gone.stl") + mesh_shape("link.stl", "visual")))
    shapes = read_robot(path).root.findall("link[@name='l2']/collision/geometry/*")
    assert [shape.get("filename") for shape in shapes] == [str(tmp_path / "link.stl")]
    assert any("collide in place" in text for text in repairs(path))
    path = write(tmp_path / "b.urdf", arm(shapes=mesh_shape("gone.stl")))
    root = read_robot(path).root
    assert [shape.tag for shape in root.findall("link[@name='l2']/collision/geometry/*")] == ["capsule"]
    assert [shape.tag for shape in root.findall("link[@name='l6']/collision/geometry/*")] == ["sphere"]
    assert any("capsules" in text and "6 links" in text for text in repairs(path))
    assert find_robot(str(path)).joints


def test_the_capsule_of_an_end_link_goes_to_twice_its_centre_of_mass(tmp_path: Path) -> None:
    inertial = GOOD.replace("<mass", '<origin xyz="0 0.04 0"/><mass')
    root = read_robot(write(tmp_path / "a.urdf", arm({6: inertial}, mesh_shape("gone.stl")))).root
    points = points_of_links(root, [("l6", np.eye(4))])
    np.testing.assert_allclose((points[:, 1].min(), points[:, 1].max()), (0, 0.08), atol=1e-3)


def test_links_without_visuals_are_drawn(tmp_path: Path) -> None:
    root = read_robot(write(tmp_path / "a.urdf", arm())).root
    assert len(root.findall("link/visual")) == 6


def test_unreadable_meshes_are_one_message(tmp_path: Path) -> None:
    shapes = mesh_shape("a.stl") + mesh_shape("b.obj")
    write(tmp_path / "a.stl", "no mesh")
    write(tmp_path / "b.obj", "no mesh")
    with pytest.raises(AssetError, match=r"a\.stl' cannot be read.*b\.obj'"):
        read_robot(write(tmp_path / "a.urdf", arm(shapes=shapes)))


def test_a_mesh_of_very_many_triangles_is_simplified(tmp_path: Path) -> None:
    angle = np.linspace(0, 2 * np.pi, 501)[:-1]
    rings = np.array([[0.1 * np.cos(angle), 0.1 * np.sin(angle), np.full(500, z)] for z in np.linspace(0, 0.3, 301)])
    grid = rings.transpose(0, 2, 1)
    right, up, both = np.roll(grid, -1, axis=1)[:-1], grid[1:], np.roll(grid, -1, axis=1)[1:]
    corners = np.concatenate([np.stack([grid[:-1], right, up], 2), np.stack([right, both, up], 2)]).reshape(-1, 3, 3)
    assert len(corners) > MAX_TRIANGLES
    (tmp_path / "big.stl").write_bytes(binary_stl(corners))
    readable = readable_mesh(tmp_path / "big.stl")
    assert readable.is_simplified
    mesh = read_triangles(readable.file)
    assert 100 < len(mesh.faces) < MAX_TRIANGLES / 5
    np.testing.assert_allclose(mesh.vertices.max(axis=0), [0.1, 0.1, 0.3], atol=0.3 / 64)
    path = write(tmp_path / "a.urdf", arm(shapes=mesh_shape("big.stl")))
    assert any("simplified: big.stl" in text for text in repairs(path))


@pytest.mark.parametrize(
    "before",
    [
        "\n\n",
        "\ufeff",
        "<!-- a comment -->\n",
        '\ufeff\n<!-- a --><?xml version="1.0" encoding="utf-8"?>',
        '<?xml version="0.0" ?>',
    ],
)
def test_text_before_the_declaration_is_no_mistake(before: str, tmp_path: Path) -> None:
    text = before if "<?xml" in before else f'{before}<?xml version="1.0"?>'
    path = tmp_path / "a.URDF"
    path.write_text(text + arm(), encoding="utf-8")
    assert find_robot(str(path)).name == "a.URDF"


def test_limits_that_mean_none_or_are_reversed_are_repaired(tmp_path: Path) -> None:
    text = arm().replace('effort="50"', 'effort="-1"', 1).replace('lower="-2.5" upper="2.5"', 'lower="2" upper="-2"', 1)
    joint = read_joints(read_robot(write(tmp_path / "a.urdf", text)).root)["j1"]
    assert (joint.lower, joint.upper, joint.effort) == (-2, 2, np.inf)
    results = repairs(tmp_path / "a.urdf")
    assert any("effort of j1" in text for text in results)
    assert any("swapped" in text and "j1" in text for text in results)


def test_an_endless_limit_is_none(tmp_path: Path) -> None:
    """SDF's default is 1e16: an action of 1 would be this angle, and this speed."""
    limits = 'lower="-1e16" upper="1e16" effort="50" velocity="1e16"'
    path = write(tmp_path / "a.urdf", arm().replace(LIMIT, f"<limit {limits}/>", 1))
    joint = read_joints(read_robot(path).root)["j1"]
    assert (joint.lower, joint.upper, joint.effort, joint.velocity) == (-np.inf, np.inf, 50, np.inf)
    assert any("endless" in text and "velocity of j1" in text for text in repairs(path))


def test_damping_that_no_motor_overcomes_at_full_speed_is_reduced(tmp_path: Path) -> None:
    """Motors of 50 N m turn at up to 2 rad/s: damping of 30 N m s/rad would take 60 N m, and that of 20 takes 40."""
    text = arm()
    for damping in (30, 20):
        text = text.replace(f"{LIMIT}</joint>", f'{LIMIT}<dynamics damping="{damping}"/></joint>', 1)
    path = write(tmp_path / "a.urdf", text)
    first, second = (float(item.get("damping", "")) for item in read_robot(path).root.findall("joint/dynamics"))
    assert 0 < first * 2 < 50
    assert second == 20
    (repair,) = (text for text in repairs(path) if "damping" in text)
    assert "j1" in repair
    assert "j2" not in repair


@pytest.mark.parametrize("engine", [BULLET, MUJOCO])
def test_attributes_that_urdf_does_not_know_are_ignored(tmp_path: Path, engine: str) -> None:
    text = arm(GOOD.replace("ixx", 'mass="heavy" ixx')).replace('effort="50"', 'effort="50" acceleration="" jerk="no"')
    text = text.replace("</joint>", '<dynamics damping="0.5" spring_stiffness="soft"/></joint>')
    contact = '<contact><lateral_friction value="0.7"/><stiffness value="hard"/></contact></link>'
    with RobotEnv(
        "reach", robot=str(write(tmp_path / "a.urdf", text.replace("</link>", contact))), engine=engine
    ) as env:
        env.reset(seed=0)
        assert np.isfinite(env.step(env.expert_action())[0]["observation"]).all()


def test_odd_names_are_names(tmp_path: Path) -> None:
    text = arm().replace('"j1"', '"joint 1/a"').replace('"l3"', '"/link 3"')
    assert find_robot(str(write(tmp_path / "a.urdf", text))).joints[0].name == "joint 1/a"


def test_closed_loops_are_opened_and_links_without_joints_left_out(tmp_path: Path) -> None:
    loop = '<link name="lonely"/><joint name="rod" type="fixed"><parent link="l2"/><child link="l5"/></joint></robot>'
    path = write(tmp_path / "a.urdf", arm().replace("</robot>", loop))
    root = read_robot(path).root
    assert root.find("joint[@name='rod']") is None
    assert root.find("link[@name='lonely']") is None
    assert any("rod" in text for text in repairs(path))
    assert any("lonely" in text for text in repairs(path))


@pytest.mark.parametrize(
    ("shape", "word"),
    [
        ("<collision/>", "l1 (empty)"),
        ("<visual><geometry/></visual>", "l1 (empty)"),
        ('<collision><geometry><ellipsoid radii="1 1 1"/></geometry></collision>', "l1 (ellipsoid)"),
        ("<visual><geometry><box/></geometry></visual>", "l1 (box)"),
        ("", "has no shapes"),
        (f'<visual><geometry>{BOX}</geometry><material><color rgba="1 0 0"/></material></visual>', ""),
        (f'<visual><geometry>{BOX}</geometry><material name="a"><color rgba="red"/></material></visual>', ""),
    ],
)
def test_shapes_and_materials_that_bullet_refuses_are_repaired(shape: str, word: str, tmp_path: Path) -> None:
    import mygym

    path = write(tmp_path / "a.urdf", arm(shapes=shape + (BOXES if shape else "")))
    assert word in " ".join(repairs(path))
    with mygym.make_env({"robot": str(path)}, render_mode="rgb_array") as env:
        env.reset(seed=0)
        env.render()


def test_a_default_namespace_and_an_old_encoding_are_no_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "a.urdf"
    path.write_bytes(
        arm().replace("<robot ", '<robot xmlns="http://example.org" ').replace('"j1"', '"jö"').encode("latin-1")
    )
    assert find_robot(str(path)).joints[0].name == "jö"


CYCLE = '<joint name="back" type="fixed"><parent link="l3"/><child link="base"/></joint></robot>'
ISLAND = (
    '<link name="p"/><link name="q"/><joint name="k" type="fixed"><parent link="p"/><child link="q"/></joint></robot>'
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["not a URDF file"]),
        ("<html/>", ["begins with <html>"]),
        ('<robot name="a"/>', ["link: 0"]),
        (arm().replace("</robot>", CYCLE), ["is a cycle"]),
        (arm().replace("</robot>", ISLAND), ["'base, p'", "one link without a parent"]),
        (
            arm().replace('effort="50"', 'effort="fifty"'),
            [f"joint j{number}: limit effort: 'fifty'" for number in (1, 6)],
        ),
        (arm().replace('name="j2"', ""), ["joint: name: '' is missing"]),
        (arm().replace('"j2"', '"j1"').replace('"j4"', '"j3"'), ["joint: 'j1, j3' is used"]),
        ('<!DOCTYPE r [<!ENTITY a "b">]>' + arm(), ["declares entities"]),
    ],
)
def test_mistakes_are_one_message(text: str, words: list[str], tmp_path: Path) -> None:
    with pytest.raises(AssetError) as caught:
        find_robot(str(write(tmp_path / "a.urdf", text)))
    for word in ["a.urdf", *words]:
        assert word in str(caught.value)


MACRO = """<robot xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:macro name="one" params="n parent axis length">
<link name="l${n}"><collision><geometry><box size="0.05 0.05 ${length}"/></geometry></collision>
<visual><geometry><mesh filename="file://$(find arm_description)/meshes/link.stl"/></geometry></visual></link>
<joint name="$(arg prefix)j${n}" type="revolute"><parent link="${parent}"/><child link="l${n}"/>
<origin xyz="0 0 ${length}"/><axis xyz="${axis}"/><limit lower="-2" upper="2" effort="9" velocity="1"/></joint>
</xacro:macro></robot>"""


def xacro_arm(folder: Path) -> Path:
    """Write a package with an arm whose joints' prefix and links' length are arguments."""
    calls = "".join(
        f'<xacro:one n="{n}" parent="{f"l{n - 1}" if n > 1 else "base"}" axis="{axis}" length="$(arg length)"/>'
        for n, axis in enumerate(AXES, start=1)
    )
    write(folder / "arm_description" / "urdf" / "macro.xacro", MACRO)
    write(folder / "arm_description" / "meshes" / "link.stl", "")
    (folder / "arm_description" / "meshes" / "link.stl").write_bytes(binary_stl(TETRAHEDRON))
    return write(
        folder / "arm_description" / "urdf" / "arm.urdf.xacro",
        f"""<?xml version="1.0"?><robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">
<xacro:arg name="prefix" default=""/><xacro:arg name="length" default="0.15"/>
<xacro:include filename="$(find arm_description)/urdf/macro.xacro"/><link name="base"/>{calls}</robot>""",
    )


def test_xacro_files_are_expanded_with_arguments(tmp_path: Path) -> None:
    pytest.importorskip("xacro")
    path = xacro_arm(tmp_path)
    assert [joint.name for joint in find_robot(str(path)).joints] == [f"j{n}" for n in range(1, 7)]
    robot = find_robot(f"{path} prefix:=left_ length:=0.2")
    assert robot.joints[0].name == "left_j1"
    assert read_joints(read_robot(robot.urdf).root)["left_j1"].origin[2, 3] == pytest.approx(0.2)
    with pytest.raises(AssetError, match=r"argument: 'prefx' is not.*did you mean 'prefix'"):
        find_robot(f"{path} prefx:=left_")
    with pytest.raises(AssetError, match=r"macro\.xacro' (describes no link|cannot be expanded)"):
        find_robot(str(path.with_name("macro.xacro")))
    lost = write(tmp_path / "lost.xacro", path.read_text().replace("arm_description", "no_such_package"))
    with pytest.raises(AssetError, match="no_such_package"):
        find_robot(str(lost))


def test_unused_xacro_elements_need_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xacro", None)
    space = 'xmlns:xacro="http://www.ros.org/wiki/xacro"'
    text = arm().replace('name="arm">', f'name="arm" {space}><xacro:property name="pi" value="${{3}}"/>')
    assert find_robot(str(write(tmp_path / "a.urdf", text))).joints
    used = write(tmp_path / "b.urdf", text.replace('"-2.5"', '"${-pi}"'))
    with pytest.raises(RegistryError, match=r"b\.urdf.*mygym\[xacro\]"):
        find_robot(str(used))


MUJOCO = """<mujoco><compiler angle="degree"/><default><joint range="-150 150"/></default><worldbody>
<geom type="plane" size="1 1 1"/><body name="cube" pos="1 0 1"><freejoint/><geom type="box" size=".02 .02 .02"/></body>
<body name="base" pos="0 0 0.8"><geom type="cylinder" size=".05 .05"/>%s
<body name="left_finger" pos="0 0 .1"><joint name="left" type="slide" axis="0 1 0" range="0 .04"/>
<geom type="box" size=".01 .006 .03" pos="0 .006 .02"/></body>
<body name="right_finger" pos="0 0 .1"><joint name="right" type="slide" axis="0 1 0" range="-.04 0"/>
<geom type="box" size=".01 .006 .03" pos="0 -.006 .02"/></body>%s</body></worldbody>
<equality><joint joint1="right" joint2="left" polycoef="0 -1 0 0 0"/></equality>
<actuator><motor joint="j1" gear="2" forcerange="-30 30"/></actuator></mujoco>"""


def test_an_arm_in_a_mujoco_file_becomes_a_urdf(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    bodies = "".join(
        f'<body name="b{n}" pos="0 0 .15">'
        f'<joint name="j{n}" axis="{axis}" pos="0 0 {0.05 * (n == 3)}" ref="{10 * (n == 4)}"/>'
        '<geom type="capsule" fromto="0 0 0 0 0 .15" size=".03"/>'
        for n, axis in enumerate(AXES, start=1)
    )
    path = write(tmp_path / "arm.xml", MUJOCO % (bodies, "</body>" * 6))
    robot = find_robot(str(path))
    assert [joint.name for joint in robot.joints] == [f"j{n}" for n in range(1, 7)]
    root = read_robot(path).root
    joints = read_joints(root)
    assert joints["j1"].effort == 60
    assert joints["j2"].upper == pytest.approx(np.radians(150))
    assert (joints["j4"].lower, joints["j4"].upper) == pytest.approx(tuple(np.radians([-160, 140]))), (
        "a reference of 10°"
    )
    mimic = root.find("joint[@name='right']/mimic")
    assert mimic is not None
    assert (mimic.get("joint"), float(mimic.get("multiplier", "0"))) == ("left", -1)
    assert joints["j3"].origin[2, 3] == pytest.approx(0.2), "the joint lies 5 cm above its body"
    assert any("cube" in text for text in repairs(path))
    mass, centre, _ = inertial(next(link for link in root.findall("link") if link.get("name") == "b2"))
    assert mass == pytest.approx(1000 * np.pi * (0.03**2 * 0.15 + 4 / 3 * 0.03**3), rel=1e-3)
    np.testing.assert_allclose(centre, [0, 0, 0.075], atol=1e-6)
    with pytest.raises(AssetError, match=r"bad\.xml.*cannot be compiled"):
        find_robot(str(write(tmp_path / "bad.xml", "<mujoco><nonsense/></mujoco>")))


def archive(path: Path, files: Mapping[str, str]) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as file:
            for name, text in files.items():
                file.writestr(name, text)
    else:
        with tarfile.open(path, f"w:{path.suffix[1:]}") as tar:
            for name, text in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text.encode()))
    return path


@pytest.mark.parametrize("name", ["arm.zip", "arm.tar.gz", "arm.tar.xz"])
def test_archives_with_one_description_are_robots(name: str, tmp_path: Path) -> None:
    path = archive(
        tmp_path / name, {"pkg/urdf/a.urdf": arm(shapes=mesh_shape("package://pkg/m/a.obj")), "pkg/m/a.obj": OBJ}
    )
    assert len(find_robot(str(path)).joints) == 6
    inferred = inferred_robot(str(path))
    assert inferred is not None
    assert not any("capsule" in finding.text for finding in inferred.findings)


OBJ = "".join(f"v {x} {y} {z}\n" for x, y, z in CORNERS) + "".join(f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in FACES)


def test_bad_archives_are_refused(tmp_path: Path) -> None:
    two = archive(tmp_path / "two.zip", {"a/one.urdf": arm(), "a/other.urdf": arm()})
    with pytest.raises(AssetError, match=r"2 descriptions.*two\.zip/a/one\.urdf.*two\.zip/a/other\.urdf"):
        find_robot(str(two))
    assert len(find_robot(str(two / "a" / "one.urdf")).joints) == 6
    with pytest.raises(AssetError, match=r"did you mean 'a/one\.urdf'"):
        find_robot(str(two / "a" / "ane.urdf"))
    for name in ("../evil.urdf", "/evil.urdf"):
        for suffix in (".zip", ".tar.gz"):
            with pytest.raises(AssetError, match=r"has the path"):
                find_robot(str(archive(tmp_path / f"evil{suffix}", {name: arm()})))
    with pytest.raises(AssetError, match="contains none"):
        find_robot(str(archive(tmp_path / "none.zip", {"a.txt": ""})))
    write(tmp_path / "broken.zip", "PK")
    with pytest.raises(AssetError, match="cannot be read"):
        find_robot(str(tmp_path / "broken.zip"))


def test_an_archive_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mygym.robotics.robot_descriptions.MAX_BYTES", 1000)
    with pytest.raises(AssetError, match="is larger"):
        find_robot(str(archive(tmp_path / "large.zip", {"a.urdf": arm()})))


def test_a_yaml_robot_with_such_a_file_is_repaired_as_well(tmp_path: Path) -> None:
    import yaml

    archive(tmp_path / "arm.zip", {"a.urdf": arm("")})
    joint = {"home": 0.1, "lower": -1, "upper": 1, "velocity": 1, "effort": 9}
    values = {
        "urdf": "arm.zip/a.urdf",
        "base_position": [0, 0, 0],
        "base_orientation": [0, 0, 0, 1],
        "joints": [{"name": f"j{n}", **joint} for n in range(1, 7)],
        "end_effector": {"link": "l6"},
    }
    path = write(tmp_path / "mine.yaml", yaml.safe_dump(values))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(find_robot(str(path)).joints) == 6


def test_names_of_files_are_recognised() -> None:
    for name in ("a.urdf", "A.URDF", "a.xacro", "a.urdf.xacro x:=1 y:=a.b", "a.xml", "a.zip", "a.tar.gz", "a.yaml"):
        assert is_file_name(name), name
    for name in ("panda", "so101", "x:=1"):
        assert not is_file_name(name), name
    assert not is_file_name("a.zip", "object")
    parsed = RobotFileName.parse("a b.xacro  x:=1 name:=two words y:=")
    assert (str(parsed.file), parsed.arguments) == ("a b.xacro", ("x:=1", "name:=two words", "y:="))
    with pytest.raises(MygymError, match=r"'gone\.zip'"):
        registry("robot").get("gone.zip")


def test_every_shipped_robot_has_nothing_to_repair_that_is_a_guess() -> None:
    """A robot of this project must not need estimates."""
    from mygym.robotics.assets import ASSETS

    for path in sorted((ASSETS / "robots").glob("*.urdf")):
        guesses = [finding.text for finding in read_robot(path).repairs if finding.certainty == "guess"]
        assert not guesses, f"{path.name}: {guesses}"
        assert ET.tostring(read_robot(path).root)


def test_a_mesh_that_changes_is_measured_again(tmp_path: Path) -> None:
    """A dashboard runs for days, and the URDF stays while its meshes are exported again."""

    def write_mesh(length: float) -> None:
        box = "0 0 0, 1 0 0, 0 1 0, 1 1 0, 0 0 1, 1 0 1, 0 1 1, 1 1 1"
        corners = [[length * float(edge) for edge in corner.split()] for corner in box.split(", ")]
        faces = [(1, 3, 4, 2), (5, 6, 8, 7), (1, 2, 6, 5), (3, 7, 8, 4), (1, 5, 7, 3), (2, 4, 8, 6)]
        lines = [f"v {x} {y} {z}" for x, y, z in corners] + ["f " + " ".join(map(str, face)) for face in faces]
        (tmp_path / "box.obj").write_text("\n".join(lines))

    def lengths() -> list[float]:
        root = read_robot(urdf).root
        (shape,) = root.iterfind("link[@name='last']/collision/geometry/mesh")
        points = points_on(shape)
        replace_meshes(root)
        (box,) = root.iterfind("link[@name='last']/collision/geometry/box")
        return [float(np.ptp(points[:, 2])), float(box.get("size", "").split()[2])]

    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    mesh = f'{inertial}<collision><geometry><mesh filename="box.obj"/></geometry></collision>'
    joint = '<joint name="j" type="revolute"><parent link="root"/><child link="last"/>'
    joint += '<axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint>'
    urdf = tmp_path / "a.urdf"
    urdf.write_text(f'<robot name="a"><link name="root"/><link name="last">{mesh}</link>{joint}</robot>')
    write_mesh(0.1)
    before = robot_stamps(urdf)
    assert lengths() == pytest.approx([0.1, 0.1], abs=0.003)
    write_mesh(0.25)
    assert lengths() == pytest.approx([0.25, 0.25], abs=0.003)
    assert robot_stamps(urdf) != before, "the inference and the simulated model are made again"
