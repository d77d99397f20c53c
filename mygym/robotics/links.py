"""URDF links made of geoms: visuals, collisions and inertia."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from mygym.robotics.assets import Color
from mygym.robotics.files import temporary_file
from mygym.robotics.inertia import Inertial
from mygym.robotics.meshes import obj_text
from mygym.robotics.shapes import DRAWN_CORNERS, GeomSpec, Piece, mesh_of, pieces, pose_of, transformed
from mygym.robotics.transforms import pose_matrix, quaternion_to_matrix
from mygym.robotics.urdf import INERTIA_ENTRIES, set_origin, text_of
from mygym.types import FloatArray, Vector


def link_element(
    name: str,
    geoms: Sequence[GeomSpec],
    color: Color | None = None,
    inertial: Inertial | None = None,
    collisions: bool = True,
    visuals: bool = True,
    origin: ArrayLike | None = None,
) -> ET.Element:
    """Return a URDF `<link>` of geoms; its meshes become temporary files.

    Args:
        name: Name of the link.
        geoms: Geoms of the link.
        color: Default colour of the geoms; without it, geoms keep the colour of the mesh file, or of Bullet.
        inertial: Mass and inertia; None for a massless link.
        collisions: Whether the link has collision shapes.
        visuals: Whether the link has visual shapes.
        origin: `(4, 4)` pose of the geoms' frame in the link's; None for the identity.
    """
    frame = np.eye(4) if origin is None else np.asarray(origin, dtype=float)
    link = ET.Element("link", name=name)
    if inertial is not None:
        _add_inertial(link, inertial, frame)
    for geom in geoms if visuals else ():
        if geom.visible:
            visual = ET.SubElement(link, "visual")
            set_origin(visual, frame @ pose_of(geom))
            _add_geometry(visual, geom)
            tint = geom.color or color
            if tint is not None:
                words = " ".join(f"{value:.6g}" for value in tint)
                ET.SubElement(ET.SubElement(visual, "material", name=f"color {words}"), "color", rgba=words)
    if collisions:
        add_collisions(link, [transformed(piece, frame) for piece in pieces(tuple(geoms))])
    return link


def add_collisions(link: ET.Element, shapes: Sequence[Piece]) -> None:
    """Add collision pieces, given in the link's frame, to a URDF link; hulls become temporary files."""
    for piece in shapes:
        collision = ET.SubElement(link, "collision")
        set_origin(collision, pose_matrix(piece.position, quaternion_to_matrix(piece.orientation)))
        _add_piece(collision, piece)


def hull_file(points: tuple[Vector, ...]) -> str:
    """Return the path of an OBJ file of a hull's corners; Bullet reads the file once per process."""
    corners = "".join(f"v {x:.7g} {y:.7g} {z:.7g}\n" for x, y, z in points)
    faces = "".join(f"f 1 {number} {number + 1}\n" for number in range(2, len(points)))
    return temporary_file("hull.obj", corners + faces)


def _add_geometry(element: ET.Element, geom: GeomSpec) -> None:
    geometry = ET.SubElement(element, "geometry")
    if geom.shape == "box":
        _add_primitive(geometry, geom.shape, geom.size)
    elif geom.shape == "mesh":
        ET.SubElement(geometry, "mesh", filename=geom.file, scale=text_of(geom.scale))
    else:
        # Bullet draws its round primitives with few corners.
        file = temporary_file(f"{geom.shape}.obj", obj_text(mesh_of(geom, DRAWN_CORNERS)))
        ET.SubElement(geometry, "mesh", filename=file)


def _add_piece(element: ET.Element, piece: Piece) -> None:
    geometry = ET.SubElement(element, "geometry")
    if piece.shape == "hull":
        ET.SubElement(geometry, "mesh", filename=hull_file(piece.points))
    else:
        _add_primitive(geometry, piece.shape, piece.size)


def _add_primitive(geometry: ET.Element, shape: str, size: tuple[float, ...]) -> None:
    if shape == "box":
        ET.SubElement(geometry, "box", size=text_of(size))
    elif shape == "sphere":
        ET.SubElement(geometry, "sphere", radius=repr(size[0]))
    else:
        ET.SubElement(geometry, shape, radius=repr(size[0]), length=repr(size[1]))


def _add_inertial(link: ET.Element, inertial: Inertial, frame: FloatArray) -> None:
    element = ET.SubElement(link, "inertial")
    rotated = frame[:3, :3] @ inertial.inertia @ frame[:3, :3].T
    set_origin(element, pose_matrix(frame[:3, :3] @ inertial.centre + frame[:3, 3], np.eye(3)))
    ET.SubElement(element, "mass", value=repr(inertial.mass))
    ET.SubElement(element, "inertia", {name: repr(float(rotated[at])) for name, at in INERTIA_ENTRIES.items()})
