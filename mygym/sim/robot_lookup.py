"""Robots by name: from a description, or inferred from a bare URDF, whose meshes Bullet reads."""

from __future__ import annotations

from pathlib import Path

from mygym.models.inference.robots import infer_robot
from mygym.models.robot import load_robot
from mygym.models.robot_spec import RobotSpec
from mygym.registry import registry
from mygym.sim.primitives import mesh_points


def find_robot(name: str) -> RobotSpec:
    """Return the robot of a config's `robot`: a registered name, a YAML file, or a URDF to infer it from.

    Raises:
        RegistryError: The name or the file does not exist.
        AssetError: The file does not describe a robot.
    """
    path = Path(registry("robot").get(name).load())
    return infer_robot(path, mesh_points).spec if path.suffix == ".urdf" else load_robot(path)


def inferred_of(name: str) -> tuple[str, ...]:
    """Return one line for each property that `find_robot` infers; empty unless `name` is a URDF."""
    path = Path(registry("robot").get(name).load())
    return infer_robot(path, mesh_points).notes if path.suffix == ".urdf" else ()
