"""Links of a URDF, made of shapes: what is seen of them, what collides, what they weigh."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from mygym.models.assets import Color, Vector
from mygym.models.inertia import Inertial
from mygym.models.meshes import obj_text
from mygym.models.shapes import DRAWN, PartSpec, Piece, mesh_of, moved, pieces, pose_of
from mygym.models.temporary_files import temporary_file
from mygym.models.transforms import matrix_to_rpy, pose_matrix, quaternion_to_matrix
from mygym.types import FloatArray


def link_element(
    name: str,
    parts: Sequence[PartSpec],
    color: Color | None = None,
    inertial: Inertial | None = None,
    collisions: bool = True,
    visuals: bool = True,
    origin: ArrayLike | None = None,
) -> ET.Element:
    """A URDF `<link>` of parts; meshes that it needs become temporary files.

    Args:
        name: Of the link.
        parts: What it is made of.
        color: Of parts that have none; without one those keep the mesh file's, or Bullet's.
        inertial: Its mass; a link without one is massless.
        collisions: Whether it has what collides.
        visuals: Whether it has what is seen.
        origin: `(4, 4)` pose of the parts' frame in the link's; the same frame without it.
    """
    frame = np.eye(4) if origin is None else np.asarray(origin, dtype=float)
    link = ET.Element("link", name=name)
    if inertial is not None:
        _add_inertial(link, inertial, frame)
    for part in parts if visuals else ():
        if part.visible:
            visual = ET.SubElement(link, "visual")
            _add_origin(visual, frame @ pose_of(part))
            _add_geometry(visual, part)
            tint = part.color or color
            if tint is not None:
                words = " ".join(f"{value:.6g}" for value in tint)
                ET.SubElement(ET.SubElement(visual, "material", name=f"color {words}"), "color", rgba=words)
    if collisions:
        add_collisions(link, [moved(piece, frame) for piece in pieces(tuple(parts))])
    return link


def add_collisions(link: ET.Element, of: Sequence[Piece]) -> None:
    """Add pieces in a URDF link's frame to it; hulls become temporary files."""
    for piece in of:
        collision = ET.SubElement(link, "collision")
        _add_origin(collision, pose_matrix(piece.position, quaternion_to_matrix(piece.orientation)))
        _add_piece(collision, piece)


def hull_file(points: tuple[Vector, ...]) -> str:
    """Path of an OBJ file from whose corners Bullet makes a hull; it reads it once per process."""
    corners = "".join(f"v {x:.7g} {y:.7g} {z:.7g}\n" for x, y, z in points)
    faces = "".join(f"f 1 {number} {number + 1}\n" for number in range(2, len(points)))
    return temporary_file("hull.obj", corners + faces)


def _add_geometry(element: ET.Element, part: PartSpec) -> None:
    geometry = ET.SubElement(element, "geometry")
    if part.shape == "box":
        _add_primitive(geometry, part.shape, part.size)
    elif part.shape == "mesh":
        ET.SubElement(geometry, "mesh", filename=part.file, scale=_words(part.scale))
    else:
        # Bullet draws round primitives with few corners.
        file = temporary_file(f"{part.shape}.obj", obj_text(mesh_of(part, DRAWN)))
        ET.SubElement(geometry, "mesh", filename=file)


def _add_piece(element: ET.Element, piece: Piece) -> None:
    geometry = ET.SubElement(element, "geometry")
    if piece.shape == "hull":
        ET.SubElement(geometry, "mesh", filename=hull_file(piece.points))
    else:
        _add_primitive(geometry, piece.shape, piece.size)


def _add_primitive(geometry: ET.Element, shape: str, size: tuple[float, ...]) -> None:
    if shape == "box":
        ET.SubElement(geometry, "box", size=_words(size))
    elif shape == "sphere":
        ET.SubElement(geometry, "sphere", radius=repr(size[0]))
    else:
        ET.SubElement(geometry, shape, radius=repr(size[0]), length=repr(size[1]))


def _add_inertial(link: ET.Element, inertial: Inertial, frame: FloatArray) -> None:
    element = ET.SubElement(link, "inertial")
    turned = frame[:3, :3] @ inertial.inertia @ frame[:3, :3].T
    _add_origin(element, pose_matrix(frame[:3, :3] @ inertial.centre + frame[:3, 3], np.eye(3)))
    ET.SubElement(element, "mass", value=repr(inertial.mass))
    names = {"ixx": (0, 0), "iyy": (1, 1), "izz": (2, 2), "ixy": (0, 1), "ixz": (0, 2), "iyz": (1, 2)}
    ET.SubElement(element, "inertia", {name: repr(float(turned[at])) for name, at in names.items()})


def _add_origin(element: ET.Element, pose: FloatArray) -> None:
    ET.SubElement(element, "origin", xyz=_words(pose[:3, 3]), rpy=_words(matrix_to_rpy(pose[:3, :3])))


def _words(values: ArrayLike) -> str:
    return " ".join(repr(float(value)) for value in np.asarray(values, dtype=float))
