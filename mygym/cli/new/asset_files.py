"""Files of new robots, workspaces and objects: URDF and YAML files in `envs/`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mygym.cli.new.naming import check_free
from mygym.cli.new.request import Request
from mygym.cli.new.templating import checks_test, checks_test_file, config_file, fill, template

if TYPE_CHECKING:
    from mygym.models.robot_spec import GripperSpec

TEMPLATE_ARM: Mapping[str, str] = {
    "help": "Six joints between cylinders, a rod as the tool; 0.85 m to the wrist. SI units; limits as in the URDF.",
    "base_position": "[-0.6, 0.0, 0.0]",
    "base_orientation": "[0.0, 0.0, 0.0, 1.0]",
    "joints": """\
  - {name: joint_1, home: 0.0, lower: -2.9, upper: 2.9, velocity: 2.5, effort: 100}
  - {name: joint_2, home: 0.716, lower: -2.0, upper: 2.0, velocity: 2.5, effort: 100}
  - {name: joint_3, home: 1.561, lower: -2.7, upper: 2.7, velocity: 2.5, effort: 60}
  - {name: joint_4, home: 0.0, lower: -2.9, upper: 2.9, velocity: 3.0, effort: 20}
  - {name: joint_5, home: 0.864, lower: -2.2, upper: 2.2, velocity: 3.0, effort: 20}
  - {name: joint_6, home: 0.0, lower: -3.0, upper: 3.0, velocity: 3.0, effort: 10}""",
    "link": "tool",
    "position": "[0.0, 0.0, 0.1]",
    "orientation": "[0.0, 0.0, 0.0, 1.0]",
    "gripper": "",
    "area_scale": "1",
}
"""Values of `robot.yaml.template` for the arm of `robot.urdf.template`."""


def robot_files(request: Request) -> dict[str, str]:
    """Return the files of a robot: the robot of a URDF, or the arm of the template."""
    check_free("robot", request.name)
    descriptions: dict[str, str] = {}
    if request.urdf is None:
        descriptions[f"envs/robots/{request.name}.urdf"] = fill("robot.urdf", request)
        values = {**TEMPLATE_ARM, "urdf": f"{request.name}.urdf"}
    else:
        values = _inferred_values(request.urdf, request.folder / "envs" / "robots")
    descriptions[f"envs/robots/{request.name}.yaml"] = fill("robot.yaml", request, **values)
    config = {"robot": request.name, "task": "reach"}
    return {
        **descriptions,
        **config_file(request, config, "Trains the default algorithm with this robot."),
        **checks_test_file(request, checks_test("robot", request)),
    }


def workspace_files(request: Request) -> dict[str, str]:
    """Return the files of a workspace."""
    check_free("workspace", request.name)
    config = {"workspace": request.name, "task": "reach"}
    return {
        f"envs/workspaces/{request.name}.yaml": template("workspace.yaml"),
        **config_file(request, config, "Trains the default algorithm in this workspace."),
        **checks_test_file(request, checks_test("workspace", request)),
    }


def object_files(request: Request) -> dict[str, str]:
    """Return the files of an object: the object of a URDF, or the stool of the template."""
    check_free("object", request.name)
    text = template("compound.yaml") if request.urdf is None else _urdf_object(request, request.urdf)
    config = {"task": "push", "task_params": f"{{object: {request.name}}}"}
    return {
        f"envs/objects/{request.name}.yaml": text,
        **config_file(request, config, "Trains the default algorithm to push this object."),
        **checks_test_file(request, checks_test("object", request)),
    }


def _urdf_object(request: Request, urdf: Path) -> str:
    from mygym.models.objects import load_object

    spec = load_object(urdf)
    path = _path_from(request.folder / "envs" / "objects", urdf)
    values = {"file": urdf.name, "urdf": path, "mass": f"{spec.mass:g} kg", "friction": f"{spec.friction:g}"}
    return fill("urdf_object.yaml", request, **values)


def _path_from(folder: Path, urdf: Path) -> str:
    """Return the path of a URDF for a description: relative inside the project folder, so that the folder can move."""
    project = folder.parents[1].resolve()
    inside = urdf.resolve().is_relative_to(project)
    return os.path.relpath(urdf.resolve(), folder.resolve()) if inside else str(urdf.resolve())


def _inferred_values(urdf: Path, folder: Path) -> dict[str, str]:
    """Return the values of `robot.yaml.template` that are inferred from a URDF, for a file in `folder`."""
    from mygym.models.inference.robots import count_joints, infer_robot
    from mygym.sim.primitives import mesh_points

    robot = infer_robot(urdf, mesh_points)
    spec = robot.spec
    joints = [
        f"  - {{name: {joint.name}, home: {joint.home:g}, lower: {joint.lower:g}, upper: {joint.upper:g}, "
        f"velocity: {joint.velocity:g}, effort: {joint.effort:g}}}"
        for joint in spec.joints
    ]
    notes = "\n".join(f"# inferred: {note}" for note in robot.notes)
    return {
        "help": f"The arm of {urdf.name}: {count_joints(len(joints))}. SI units. Limits: the URDF's.\n{notes}",
        "urdf": _path_from(folder, urdf),
        "base_position": _numbers(spec.base_position),
        "base_orientation": _numbers(spec.base_orientation),
        "joints": "\n".join(joints),
        "link": spec.end_effector.link,
        "position": _numbers(spec.end_effector.position),
        "orientation": _numbers(spec.end_effector.orientation),
        "gripper": _gripper(spec.gripper),
        "area_scale": f"{spec.area_scale:g}",
    }


def _gripper(gripper: GripperSpec | None) -> str:
    if gripper is None:
        return ""
    lines = [
        f"  joints: [{', '.join(gripper.joints)}]",
        f"  links: [{', '.join(gripper.links)}]         # finger links, for contacts",
        f"  closed: {_numbers(gripper.closed)}           # m or rad",
        f"  open: {_numbers(gripper.open)}",
        f"  width: {gripper.width:g}            # m between the open fingers",
        f"  force: {gripper.force:g}             # N or N m",
        f"  velocity: {gripper.velocity:g}         # m/s or rad/s",
    ]
    if gripper.pads:
        lines.append("  pads:                     # boxes in place of the meshes of a link: m, in its frame")
    for pad in gripper.pads:
        size, position, orientation = map(_numbers, (pad.size, pad.position, pad.orientation))
        lines.append(f"    - {{link: {pad.link}, size: {size}, position: {position}, orientation: {orientation}}}")
    return "\n" + "\n".join(["gripper:", *lines])


def _numbers(values: Iterable[float]) -> str:
    return f"[{', '.join(f'{value:g}' for value in values)}]"
