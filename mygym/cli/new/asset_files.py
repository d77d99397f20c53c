"""Files of new robots, workspaces and objects: URDF and YAML files in `envs/`, and pictures of robots."""

from __future__ import annotations

import os
from pathlib import Path

from mygym.cli.new.naming import check_free
from mygym.cli.new.request import Request
from mygym.cli.new.templating import checks_test, checks_test_file, config_file, fill, template


def robot_files(request: Request) -> dict[str, str | bytes]:
    """Return the files of a robot: the robot of a URDF with its picture, or the arm of the template."""
    check_free("robot", request.name)
    folder = "envs/robots"
    descriptions: dict[str, str | bytes]
    if request.urdf is None:
        descriptions = {
            f"{folder}/{request.name}.urdf": fill("robot.urdf", request),
            f"{folder}/{request.name}.yaml": fill("robot.yaml", request),
        }
    else:
        text, picture = _inferred_robot(request.urdf, request.folder / "envs" / "robots")
        descriptions = {f"{folder}/{request.name}.yaml": text, f"{folder}/{request.name}.png": picture}
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


def _inferred_robot(urdf: Path, folder: Path) -> tuple[str, bytes]:
    """Return the description of the robot that is inferred from a URDF, for a file in `folder`, and its picture."""
    from mygym.cli.new.robot_yaml import robot_yaml
    from mygym.models.freedom import count_joints
    from mygym.models.inference.robots import infer_robot
    from mygym.sim.primitives import mesh_points
    from mygym.sim.rendering.robot_sheet import robot_sheet
    from mygym.sim.rendering.thumbnails import as_png

    robot = infer_robot(urdf, mesh_points)
    title = f"The arm of {urdf.name}: {count_joints(len(robot.spec.joints))}. SI units. Limits: the URDF's."
    text = robot_yaml(robot.spec, _path_from(folder, urdf), robot.findings, title)
    return text, as_png(robot_sheet(robot.spec))
