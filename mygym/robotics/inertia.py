"""Volume, mass, centre of mass and inertia of geoms, and rigid bodies in their principal axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mygym.errors import AssetError, bad_value
from mygym.robotics.assets import Quaternion
from mygym.robotics.mesh_files import read_hulls
from mygym.robotics.meshes import hull, volume_properties
from mygym.robotics.shapes import DRAWN_CORNERS, GeomSpec, Piece, mesh_of, pieces, pose_of, transformed
from mygym.robotics.transforms import as_quaternion, as_vector, inertia_beside, pose_matrix
from mygym.types import FloatArray, Vector


@dataclass(frozen=True, eq=False)
class Inertial:
    """Mass in kg, centre of mass `(3,)` in m and inertia `(3, 3)` about it in kg m², in the body's frame."""

    mass: float
    centre: FloatArray
    inertia: FloatArray


def volume(geoms: Sequence[GeomSpec]) -> float:
    """Return the sum of the volumes of the geoms that collide, m³."""
    return sum(_uniform_solid(geom)[0] for geom in geoms if geom.collides)


def mass_properties(geoms: Sequence[GeomSpec], mass: float | None, key: str = "mass") -> Inertial:
    """Return mass, centre of mass and inertia of a body of geoms, each of uniform density.

    Overlaps count twice; geoms that do not collide have no mass.

    Args:
        geoms: Geoms of the body.
        mass: kg, of the whole body; None if every geom has its mass.
        key: Key of the mass, for the message.

    Raises:
        AssetError: A mass is missing, or the masses of the geoms and of the body contradict each other.
    """
    solid = [geom for geom in geoms if geom.collides]
    properties = [_uniform_solid(geom) for geom in solid]
    given = sum(geom.mass or 0.0 for geom in solid)
    unweighed = sum(size for geom, (size, *_) in zip(solid, properties, strict=True) if geom.mass is None)
    if mass is None and unweighed > 0:
        raise AssetError(bad_value(key, None, "kg, or a mass for every shape that collides", "is missing"))
    left = 0.0 if mass is None else mass - given
    if mass is not None and (left <= 0 if unweighed > 0 else abs(left) > 1e-9):
        allowed = "more than the sum of its geoms" if unweighed > 0 else "the sum of its geoms, or none"
        raise AssetError(bad_value(key, mass, f"{allowed} ({given:g} kg)"))
    total = given + left if unweighed > 0 else given
    centre, inertia = np.zeros(3), np.zeros((3, 3))
    weighed = []
    for geom, (size, middle, moments) in zip(solid, properties, strict=True):
        geom_mass = geom.mass if geom.mass is not None else left * size / unweighed
        pose = pose_of(geom)
        position = pose[:3, :3] @ middle + pose[:3, 3]
        weighed.append((geom_mass, position, pose[:3, :3] @ moments @ pose[:3, :3].T * geom_mass / size))
        centre += geom_mass / total * position
    for geom_mass, position, moments in weighed:
        inertia += inertia_beside(moments, geom_mass, position - centre)
    return Inertial(total, centre, inertia)


@lru_cache(maxsize=1024)
def _uniform_solid(geom: GeomSpec) -> tuple[float, FloatArray, FloatArray]:
    """Return volume in m³, centroid in m and inertia about it for 1 kg/m³, in the geom's frame."""
    size = geom.size
    if geom.shape == "box":
        x, y, z = (edge * edge for edge in size)
        content = math.prod(size)
        return content, np.zeros(3), np.diag([y + z, x + z, x + y]) * content / 12
    if geom.shape == "sphere":
        inner = size[0] - size[1] if len(size) == 2 else 0.0
        content, moment = (4 / 3 * math.pi * (size[0] ** n - inner**n) for n in (3, 5))
        return content, np.zeros(3), np.eye(3) * 0.4 * moment
    if geom.shape in ("cylinder", "capsule"):
        radius, height = size
        rod = math.pi * radius**2 * height
        along, across = rod * radius**2 / 2, rod * (3 * radius**2 + height**2) / 12
        if geom.shape == "cylinder":
            return rod, np.zeros(3), np.diag([across, across, along])
        ball = 4 / 3 * math.pi * radius**3
        along += 0.4 * ball * radius**2
        # Two half balls, with centroids at 3/8 of the radius beyond the ends of the rod.
        across += ball * (0.4 * radius**2 + height**2 / 4 + 3 / 8 * height * radius)
        return rod + ball, np.zeros(3), np.diag([across, across, along])
    if geom.shape == "mesh":
        hulls = [volume_properties(hull(points * geom.scale)) for points in read_hulls(geom.file)]
        content = sum(hull_volume for hull_volume, _, _ in hulls)
        centre = sum((hull_volume * middle for hull_volume, middle, _ in hulls), np.zeros(3)) / content
        inertia = np.zeros((3, 3))
        for hull_volume, middle, moments in hulls:
            inertia += inertia_beside(moments, hull_volume, middle - centre)
        return content, centre, inertia
    return volume_properties(mesh_of(geom, DRAWN_CORNERS * 4))


ALIGNED = 1e-3
"""Products of inertia below this share of the largest entry are ignored: the axes are then the model's."""


@dataclass(frozen=True, eq=False)
class RigidBody:
    """Collision pieces and inertia of a body, in the frame of its centre of mass and principal axes."""

    mass: float
    """kg."""
    moments: Vector
    """kg m²: principal moments of inertia."""
    principal: Quaternion
    """Orientation of the principal axes in the model's frame."""
    aligned: bool
    """Whether the principal axes are the model's axes."""
    pieces: tuple[Piece, ...]
    plain: bool
    """Whether Bullet computes the same inertia: true for a single solid box, ball or cylinder."""


def rigid_body(geoms: tuple[GeomSpec, ...], inertial: Inertial) -> RigidBody:
    """Return the body of geoms with a given mass, centre of mass and inertia."""
    inertia = inertial.inertia
    products = inertia - np.diag(np.diag(inertia))
    aligned = bool(np.abs(products).max() <= ALIGNED * np.abs(inertia).max())
    moments, axes = (np.diag(inertia), np.eye(3)) if aligned else np.linalg.eigh(inertia)
    if np.linalg.det(axes) < 0:
        axes[:, 0] = -axes[:, 0]
    to_body = np.linalg.inv(pose_matrix(inertial.centre, axes)).astype(np.float64)
    principal = (0.0, 0.0, 0.0, 1.0) if aligned else as_quaternion(axes)
    body_pieces = tuple(transformed(piece, to_body) for piece in pieces(geoms))
    plain = len(body_pieces) == 1 and _has_inertia(body_pieces[0], inertial.mass, moments)
    return RigidBody(inertial.mass, as_vector(moments), principal, aligned, body_pieces, plain)


def _has_inertia(piece: Piece, mass: float, moments: FloatArray) -> bool:
    """Return whether a solid body of one primitive piece has these principal moments `(3,)`."""
    if piece.shape not in ("box", "sphere", "cylinder"):
        return False
    primitive = mass_properties([GeomSpec(piece.shape, piece.size)], mass)
    centred = np.allclose(piece.position, 0.0, atol=1e-9) and abs(piece.orientation[3]) > 1 - 1e-12
    return bool(centred and np.allclose(np.diag(primitive.inertia), moments, rtol=1e-6))
