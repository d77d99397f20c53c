"""Mesh files that Bullet reads: others are converted, and meshes of very many triangles are simplified."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mygym.errors import AssetError, bad_value
from mygym.models.file_cache import cached_by_file
from mygym.models.mesh_triangles import BULLET_FORMATS, FORMATS, is_binary_stl, mesh_color, read_triangles
from mygym.models.meshes import Mesh
from mygym.models.stl import binary_stl
from mygym.models.temporary_files import temporary_file

MAX_TRIANGLES = 200_000
"""A mesh of more triangles is simplified: Bullet reads a million in 10 s, and renders each of them in every picture."""

CELLS = 64
"""Cells along the longest edge of a mesh whose corners are merged when it is simplified."""

MAX_BYTES = 500_000_000
"""Maximum size of a mesh file."""


@dataclass(frozen=True)
class ReadableMesh:
    """A mesh file that Bullet reads."""

    file: Path
    is_simplified: bool = False
    """Whether it has fewer triangles than the original."""
    color: str = ""
    """`rgba` of the original's main colour, if only the original has it."""


def readable_mesh(path: Path) -> ReadableMesh:
    """Return a mesh file that Bullet reads: the file itself, or a temporary file with its triangles.

    Raises:
        AssetError: The file cannot be read or has no triangles.
        RegistryError: Its format needs the package `trimesh`, which is not installed.
    """
    if (size := path.stat().st_size) > MAX_BYTES:
        raise AssetError(bad_value("mesh", str(path), f"at most {MAX_BYTES:,} bytes", f"has {size:,} bytes"))
    return _readable(path, os.getpid())


@cached_by_file(4096)
def _readable(path: Path, process: int) -> ReadableMesh:
    count = _triangles_for_bullet(path)
    if 0 < count <= MAX_TRIANGLES:
        return ReadableMesh(path)
    mesh = read_triangles(path)
    is_large = len(mesh.faces) > MAX_TRIANGLES
    mesh = simplified(mesh) if is_large else mesh
    color = mesh_color(path) if path.suffix.lower() not in BULLET_FORMATS else ""
    file = temporary_file(f"{path.stem}.stl", binary_stl(mesh.vertices[mesh.faces]))
    return ReadableMesh(Path(file), is_large, color)


def _triangles_for_bullet(path: Path) -> int:
    """Return about how many triangles a file has, without parsing it; 0 if Bullet does not read the file."""
    suffix = path.suffix.lower()
    if suffix not in BULLET_FORMATS:
        return 0
    try:
        content = path.read_bytes()
    except OSError as error:
        raise AssetError(bad_value("mesh", str(path), FORMATS, f"cannot be read ({error})")) from error
    if suffix == ".stl":
        return int(np.frombuffer(content[80:84], dtype="<u4")[0]) if is_binary_stl(content) else 0
    if suffix == ".obj":
        return content.count(b"\nf ") + content.startswith(b"f ")
    # Each corner of a Collada file has two numbers or more.
    if not any(tag in content for tag in (b"<triangles", b"<polylist", b"<polygons")):
        return 0
    blocks = [block.partition(b"</p>")[0].count(b" ") for block in content.split(b"<p>")[1:]]
    return sum(blocks) // 6 + 1 if blocks and b"</COLLADA>" in content[-100:] else 0


def simplified(mesh: Mesh, cells: int = CELLS) -> Mesh:
    """Return a mesh whose corners in the same cell of a grid are one corner, without the triangles that collapse."""
    low = mesh.vertices.min(axis=0)
    edge = max(float(np.ptp(mesh.vertices, axis=0).max()), 1e-9) / cells
    grid = ((mesh.vertices - low) / edge).astype(np.int64)
    _, first, cell = np.unique(grid @ [1, 2 * cells, 4 * cells * cells], return_index=True, return_inverse=True)
    faces = cell.ravel()[mesh.faces]
    a, b, c = faces.T
    faces = faces[(a != b) & (b != c) & (c != a)]
    key = np.sort(faces, axis=1) @ [len(first) ** 2, len(first), 1]
    _, once = np.unique(key, return_index=True)
    return Mesh(mesh.vertices[first], faces[np.sort(once)])
