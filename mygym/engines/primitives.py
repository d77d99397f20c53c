"""Replacement of collision meshes by the smallest enclosing box, cylinder, capsule or sphere.

A reset loads the robot again: a mesh costs milliseconds, a primitive microseconds.
"""

from __future__ import annotations

import copy
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import numpy as np

from mygym.errors import AssetError
from mygym.registry.entries import HAS_BULLET
from mygym.robotics.files import cached_by_file
from mygym.robotics.mesh_files import read_triangles
from mygym.robotics.transforms import pose_matrix
from mygym.robotics.urdf import origin_of, set_origin, text_of
from mygym.types import FloatArray

MIN_SIZE = 0.001
"""m: no edge or radius is below this; Bullet's collision margins are of this size."""

_ONE_LINK = """<robot name="mesh"><link name="mesh">
<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><geometry>{geometry}</geometry></collision></link></robot>"""


@dataclass(frozen=True)
class Primitive:
    """A URDF geometry and its pose."""

    tag: str
    sizes: tuple[tuple[str, str], ...]
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
            for visual in link.findall("visual"):
                collision = copy.deepcopy(visual)
                collision.tag = "collision"
                link.append(collision)
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
    from mygym.engines.bullet.client import bullet, connect, disconnect, urdf_file

    mesh = ET.tostring(ET.Element("mesh", filename=filename, scale=scale), encoding="unicode")
    client = connect()
    for caching in (0, 1):  # Bullet keeps OBJ files by their names; without the switch it reads no new content
        bullet.setPhysicsEngineParameter(enableFileCaching=caching, physicsClientId=client)
    try:
        body = bullet.loadURDF(urdf_file("mesh", _ONE_LINK.format(geometry=mesh)), physicsClientId=client)
        count, points = bullet.getMeshData(body, -1, physicsClientId=client)
    except bullet.error as error:
        raise AssetError(f"{filename}: Bullet cannot read this mesh: {error}") from error
    finally:
        disconnect(client)
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
        Primitive("box", (("size", text_of(edges)),), pose, float(np.prod(edges))),
        Primitive("sphere", (("radius", repr(radius)),), pose, 4 / 3 * np.pi * radius**3),
    ]
    for x, y, z in permutations(range(3)):
        if x > y:  # once for each axis z
            continue
        permuted = np.eye(3)[:, [x, y, z]]
        if np.linalg.det(permuted) < 0:
            permuted[:, 0] *= -1
        pose = pose_matrix(axes @ centre, axes @ permuted)
        axial = points[:, z] - centre[z]
        radial = np.hypot(points[:, x] - centre[x], points[:, y] - centre[y])
        radius = max(float(radial.max()), MIN_SIZE)
        candidates.append(_round("cylinder", radius, float(edges[z]), pose, np.pi * radius**2 * edges[z]))
        half = max(float((np.abs(axial) - np.sqrt(np.maximum(radius**2 - radial**2, 0.0))).max()), MIN_SIZE / 2)
        volume = np.pi * radius**2 * (2 * half + 4 / 3 * radius)
        candidates.append(_round("capsule", radius, 2 * half, pose, volume))
    return candidates


def _round(tag: str, radius: float, length: float, pose: FloatArray, volume: float) -> Primitive:
    return Primitive(tag, (("radius", repr(radius)), ("length", repr(length))), pose, float(volume))
