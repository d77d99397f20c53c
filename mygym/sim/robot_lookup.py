"""Robots by name: from a description, or inferred from a bare URDF, whose meshes Bullet reads."""

from __future__ import annotations

from pathlib import Path

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
    """Return the inference from a URDF, xacro or MuJoCo file; None of a registered name or a YAML file."""
    path = Path(registry("robot").get(name).load())
    return None if path.suffix.lower() in (".yaml", ".yml") else infer_robot(path, mesh_points)


def inferred_of(name: str) -> tuple[str, ...]:
    """Return one line for each property that `find_robot` infers; empty unless it infers the robot."""
    inferred = inferred_robot(name)
    return inferred.notes if inferred else ()
