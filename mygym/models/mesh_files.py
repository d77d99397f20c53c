"""Mesh files (OBJ, STL) as points of convex hulls."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from mygym.errors import AssetError, bad_value
from mygym.models.meshes import few_points
from mygym.types import FloatArray

MAX_HULLS = 32
"""Groups of an OBJ file that become one hull each (a convex decomposition); more groups become a single hull."""


@lru_cache(maxsize=256)
def read_hulls(path: str) -> tuple[FloatArray, ...]:
    """Return the points `(n, 3)` of the hulls of a mesh file, each at most `MAX_HULL_POINTS`.

    Args:
        path: An OBJ file, whose groups become one hull each (a convex decomposition), or an STL file.

    Raises:
        AssetError: The file is missing, of another type, invalid, or flat.
    """
    file = Path(path)
    readers = {".obj": _obj_groups, ".stl": _stl_groups}
    if file.suffix.lower() not in readers:
        raise AssetError(bad_value("mesh", path, "an OBJ or STL file", "cannot be read"))
    try:
        if not file.is_file() and file.exists():  # reading a pipe would block
            raise OSError("it is not a regular file")
        groups = readers[file.suffix.lower()](file)
    except (OSError, ValueError, IndexError) as error:
        why = f"cannot be read ({type(error).__name__}: {error})"
        raise AssetError(bad_value("mesh", path, "an OBJ or STL file", why)) from error
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


def _stl_groups(path: Path) -> list[FloatArray]:
    """Return the points of a binary or ASCII STL file, as one group."""
    content = path.read_bytes()
    count = int(np.frombuffer(content[80:84], dtype="<u4")[0]) if len(content) >= 84 else -1
    if len(content) == 84 + 50 * count:
        rows = np.frombuffer(content[84:], dtype=np.dtype([("floats", "<f4", 12), ("attribute", "<u2")]))
        points = rows["floats"][:, 3:].reshape(-1, 3).astype(float)
    else:
        lines = (line.split() for line in content.decode("ascii").splitlines())
        points = np.array([[float(word) for word in words[1:4]] for words in lines if words[:1] == ["vertex"]])
    if len(points) == 0:
        raise ValueError("no triangles")
    return [np.unique(points.reshape(-1, 3), axis=0)]
