"""Rigid bodies as Bullet simulates them: in the frame of their centre of mass and principal axes of inertia."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mygym.models.assets import Quaternion
from mygym.models.collision_pieces import Piece, pieces, transformed
from mygym.models.inertia import Inertial, mass_properties
from mygym.models.shapes import GeomSpec
from mygym.models.transforms import matrix_to_quaternion, pose_matrix
from mygym.types import FloatArray, Vector

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
    qx, qy, qz, qw = (0.0, 0.0, 0.0, 1.0) if aligned else matrix_to_quaternion(axes).tolist()
    a, b, c = moments.tolist()
    body_pieces = tuple(transformed(piece, to_body) for piece in pieces(geoms))
    plain = len(body_pieces) == 1 and _has_inertia(body_pieces[0], inertial.mass, moments)
    return RigidBody(inertial.mass, (a, b, c), (qx, qy, qz, qw), aligned, body_pieces, plain)


def _has_inertia(piece: Piece, mass: float, moments: FloatArray) -> bool:
    """Return whether a solid body of one primitive piece has these principal moments `(3,)`."""
    if piece.shape not in ("box", "sphere", "cylinder"):
        return False
    primitive = mass_properties([GeomSpec(piece.shape, piece.size)], mass)
    centred = np.allclose(piece.position, 0.0, atol=1e-9) and abs(piece.orientation[3]) > 1 - 1e-12
    return bool(centred and np.allclose(np.diag(primitive.inertia), moments, rtol=1e-6))
