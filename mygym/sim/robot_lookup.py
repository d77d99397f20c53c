"""Robots by name: from a description, or inferred from a bare URDF, whose meshes Bullet reads."""

from __future__ import annotations

from pathlib import Path

from mygym.models.inference.completion import complete_robot
from mygym.models.inference.robots import Inferred, infer_robot
from mygym.models.robot import load_robot
from mygym.models.robot_spec import RobotSpec
from mygym.registry import registry
from mygym.sim.primitives import mesh_points


def find_robot(name: str) -> RobotSpec:
    """Return the robot of a config's `robot`: a registered name, a YAML file, or a file to infer it from.

    Raises:
        RegistryError: The name or the file does not exist, or a package that the file needs is not installed.
        AssetError: The file does not describe a robot.
    """
    inferred = inferred_robot(name)
    return inferred.spec if inferred else load_robot(Path(registry("robot").get(name).load()))


def inferred_robot(name: str) -> Inferred | None:
    """Return the result of the inference for a URDF, or a YAML file that lacks sections; None for a complete file.

    Raises:
        RegistryError: The name or the file does not exist.
        AssetError: The file does not describe a robot.
    """
    path = Path(registry("robot").get(name).load())
    is_yaml = path.suffix.lower() in (".yaml", ".yml")
    return complete_robot(path, mesh_points) if is_yaml else infer_robot(path, mesh_points)
