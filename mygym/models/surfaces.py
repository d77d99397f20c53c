"""Triangle meshes of geoms, for pictures and for volumes."""

from __future__ import annotations

import math

import numpy as np

from mygym.models.meshes import Mesh, hull, loft, outline, ring_at
from mygym.models.shapes import GeomSpec

DRAWN_CORNERS = 36
"""Corners of a round outline in a picture."""


def mesh_of(geom: GeomSpec, count: int) -> Mesh:
    """Return the surface of a shape other than a box or a mesh; a round outline has `count` corners."""
    if geom.shape == "hull":
        return hull(geom.points)
    if geom.shape == "torus":
        ring, section = geom.size
        angles = 2 * np.pi * np.arange(count // 2) / (count // 2)
        heights = section * np.sin(angles)
        radii = ring + section * np.cos(angles)
        rings = [ring_at(outline(radius, 0, count), z) for radius, z in zip(radii, heights, strict=True)]
        return loft(rings, closed=True)
    if geom.shape == "prism":
        radius, height = geom.size
        sides = geom.sides or 6
        return loft([ring_at(outline(radius, sides, sides), z) for z in (-height / 2, height / 2)])
    if geom.shape in ("sphere", "capsule"):
        radius, straight = geom.size[0], geom.size[1] / 2 if geom.shape == "capsule" else 0.0
        angles = np.linspace(
            -np.pi / 2, np.pi / 2, count // 2 // 2 * 2
        )  # an even number: half of the rings on each end
        radii, heights = radius * np.cos(angles), radius * np.sin(angles) + straight * np.sign(angles)
        return loft([ring_at(outline(r, 0, count), z) for r, z in zip(radii, heights, strict=True)])
    if geom.shape in ("cone", "cylinder"):
        bottom, top, height = geom.size if geom.shape == "cone" else (geom.size[0], *geom.size)
        return loft([ring_at(outline(bottom, 0, count), -height / 2), ring_at(outline(top, 0, count), height / 2)])
    bottom, top, wall, height = geom.size
    sides = geom.sides or 0
    count = sides * math.ceil(count / sides) if sides else count
    low, high = -height / 2, height / 2
    outside = [ring_at(outline(bottom, sides, count), low), ring_at(outline(top, sides, count), high)]
    inside = [ring_at(outline(top - wall, 0, count), high), ring_at(outline(bottom - wall, 0, count), low)]
    return loft([*outside, *inside], closed=True)
