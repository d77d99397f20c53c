"""Triangles of mesh files: OBJ, STL and Collada, and other formats by `trimesh`."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.errors import AssetError, MygymError, bad_value, error_text
from mygym.models.file_cache import cached_by_file
from mygym.models.meshes import Mesh
from mygym.models.transforms import axis_angle_to_matrix
from mygym.registry import resolve
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
        rows = np.frombuffer(
            content[84 : 84 + 50 * count], dtype=np.dtype([("floats", "<f4", 12), ("attribute", "<u2")])
        )
        corners = rows["floats"][:, 3:].reshape(-1, 3).astype(float)
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
