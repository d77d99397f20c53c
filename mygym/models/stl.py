"""Mesh files as binary STL, the format that browsers draw."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mygym.models.mesh_triangles import is_binary_stl, read_triangles
from mygym.types import FloatArray

TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def as_stl(file: Path) -> bytes:
    """Return the content of a binary STL file, or the triangles of another mesh file as binary STL with flat faces.

    Raises:
        AssetError: The file is missing, of an unknown type, or invalid.
        RegistryError: Its format needs the package `trimesh`, which is not installed.
    """
    if file.suffix.lower() == ".stl" and file.is_file() and is_binary_stl(content := file.read_bytes()):
        return content
    mesh = read_triangles(file)
    return binary_stl(mesh.vertices[mesh.faces])


def binary_stl(corners: FloatArray) -> bytes:
    """Return the corners `(n, 3, 3)` of triangles as the content of a binary STL file."""
    rows = np.zeros(len(corners), dtype=TRIANGLE)
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    rows["normal"] = normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    rows["corners"] = corners
    return bytes(80) + np.uint32(len(rows)).tobytes() + rows.tobytes()
