"""Triangle meshes as arrays: lofts and hulls, their volume and inertia, and the text of an OBJ file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mygym.types import FloatArray

MARGIN = 0.001
"""m: margin by which Bullet enlarges every hull."""

MAX_HULL_POINTS = 64
"""More points make contacts slower, not better."""

CREASE = np.cos(np.radians(40.0))
"""Cosine of the angle between two faces above which their edge is drawn sharp."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """A closed surface."""

    vertices: FloatArray
    """`(n, 3)` m."""
    faces: NDArray[np.int64]
    """`(m, 3)` indices of `vertices`, counterclockwise seen from outside."""


def outline(radius: float, sides: int, count: int) -> FloatArray:
    """Return `(count, 2)` points on a circle, or (with `sides`) on a regular polygon of that circumradius.

    Points are at equal angles; they include the polygon's corners if `count` is a multiple of `sides`.
    """
    angles = 2 * np.pi * np.arange(count) / count
    radii = np.full(count, radius)
    if sides:
        half = np.pi / sides
        radii = radius * np.cos(half) / np.cos((angles % (2 * half)) - half)
    return np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)


def ring_at(flat: FloatArray, z: float) -> FloatArray:
    """Return points `(n, 2)` as points `(n, 3)` of one height, m."""
    return np.column_stack([flat, np.full(len(flat), z)])


def loft(rings: ArrayLike, closed: bool = False) -> Mesh:
    """Return the surface through rings of points.

    Args:
        rings: `(k, n, 3)` m, from one end to the other.
        closed: Whether the last ring joins the first, as in a tube; otherwise both ends are closed by flat faces.
    """
    points = np.asarray(rings, dtype=float)
    k, n, _ = points.shape
    along = np.arange(k if closed else k - 1)[:, None]
    around = np.arange(n)[None, :]
    a, b = along * n + around, along * n + (around + 1) % n
    c, d = ((along + 1) % k) * n + around, ((along + 1) % k) * n + (around + 1) % n
    faces = [np.stack([a, b, d], -1).reshape(-1, 3), np.stack([a, d, c], -1).reshape(-1, 3)]
    if not closed:
        fan = np.arange(1, n - 1)
        faces.append(np.stack([0 * fan, fan + 1, fan], -1))
        faces.append((k - 1) * n + np.stack([0 * fan, fan, fan + 1], -1))
    vertices, triangles = points.reshape(-1, 3), np.concatenate(faces)
    is_outwards = np.linalg.det(vertices[triangles]).sum() >= 0
    return Mesh(vertices, triangles if is_outwards else triangles[:, ::-1])


def hull(points: ArrayLike) -> Mesh:
    """Return the convex hull of points `(n, 3)`; raise `ValueError` for fewer than four, or all in one plane."""
    from scipy.spatial import ConvexHull, QhullError

    cloud = np.asarray(points, dtype=float).reshape(-1, 3)
    try:
        convex = ConvexHull(cloud)
    except (QhullError, ValueError):
        raise ValueError("a hull needs four points or more that do not lie in one plane") from None
    vertices = cloud[convex.vertices]
    number = np.full(len(cloud), -1)
    number[convex.vertices] = np.arange(len(vertices))
    faces = number[convex.simplices]
    middle = vertices.mean(axis=0)
    a, b, c = (vertices[faces[:, corner]] for corner in range(3))
    inwards = np.einsum("ij,ij->i", np.cross(b - a, c - a), a - middle) < 0
    faces[inwards] = faces[inwards][:, ::-1]
    return Mesh(vertices, faces)


def few_points(points: ArrayLike) -> FloatArray:
    """Return at most `MAX_HULL_POINTS` hull corners of points `(n, 3)`: the farthest in evenly spread directions."""
    corners = hull(points).vertices
    if len(corners) <= MAX_HULL_POINTS:
        return corners
    index = np.arange(MAX_HULL_POINTS) + 0.5
    polar, azimuth = np.arccos(1 - 2 * index / MAX_HULL_POINTS), np.pi * (1 + 5**0.5) * index  # a Fibonacci lattice
    directions = np.stack([np.cos(azimuth) * np.sin(polar), np.sin(azimuth) * np.sin(polar), np.cos(polar)], axis=1)
    directions[:6] = np.concatenate([np.eye(3), -np.eye(3)])  # keeps the bounding box
    farthest: FloatArray = corners[np.unique((directions @ corners.T).argmax(axis=1))]
    return farthest


def shrunk(points: ArrayLike) -> FloatArray:
    """Return the corners of the hull of points `(n, 3)`, every face moved inwards by `MARGIN` or as far as possible."""
    from scipy.spatial import ConvexHull, HalfspaceIntersection

    cloud = np.asarray(points, dtype=float).reshape(-1, 3)
    planes = np.unique(ConvexHull(cloud).equations.round(9), axis=0)
    middle = cloud[ConvexHull(cloud).vertices].mean(axis=0)
    depth = -(planes[:, :3] @ middle + planes[:, 3])
    planes[:, 3] += min(MARGIN, 0.9 * float(depth.min()))
    corners = HalfspaceIntersection(planes, middle).intersections
    _, first = np.unique(corners.round(6), axis=0, return_index=True)
    return few_points(corners[np.sort(first)])


def volume_properties(mesh: Mesh) -> tuple[float, FloatArray, FloatArray]:
    """Return volume in m³, centroid `(3,)` in m and inertia `(3, 3)` about it for a density of 1 kg/m³, in kg m².

    Sums over the tetrahedra between the faces and the origin (Tonon, J. Math. Stat. 2004).
    """
    corners = mesh.vertices[mesh.faces]
    volumes = np.linalg.det(corners) / 6
    volume = float(volumes.sum())
    centre = np.einsum("i,ij->j", volumes, corners.sum(axis=1)) / 4 / volume
    total = corners.sum(axis=1)
    # The second moments ∫ x xᵀ of a tetrahedron with one corner at the origin.
    moments = np.einsum("i,ij,ik->jk", volumes, total, total)
    moments = (moments + np.einsum("i,icj,ick->jk", volumes, corners, corners)) / 20
    moments -= volume * np.outer(centre, centre)
    return volume, centre, np.trace(moments) * np.eye(3) - moments


def obj_text(mesh: Mesh) -> str:
    """Return the text of an OBJ file, with the normals and texture coordinates of `surface`."""
    faces, normals, flat = surface(mesh)
    lines = [f"v {x:.6g} {y:.6g} {z:.6g}" for x, y, z in mesh.vertices.tolist()]
    lines += [f"vn {x:.4f} {y:.4f} {z:.4f}" for x, y, z in normals.tolist()]
    lines += [f"vt {u:.4f} {v:.4f}" for u, v in flat.tolist()]
    rows = np.arange(1, len(normals) + 1).reshape(-1, 3)
    corner_rows = np.stack([faces + 1, rows, rows], axis=2).reshape(-1, 9).tolist()
    lines += ["f {}/{}/{} {}/{}/{} {}/{}/{}".format(*row) for row in corner_rows]
    return "\n".join([*lines, ""])


def surface(mesh: Mesh) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
    """Return the faces of a mesh that have an area, and normals and texture coordinates of their corners.

    Normals are smooth where faces meet at less than 40°, sharp elsewhere. Texture coordinates use the last quarter of
    a texture, as Bullet's boxes do, projected along each face's main axis.

    Returns:
        Faces `(m, 3)`, normals `(3m, 3)`, and coordinates `(3m, 2)` in [0, 1], from the left and from below.
    """
    corners = mesh.vertices[mesh.faces]
    crosses = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(crosses, axis=1)
    faces, crosses = mesh.faces[lengths > 1e-12], crosses[lengths > 1e-12]
    units = crosses / lengths[lengths > 1e-12, None]
    # Pairs of a face's corner and a face that shares its point, as two arrays.
    _, point = np.unique(mesh.vertices.round(7), axis=0, return_inverse=True)
    at = point.ravel()[faces].ravel()
    order = np.argsort(at, kind="stable")
    counts = np.bincount(at)
    first = np.concatenate([[0], np.cumsum(counts)])[at]
    corner = np.repeat(np.arange(len(at)), counts[at])
    within = np.arange(len(corner)) - np.repeat(np.cumsum(counts[at]) - counts[at], counts[at])
    neighbour = order[first[corner] + within] // 3
    smooth = (units[corner // 3] * units[neighbour]).sum(axis=1) > CREASE
    normals = np.zeros((len(at), 3))
    np.add.at(normals, corner[smooth], crosses[neighbour[smooth]])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    spread = (mesh.vertices[faces] - mesh.vertices.min(axis=0)) / np.ptp(mesh.vertices, axis=0).max()
    projected = np.array([(1, 2), (0, 2), (0, 1)])[np.abs(crosses).argmax(axis=1)]
    flat = np.take_along_axis(spread, projected[:, None, :], axis=2).reshape(-1, 2)
    return faces, normals, 0.75 + 0.249 * flat
