"""Mesh files (OBJ, STL, Collada) as points of convex hulls."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from mygym.errors import AssetError, bad_value
from mygym.models.mesh_triangles import read_triangles
from mygym.models.meshes import few_points
from mygym.types import FloatArray

MAX_HULLS = 32
"""Groups of an OBJ file that become one hull each (a convex decomposition); more groups become a single hull."""


@lru_cache(maxsize=256)
def read_hulls(path: str) -> tuple[FloatArray, ...]:
    """Return the points `(n, 3)` of the hulls of a mesh file, each at most `MAX_HULL_POINTS`.

    Args:
        path: An OBJ file, whose groups become one hull each (a convex decomposition), or an STL or Collada file.

    Raises:
        AssetError: The file is missing, of another type, invalid, or flat.
    """
    file = Path(path)
    readers = {".obj": _obj_groups, ".stl": _one_group, ".dae": _one_group}
    if file.suffix.lower() not in readers:
        raise AssetError(bad_value("mesh", path, "an OBJ, STL or DAE file", "cannot be read"))
    try:
        if not file.is_file() and file.exists():  # reading a pipe would block
            raise OSError("it is not a regular file")
        groups = readers[file.suffix.lower()](file)
    except (OSError, ValueError, IndexError) as error:
        why = f"cannot be read ({type(error).__name__}: {error})"
        raise AssetError(bad_value("mesh", path, "an OBJ, STL or DAE file", why)) from error
    if not groups:
        raise AssetError(bad_value("mesh", path, "a mesh with faces", "is empty"))
    if len(groups) > MAX_HULLS:
        groups = [np.concatenate(groups)]
    hulls = []
    for group in groups:
        try:
            hulls.append(few_points(group))
        except ValueError as error:
            if len(groups) == 1:
                raise AssetError(bad_value("mesh", path, str(error), "has no volume")) from error
    if not hulls:
        raise AssetError(bad_value("mesh", path, "a mesh with a volume", "has no volume"))
    return tuple(hulls)


def _obj_groups(path: Path) -> list[FloatArray]:
    """Return the points of the faces of each object or group of an OBJ file."""
    vertices: list[Sequence[float]] = []
    groups: list[set[int]] = [set()]
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split()
        if not words:
            continue
        if words[0] == "v":
            vertices.append([float(word) for word in words[1:4]])
        elif words[0] in ("o", "g"):
            groups.append(set())
        elif words[0] == "f":
            numbers = [int(word.partition("/")[0]) for word in words[1:]]
            groups[-1].update(number - 1 if number > 0 else len(vertices) + number for number in numbers)
    points = np.array(vertices, dtype=float).reshape(-1, 3)
    return [points[sorted(group)] for group in groups if group]


def _one_group(path: Path) -> list[FloatArray]:
    """Return the points of an STL or Collada file, as one group."""
    mesh = read_triangles(path)
    return [np.unique(mesh.vertices[mesh.faces].reshape(-1, 3), axis=0)]
