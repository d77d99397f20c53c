"""Mesh files: found by name, read (OBJ, STL, Collada and others), and written in a form that Bullet reads."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from mygym.errors import AssetError, MygymError, bad_value, error_text
from mygym.registry import resolve
from mygym.robotics.files import cached_by_file, temporary_file
from mygym.robotics.meshes import Mesh, few_points
from mygym.robotics.transforms import axis_angle_to_matrix
from mygym.types import FloatArray

_INDICES = re.compile(rb"/\S*")
"""Indices of texture and normal of a corner in an OBJ file."""

BULLET_FORMATS = (".obj", ".stl", ".dae")
"""Suffixes of the files that Bullet reads."""

FORMATS = "an OBJ, STL, DAE, GLB, GLTF or PLY file"


def read_triangles(path: Path) -> Mesh:
    """Return the triangles of a mesh file, in its units times its unit's length in m.

    Raises:
        AssetError: The file is missing, invalid, or has no triangles.
        RegistryError: The format needs the package `trimesh`, which is not installed.
    """
    readers = {".obj": _obj, ".stl": _stl, ".dae": _collada}
    try:
        if not path.is_file():  # reading a pipe would block
            raise OSError("it is not a regular file")
        mesh = readers.get(path.suffix.lower(), _other)(path)
        if len(mesh.faces) == 0:
            raise ValueError("no triangles")
        if not np.isfinite(mesh.vertices[mesh.faces]).all():
            raise ValueError("a corner that is not finite")
    except MygymError:
        raise
    except Exception as error:
        raise AssetError(bad_value("mesh", str(path), FORMATS, f"cannot be read ({error_text(error)})")) from error
    return mesh


def _obj(path: Path) -> Mesh:
    lines = [line.strip() for line in path.read_bytes().splitlines()]
    points = [line.split(None, 4)[1:4] for line in lines if line.startswith((b"v ", b"v\t"))]
    vertices = np.fromstring(b" ".join(map(b" ".join, points)), sep=" ")
    if len(vertices) != 3 * len(points):
        raise ValueError("a vertex without three numbers")
    polygons = [_INDICES.sub(b"", line[1:]) for line in lines if line.startswith((b"f ", b"f\t"))]
    numbers = np.fromstring(b" ".join(polygons), sep=" ", dtype=np.int64)
    if len(numbers) != 3 * len(polygons):  # polygons of more corners become fans
        corners = [[int(word) for word in polygon.split()] for polygon in polygons]
        fans = [(face[0], face[k], face[k + 1]) for face in corners for k in range(1, len(face) - 1)]
        numbers = np.array(fans, dtype=np.int64)
    at = numbers.reshape(-1, 3)
    return Mesh(vertices.reshape(-1, 3), np.where(at > 0, at - 1, at + len(points)))


def is_binary_stl(content: bytes) -> bool:
    """Return whether the content of an STL file is binary."""
    return len(content) >= 84 and len(content) == 84 + 50 * int(np.frombuffer(content[80:84], dtype="<u4")[0])


def _stl(path: Path) -> Mesh:
    content = path.read_bytes()
    count = int(np.frombuffer(content[80:84], dtype="<u4")[0]) if len(content) >= 84 else 0
    # A binary file may have more bytes than its triangles take; only exact files are left to Bullet.
    has_more = not content.startswith(b"solid") and 84 + 50 * count <= len(content)
    if is_binary_stl(content) or has_more:
        rows = np.frombuffer(content[84 : 84 + 50 * count], dtype=TRIANGLE)
        corners = rows["corners"].reshape(-1, 3).astype(float)
    else:
        lines = (line.split() for line in content.decode("latin-1").splitlines())
        corners = np.array([[float(word) for word in words[1:4]] for words in lines if words[:1] == ["vertex"]])
        corners = corners.reshape(-1, 3)
    return Mesh(corners, np.arange(len(corners) // 3 * 3).reshape(-1, 3))


def _collada(path: Path) -> Mesh:
    """Return the triangles of a Collada file as Bullet places them: with its unit, without its up axis."""
    root = ET.fromstring(path.read_bytes())  # noqa: S314  robot files that a user names are trusted
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    unit = root.find("asset/unit")
    scale = 1.0 if unit is None else float(unit.get("meter", "1"))
    shapes = {f"#{shape.get('id')}": _collada_shape(shape) for shape in root.iter("geometry")}
    placed: list[Mesh] = []

    def place(node: ET.Element, pose: FloatArray) -> None:
        for child in node:
            if child.tag in ("matrix", "translate", "rotate", "scale"):
                pose = pose @ _collada_transform(child.tag, np.array((child.text or "").split(), dtype=float))
        for instance in node.findall("instance_geometry"):
            mesh = shapes[instance.get("url", "")]
            placed.append(Mesh(mesh.vertices @ pose[:3, :3].T + pose[:3, 3], mesh.faces))
        for child in node.findall("node"):
            place(child, pose)

    for scene in root.iter("visual_scene"):
        place(scene, np.eye(4))
    meshes = placed or list(shapes.values())
    starts = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
    faces = [mesh.faces + start for mesh, start in zip(meshes, starts, strict=False)]
    return Mesh(np.concatenate([mesh.vertices for mesh in meshes]) * scale, np.concatenate(faces))


def _collada_shape(geometry: ET.Element) -> Mesh:
    sources = {f"#{source.get('id')}": source.find("float_array") for source in geometry.iter("source")}
    corners: list[FloatArray] = [np.zeros((0, 3))]
    for kind in ("triangles", "polylist", "polygons"):
        for element in geometry.iter(kind):
            inputs = element.findall("input")
            stride = 1 + max(int(entry.get("offset", "0")) for entry in inputs)
            vertex = next(entry for entry in inputs if entry.get("semantic") == "VERTEX")
            vertices = f"mesh/vertices[@id='{vertex.get('source', '')[1:]}']"
            positions = geometry.find(f"{vertices}/input[@semantic='POSITION']")
            array = sources[positions.get("source", "")] if positions is not None else None
            points = np.array((array.text or "").split() if array is not None else [], dtype=float).reshape(-1, 3)
            for block in element.findall("p"):
                at = np.array((block.text or "").split(), dtype=np.int64).reshape(-1, stride)
                at = at[:, int(vertex.get("offset", "0"))]
                corners.append(points[_fans(at, element, kind)])
    merged = np.concatenate(corners)
    return Mesh(merged, np.arange(len(merged)).reshape(-1, 3))


def _fans(at: NDArray[np.int64], element: ET.Element, kind: str) -> NDArray[np.int64]:
    """Return the indices of the corners of triangles; polygons become fans."""
    if kind == "triangles":
        return at
    counts = np.array((element.findtext("vcount") or "").split(), dtype=np.int64)
    if kind == "polygons":
        counts = np.array([len(at)])
    if (counts == 3).all():
        return at
    starts = np.cumsum([0, *counts[:-1]])
    fans = [
        at[start + np.array([[0, k, k + 1] for k in range(1, count - 1)], dtype=np.int64).reshape(-1)]
        for start, count in zip(starts, counts, strict=True)
    ]
    return np.concatenate([at[:0], *fans])


def _collada_transform(kind: str, values: FloatArray) -> FloatArray:
    """Return the `(4, 4)` matrix of an element of a Collada node."""
    if kind == "matrix":
        return values.reshape(4, 4)
    result = np.eye(4)
    if kind == "translate":
        result[:3, 3] = values
    elif kind == "scale":
        result[:3, :3] = np.diag(values)
    else:
        result[:3, :3] = axis_angle_to_matrix(values[:3], np.radians(values[3]))
    return result


def mesh_color(path: Path) -> str:
    """Return the main colour of a mesh file that Bullet does not read, as `rgba` of a URDF; empty if it has none."""
    visual = _loaded(path).visual
    paint = getattr(visual, "material", visual if visual.defined else None)
    return " ".join(f"{value / 255:.3f}" for value in getattr(paint, "main_color", ()))


@cached_by_file(1)
def _loaded(path: Path) -> Any:
    return resolve("trimesh:load_mesh", f"the mesh {path}")(str(path), process=False)


def _other(path: Path) -> Mesh:
    mesh = _loaded(path)
    return Mesh(np.asarray(mesh.vertices, dtype=float), np.asarray(mesh.faces, dtype=np.int64))


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
    if file.suffix.lower() not in BULLET_FORMATS:
        raise AssetError(bad_value("mesh", path, "an OBJ, STL or DAE file", "cannot be read"))
    try:
        if not file.is_file() and file.exists():  # reading a pipe would block
            raise OSError("it is not a regular file")
        if file.suffix.lower() == ".obj":
            groups = _obj_groups(file)
        else:
            mesh = read_triangles(file)
            groups = [np.unique(mesh.vertices[mesh.faces].reshape(-1, 3), axis=0)]
    except (OSError, ValueError, IndexError) as error:
        why = f"cannot be read ({type(error).__name__}: {error})"
        raise AssetError(bad_value("mesh", path, "an OBJ, STL or DAE file", why)) from error
    if not groups:
        raise AssetError(bad_value("mesh", path, "a mesh with faces", "is empty"))
    if len(groups) > MAX_HULLS:
        groups = [np.concatenate(groups)]
    hulls, allowed = [], ""
    for group in groups:
        try:
            hulls.append(few_points(group))
        except ValueError as error:
            allowed = str(error)
    if not hulls:
        raise AssetError(bad_value("mesh", path, allowed, "has no volume"))
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


MESH_PATH = "MYGYM_MESH_PATH"
"""Environment variable: folders in which meshes are looked for, with their subfolders."""

PACKAGE_PATHS = ("ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH", "GAZEBO_MODEL_PATH", "GZ_SIM_RESOURCE_PATH")
"""Environment variables of ROS and Gazebo with folders of packages, or with packages."""

FOLDERS_ABOVE = 4
"""Folders above a description in which a mesh is looked for with a part of its path."""


def find_mesh(description: Path, name: str) -> Path | None:
    """Return the file of a mesh in a robot's file, or None; `name` is a path, or `package://`, `model://` or `file://`.

    It is looked for in the folders above the description; in the packages of ROS and Gazebo; with the last parts of
    its path (the package's folder has another name, or the path is of another computer); and below `MYGYM_MESH_PATH`.
    """
    for spelling in dict.fromkeys((name, unquote(name))):
        for path in _candidates(description, spelling):
            if path.is_file():
                return path
    return None


def package_folder(description: Path, package: str) -> Path | None:
    """Return the folder of a ROS package: a folder above the description, or beside one; or in the paths of ROS."""
    for folder in (*description.absolute().parents, *_package_folders()):
        if folder.is_dir() and package in (folder.name, _package_name(folder)):
            return folder
        if (folder / package).is_dir():
            return folder / package
    return None


def _candidates(description: Path, name: str) -> Iterator[Path]:
    scheme, separator, path = name.replace("\\", "/").rpartition("://")
    if not separator:
        scheme = ""
    if scheme == "file":
        path = "/" + path.removeprefix("localhost").lstrip("/")
    if path.startswith("/") and scheme in ("", "file"):
        yield Path(path)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts:
        return
    folders = description.absolute().parents
    if scheme in ("", "file"):
        yield folders[0] / path.lstrip("/")
    for folder in folders:
        yield folder.joinpath(*parts)
    if scheme in ("package", "model"):
        package = package_folder(description, parts[0])
        if package is not None:
            yield package.joinpath(*parts[1:])
        for folder in _package_folders():
            yield folder.joinpath(*parts)
    inside = [part for part in parts if part != ".."]
    for start in range(1, len(inside)):
        for folder in folders[: FOLDERS_ABOVE if start < len(inside) - 1 else 1]:
            yield folder.joinpath(*inside[start:])
    for folder in _folders(MESH_PATH):
        matches = sorted(folder.rglob(inside[-1]), key=lambda match: -_common_end(match.parts, inside))
        yield from matches[:1]


def _common_end(first: tuple[str, ...], second: list[str]) -> int:
    """Return the number of equal parts at the ends of two paths."""
    return next((k for k, (a, b) in enumerate(zip(first[::-1], second[::-1], strict=False)) if a != b), len(second))


def _folders(variable: str) -> list[Path]:
    return [Path(folder).expanduser() for folder in os.environ.get(variable, "").split(os.pathsep) if folder]


def _package_folders() -> Iterator[Path]:
    for variable in PACKAGE_PATHS:
        for folder in _folders(variable):
            yield from (folder, folder / "share")


def _package_name(folder: Path) -> str:
    """Return the name in a folder's `package.xml`; empty without one."""
    try:
        text = (folder / "package.xml").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.partition("<name>")[2].partition("</name>")[0].strip()


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


def simplified(mesh: Mesh) -> Mesh:
    """Return a mesh whose corners in the same cell of a grid are one corner, without the triangles that collapse."""
    low = mesh.vertices.min(axis=0)
    edge = max(float(np.ptp(mesh.vertices, axis=0).max()), 1e-9) / CELLS
    grid = ((mesh.vertices - low) / edge).astype(np.int64)
    _, first, cell = np.unique(grid @ [1, 2 * CELLS, 4 * CELLS * CELLS], return_index=True, return_inverse=True)
    faces = cell.ravel()[mesh.faces]
    a, b, c = faces.T
    faces = faces[(a != b) & (b != c) & (c != a)]
    key = np.sort(faces, axis=1) @ [len(first) ** 2, len(first), 1]
    _, once = np.unique(key, return_index=True)
    return Mesh(mesh.vertices[first], faces[np.sort(once)])
