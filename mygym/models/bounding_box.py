"""Axis-aligned bounding box of geoms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mygym.models.mesh_files import read_hulls
from mygym.models.shapes import GeomSpec, pose_of
from mygym.models.surfaces import mesh_of
from mygym.types import FloatArray

OUTLINE_CORNERS = 24
"""Smallest number of corners of an outline; bounds are exact, because only shapes with corners use it."""


def bounds(geoms: Sequence[GeomSpec]) -> tuple[FloatArray, FloatArray]:
    """Return the lowest and highest corner `(3,)` m of the box around geoms, in the frame of their body.

    Geoms that do not collide count only if no geom collides.
    """
    counted = [geom for geom in geoms if geom.collides] or list(geoms)
    lows, highs = zip(*(_bounds_of(geom) for geom in counted), strict=True)
    return np.min(lows, axis=0), np.max(highs, axis=0)


def _bounds_of(geom: GeomSpec) -> tuple[FloatArray, FloatArray]:
    """Return the exact bounds of one geom."""
    pose, size = pose_of(geom), geom.size
    rotation, position = pose[:3, :3], pose[:3, 3]
    axis = rotation[:, 2]
    across = np.sqrt(np.maximum(0.0, 1.0 - axis * axis))
    if geom.shape in ("hull", "mesh", "prism") or geom.sides:
        points = np.concatenate([p * geom.scale for p in read_hulls(geom.file)]) if geom.shape == "mesh" else None
        corners = (geom.points or mesh_of(geom, OUTLINE_CORNERS).vertices) if points is None else points
        vertices = np.asarray(corners) @ rotation.T + position
        return vertices.min(axis=0), vertices.max(axis=0)
    if geom.shape in ("cone", "tube"):
        bottom, top, height = size[0], size[1], size[-1]
        far = np.maximum(axis * height / 2 + top * across, -axis * height / 2 + bottom * across)
        near = np.maximum(-axis * height / 2 + top * across, axis * height / 2 + bottom * across)
        return position - near, position + far
    if geom.shape == "box":
        far = np.abs(rotation) @ np.array(size) / 2
    elif geom.shape == "sphere":
        far = np.full(3, size[0])
    elif geom.shape == "cylinder":
        far = np.abs(axis) * size[1] / 2 + size[0] * across
    elif geom.shape == "capsule":
        far = np.abs(axis) * size[1] / 2 + size[0]
    else:  # a torus
        far = size[0] * across + size[1]
    return position - far, position + far
