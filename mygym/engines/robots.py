"""Robots by name or file, and what engines simulate of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mygym.engines.primitives import mesh_points, replace_meshes
from mygym.registry import registry
from mygym.robotics.controllers import Mode
from mygym.robotics.inference.robots import Inferred, infer_robot
from mygym.robotics.robot import complete_robot, load_robot
from mygym.robotics.robots import GripperSpec, RobotSpec, cached_by_model, robot_model
from mygym.robotics.urdf import light_urdf, merge_fixed_joints, remove_joint_dynamics
from mygym.types import Array, FloatArray

__all__ = [
    "find_robot",
    "finger_speeds",
    "inferred_robot",
    "mesh_points",
    "motor_rate",
    "simulated_model",
    "width_coefficients",
]


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


@cached_by_model
def simulated_model(robot: RobotSpec, gripper: bool, mode: Mode) -> tuple[str, dict[str, tuple[str, FloatArray]]]:
    """Return the URDF text of a robot with primitives in place of meshes and without fixed joints.

    Args:
        robot: The robot.
        gripper: Whether fingers move; if not, they are welded shut.
        mode: Meaning of the commands of joints.

    Returns:
        The text; and link of the robot's URDF → link that contains it, and its pose `(4, 4)` there.
    """
    root = robot_model(robot, gripper)
    replace_meshes(root)
    if mode == "torque":  # real arms compensate friction, and Bullet's damping of light wrists is unstable
        remove_joint_dynamics(root)
    text = light_urdf(root, "collision")
    return text, merge_fixed_joints(root)


def finger_speeds(gripper: GripperSpec) -> list[float]:
    """Return the largest speed of each finger, rad/s or m/s: in proportion to its way, so that all arrive together."""
    ways = [abs(opened - closed) for closed, opened in zip(gripper.closed, gripper.open, strict=True)]
    return [gripper.velocity * way / max(ways) for way in ways]


def motor_rate(missing: Array, speeds: Array, acceleration: float, dt: float, xp: Any) -> Array:
    """Return the velocities per error `(N,)`, 1/s, of the joints of an arm, constant through a control step.

    The arm reaches its target at the end of the step if speed limits and braking allow it; otherwise all joints are
    slowed by the same factor, so that the path is straight. `RobotBody` in Bullet has the same in plain floats, which
    are quicker for a single world.

    Args:
        missing: `(J, N)` rad from the joints to their targets.
        speeds: `(J, 1)` rad/s, largest velocities.
        acceleration: rad/s², with which motors brake.
        dt: s, duration of a control step.
        xp: Array namespace of `missing`.
    """
    size, gain = xp.abs(missing), acceleration * dt
    slowest = xp.clip(xp.max(size / speeds, axis=0), 1e-6, None)
    farthest = xp.clip(xp.max(size, axis=0), 1e-6, None)
    # v such that the error after the step, e - v dt, equals the braking distance v² / 2a.
    brake = xp.sqrt(gain * gain + 2.0 * acceleration * farthest) - gain
    return xp.minimum(1.0 / slowest, brake / farthest)


def width_coefficients(gripper: GripperSpec | None) -> list[tuple[float, float]]:
    """Return for each finger: m of gripper width per m or rad of the finger, and its closed position."""
    if gripper is None:
        return []
    ranges = list(zip(gripper.closed, gripper.open, strict=True))
    return [(gripper.width / (len(ranges) * (opened - closed)), closed) for closed, opened in ranges]
