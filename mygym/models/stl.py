"""Mesh files as binary STL, the format that browsers draw."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mygym.errors import AssetError, bad_value
from mygym.types import FloatArray

TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def as_stl(file: Path) -> bytes:
    """Return the content of an STL file, or an OBJ file as binary STL with flat faces.

    Raises:
        AssetError: The file is missing, of another type, or invalid.
    """
    try:
        if file.suffix.lower() == ".stl":
            return file.read_bytes()
        if file.suffix.lower() == ".obj":
            return _binary(_triangles(file.read_text(encoding="utf-8", errors="replace")))
    except (OSError, ValueError, IndexError) as error:
        raise AssetError(bad_value("mesh", str(file), "an OBJ or STL file", f"cannot be read ({error})")) from error
    raise AssetError(bad_value("mesh", str(file), "an OBJ or STL file", "cannot be drawn in a browser"))


def read_triangles(file: Path) -> FloatArray:
    """Return the corners `(n, 3, 3)` of the triangles of an STL or OBJ file, in the file's unit.

    Raises:
        AssetError: The file is missing, of another type, or invalid.
    """
    content = as_stl(file)
    count = int(np.frombuffer(content[80:84], dtype="<u4")[0]) if len(content) >= 84 else -1
    if len(content) == 84 + TRIANGLE.itemsize * count:
        return np.frombuffer(content[84:], dtype=TRIANGLE)["corners"].astype(float)
    try:
        lines = (line.split() for line in content.decode("ascii", errors="replace").splitlines())
        corners = np.array([[float(word) for word in words[1:4]] for words in lines if words[:1] == ["vertex"]])
        return corners.reshape(-1, 3, 3)
    except ValueError as error:
        raise AssetError(bad_value("mesh", str(file), "an OBJ or STL file", f"cannot be read ({error})")) from error


def _triangles(text: str) -> FloatArray:
    """Return the corners `(n, 3, 3)` of the faces of an OBJ file; faces with more corners become fans."""
    vertices: list[list[float]] = []
    faces: list[tuple[int, int, int]] = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["v"]:
            vertices.append([float(word) for word in words[1:4]])
        elif words[:1] == ["f"]:
            numbers = [int(word.partition("/")[0]) for word in words[1:]]
            corners = [number - 1 if number > 0 else len(vertices) + number for number in numbers]
            faces += [(corners[0], corners[k], corners[k + 1]) for k in range(1, len(corners) - 1)]
    triangles: FloatArray = np.array(vertices, dtype=float)[np.array(faces, dtype=int).reshape(-1, 3)]
    return triangles


def _binary(corners: FloatArray) -> bytes:
    rows = np.zeros(len(corners), dtype=TRIANGLE)
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    rows["normal"] = normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    rows["corners"] = corners
    return bytes(80) + np.uint32(len(rows)).tobytes() + rows.tobytes()
