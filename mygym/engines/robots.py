"""What engines simulate of robots: primitives in place of meshes, and motors.

A reset loads the robot again: a mesh costs milliseconds, a primitive microseconds.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mygym.errors import AssetError
from mygym.registry.entries import HAS_BULLET
from mygym.robotics.controllers import Mode
from mygym.robotics.files import cached_by_file
from mygym.robotics.mesh_files import read_triangles
from mygym.robotics.robot_spec import GripperSpec, RobotSpec, cached_by_model, robot_model
from mygym.robotics.transforms import pose_matrix
from mygym.robotics.urdf import (
    copy_shapes,
    light_urdf,
    merge_fixed_joints,
    origin_of,
    remove_joint_dynamics,
    set_origin,
    text_of,
)
from mygym.types import Array, FloatArray


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


MIN_SIZE = 0.001
"""m: no edge or radius is below this; Bullet's collision margins are of this size."""

_ONE_LINK = """<robot name="mesh"><link name="mesh">
<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><geometry>{geometry}</geometry></collision></link></robot>"""


@dataclass(frozen=True)
class Primitive:
    """A URDF geometry and its pose."""

    tag: str
    sizes: Mapping[str, str]
    """Attributes of the element."""
    pose: FloatArray
    """`(4, 4)` in the frame of the enclosed points."""
    volume: float
    """m³."""


def replace_meshes(root: ET.Element) -> None:
    """Replace all collision meshes by primitives, in place; visual shapes stay.

    A robot without collision shapes gets its visual shapes as collision shapes.

    Raises:
        AssetError: A mesh cannot be read.
    """
    if root.find("link/collision") is None:
        for link in root.findall("link"):
            copy_shapes(link, "visual", "collision")
    for collision in root.iterfind("link/collision"):
        geometry = collision.find("geometry")
        mesh = None if geometry is None else geometry.find("mesh")
        if geometry is None or mesh is None:
            continue
        shape = _around(mesh.get("filename", ""), mesh.get("scale", "1 1 1"))
        geometry.remove(mesh)
        ET.SubElement(geometry, shape.tag, dict(shape.sizes))
        set_origin(collision, origin_of(collision) @ shape.pose)


@cached_by_file()
def _around(filename: str, scale: str) -> Primitive:
    return enclosing(mesh_points(filename, scale))


def mesh_points(filename: str, scale: str = "1 1 1") -> FloatArray:
    """Return points `(n, 3)` m of a mesh file (OBJ, STL, Collada), scaled: the corners of its convex hull among them.

    Bullet's loader reads it where there is one, so that every mesh that it can draw can collide.

    Raises:
        AssetError: The file cannot be read.
        RegistryError: Its format needs the package `trimesh`, which is not installed.
    """
    if not HAS_BULLET:
        read = read_triangles(Path(filename))
        corners = np.unique(read.vertices[read.faces].reshape(-1, 3), axis=0)
        return np.asarray(corners * [float(factor) for factor in scale.split()])
    from mygym.engines.bullet.client import bullet, temporary_client, urdf_file

    mesh = ET.tostring(ET.Element("mesh", filename=filename, scale=scale), encoding="unicode")
    with temporary_client() as client:
        for caching in (0, 1):  # Bullet keeps OBJ files by their names; without the switch it reads no new content
            bullet.setPhysicsEngineParameter(enableFileCaching=caching, physicsClientId=client)
        try:
            body = bullet.loadURDF(urdf_file("mesh", _ONE_LINK.format(geometry=mesh)), physicsClientId=client)
            count, points = bullet.getMeshData(body, -1, physicsClientId=client)
        except bullet.error as error:
            raise AssetError(f"{filename}: Bullet cannot read this mesh: {error}") from error
    if count < 3:
        raise AssetError(f"{filename}: this mesh has no surface")
    return np.array(points, dtype=float)


def enclosing(points: FloatArray) -> Primitive:
    """Return the smallest box, cylinder, capsule or sphere around points `(n, 3)` m.

    Its axes are the axes of the points' frame, or the principal components of the points.
    """
    principal = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2].T
    if np.linalg.det(principal) < 0:
        principal[:, 2] *= -1
    candidates = [shape for axes in (np.eye(3), principal) for shape in _candidates(points @ axes, axes)]
    return min(candidates, key=lambda shape: shape.volume)


def _candidates(points: FloatArray, axes: FloatArray) -> list[Primitive]:
    """Return the enclosing primitives of points given in the coordinates of `axes` `(3, 3)` (columns)."""
    low, high = points.min(axis=0), points.max(axis=0)
    centre, edges = (low + high) / 2, np.maximum(high - low, MIN_SIZE)
    radius = max(float(np.linalg.norm(points - centre, axis=1).max()), MIN_SIZE)
    pose = pose_matrix(axes @ centre, axes)
    candidates = [
        Primitive("box", {"size": text_of(edges)}, pose, float(np.prod(edges))),
        Primitive("sphere", {"radius": repr(radius)}, pose, 4 / 3 * np.pi * radius**3),
    ]
    for x, y, z in ((0, 1, 2), (0, 2, 1), (1, 2, 0)):  # z is the axis of the round shape
        permuted = np.eye(3)[:, [x, y, z]]
        if np.linalg.det(permuted) < 0:
            permuted[:, 0] *= -1
        pose = pose_matrix(axes @ centre, axes @ permuted)
        axial = points[:, z] - centre[z]
        radial = np.hypot(points[:, x] - centre[x], points[:, y] - centre[y])
        radius = max(float(radial.max()), MIN_SIZE)
        sizes = {"radius": repr(radius), "length": repr(float(edges[z]))}
        candidates.append(Primitive("cylinder", sizes, pose, float(np.pi * radius**2 * edges[z])))
        half = max(float((np.abs(axial) - np.sqrt(np.maximum(radius**2 - radial**2, 0.0))).max()), MIN_SIZE / 2)
        volume = np.pi * radius**2 * (2 * half + 4 / 3 * radius)
        candidates.append(Primitive("capsule", sizes | {"length": repr(2 * half)}, pose, float(volume)))
    return candidates
