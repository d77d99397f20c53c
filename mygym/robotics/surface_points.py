"""Points on the surfaces of a URDF's shapes, dense enough to measure gaps of millimetres between links."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from mygym.robotics.files import cached_by_file
from mygym.robotics.mesh_files import read_triangles
from mygym.robotics.meshes import hull
from mygym.robotics.urdf import origin_of
from mygym.types import FloatArray

SPACING = 0.003
"""m between neighbouring points."""

MAX_SUBDIVISIONS = 60
"""Largest number of parts of a triangle's edge."""

CORNERS = 32
"""Points around a cylinder or a sphere."""


def points_of_links(root: ET.Element, poses: Iterable[tuple[str, FloatArray]]) -> FloatArray:
    """Return points `(n, 3)` m on the collision shapes of links; on the visual shapes if no link has collision shapes.

    `poses` are links and their poses `(4, 4)` in the frame of the points.
    """
    return np.concatenate([np.zeros((0, 3)), *shapes_of_links(root, poses)])


def shapes_of_links(root: ET.Element, poses: Iterable[tuple[str, FloatArray]]) -> list[FloatArray]:
    """Return the points of `points_of_links`, an array `(n, 3)` m for each shape."""
    placed = [(root.find(f"link[@name='{link}']"), pose) for link, pose in poses]
    for kind in ("collision", "visual"):
        clouds = [
            points @ at[:3, :3].T + at[:3, 3]
            for link, pose in placed
            for element in ([] if link is None else link.findall(kind))
            for at in (pose @ origin_of(element),)
            for shape in element.findall("geometry/*")
            for points in (points_on(shape),)
        ]
        if clouds:
            return clouds
    return []


def points_on(shape: ET.Element) -> FloatArray:
    """Return points `(n, 3)` m on a shape of a `<geometry>`, in the shape's frame."""
    if shape.tag == "mesh":
        return _on_mesh(shape.get("filename", ""), shape.get("scale", "1 1 1"))
    radius, length = float(shape.get("radius", "0")), float(shape.get("length", "0"))
    if shape.tag == "box":
        edges = np.array([float(edge) for edge in shape.get("size", "0 0 0").split()])
        return _on_hull(np.array(np.meshgrid(*([-0.5, 0.5],) * 3)).reshape(3, -1).T * edges)
    angles = 2 * np.pi * np.arange(CORNERS) / CORNERS
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    if shape.tag == "cylinder":
        rings = [(radius, -length / 2), (radius, length / 2)]
    else:
        half = length / 2 if shape.tag == "capsule" else 0.0
        tilts = np.linspace(-np.pi / 2, np.pi / 2, CORNERS // 2)
        rings = [(radius * np.cos(t), radius * np.sin(t) + np.copysign(half, t)) for t in tilts]
    return _on_hull(np.concatenate([np.column_stack([r * circle, np.full(CORNERS, z)]) for r, z in rings]))


@cached_by_file()
def _on_mesh(filename: str, scale: str) -> FloatArray:
    mesh = read_triangles(Path(filename))
    return _sampled(mesh.vertices[mesh.faces] * [float(factor) for factor in scale.split()])


def _on_hull(corners: FloatArray) -> FloatArray:
    """Return points on the hull of corners `(n, 3)` m; the corners themselves if they lie in one plane."""
    try:
        mesh = hull(corners)
    except ValueError:
        return corners
    return _sampled(mesh.vertices[mesh.faces])


def _sampled(triangles: FloatArray) -> FloatArray:
    """Return points on triangles `(n, 3, 3)` m, the corners among them."""
    edges = np.linalg.norm(triangles - np.roll(triangles, 1, axis=1), axis=2).max(axis=1)
    parts = np.clip(np.ceil(edges / SPACING), 1, MAX_SUBDIVISIONS).astype(int)
    clouds = [np.zeros((0, 3))]
    for count in np.unique(parts):
        u, v = (grid.ravel() / count for grid in np.meshgrid(np.arange(count + 1), np.arange(count + 1)))
        weights = np.stack([u, v, 1 - u - v], axis=1)[u + v < 1 + 1e-9]
        clouds.append(np.einsum("wk,nkd->nwd", weights, triangles[parts == count]).reshape(-1, 3))
    points = np.concatenate(clouds)
    # One point of each cube of a third of the spacing: meshes have up to a million triangles.
    cells = np.round(points / (SPACING / 3)).astype(np.int64)
    keys = (cells[:, 0] * 2_097_143 + cells[:, 1]) * 2_097_143 + cells[:, 2]
    return points[np.unique(keys, return_index=True)[1]]
