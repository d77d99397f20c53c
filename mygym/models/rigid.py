"""Rigid bodies as Bullet simulates them: about their centre of mass, along their principal axes of inertia."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mygym.models.assets import Quaternion, Vector
from mygym.models.inertia import Inertial, mass_properties
from mygym.models.shapes import PartSpec, Piece, moved, pieces
from mygym.models.transforms import matrix_to_quaternion, pose_matrix
from mygym.types import FloatArray

ALIGNED = 1e-3
"""Products of inertia below this part of the largest moment are left out: the axes are then the model's own."""


@dataclass(frozen=True, eq=False)
class RigidBody:
    """Where a body collides and how it moves, in the frame of its centre of mass and principal axes."""

    mass: float
    """kg."""
    moments: Vector
    """kg m²: principal moments of inertia."""
    principal: Quaternion
    """Orientation of the principal axes in the frame that the parts are modelled in."""
    aligned: bool
    """Whether these axes are the model's."""
    pieces: tuple[Piece, ...]
    plain: bool
    """Whether Bullet finds the same inertia by itself: of one solid box, ball or cylinder."""


def rigid_body(parts: tuple[PartSpec, ...], inertial: Inertial) -> RigidBody:
    """The body of parts with this mass, centre and inertia."""
    inertia = inertial.inertia
    products = inertia - np.diag(np.diag(inertia))
    aligned = bool(np.abs(products).max() <= ALIGNED * np.abs(inertia).max())
    moments, axes = (np.diag(inertia), np.eye(3)) if aligned else np.linalg.eigh(inertia)
    if np.linalg.det(axes) < 0:
        axes[:, 0] = -axes[:, 0]
    back = np.linalg.inv(pose_matrix(inertial.centre, axes)).astype(np.float64)
    qx, qy, qz, qw = (0.0, 0.0, 0.0, 1.0) if aligned else matrix_to_quaternion(axes).tolist()
    a, b, c = moments.tolist()
    there = tuple(moved(piece, back) for piece in pieces(parts))
    plain = len(there) == 1 and _has_inertia(there[0], inertial.mass, moments)
    return RigidBody(inertial.mass, (a, b, c), (qx, qy, qz, qw), aligned, there, plain)


def _has_inertia(piece: Piece, mass: float, moments: FloatArray) -> bool:
    """Whether a piece of a primitive shape, alone and solid, would have these moments."""
    if piece.shape not in ("box", "sphere", "cylinder"):
        return False
    alone = mass_properties([PartSpec(piece.shape, piece.size)], mass)
    middle = np.allclose(piece.position, 0.0, atol=1e-9) and abs(piece.orientation[3]) > 1 - 1e-12
    return bool(middle and np.allclose(np.diag(alone.inertia), moments, rtol=1e-6))
