"""Robots by name or file; Bullet reads the meshes of those that are inferred."""

from __future__ import annotations

from pathlib import Path

from mygym.engines.bullet.primitives import mesh_points
from mygym.registry import registry
from mygym.robotics.inference.robots import Inferred, infer_robot
from mygym.robotics.robot import complete_robot, load_robot
from mygym.robotics.robots import RobotSpec

__all__ = ["find_robot", "inferred_robot", "mesh_points"]


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
