"""URDF links: their visuals, collisions and inertia from geoms; masses and inertias that a file lacks, estimated."""

from __future__ import annotations

import copy
import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from mygym.errors import AssetError
from mygym.robotics.assets import Color
from mygym.robotics.files import temporary_file
from mygym.robotics.inertia import Inertial, mass_properties, volume
from mygym.robotics.meshes import obj_text
from mygym.robotics.objects import geom_of
from mygym.robotics.shapes import DRAWN_CORNERS, GeomSpec, Piece, mesh_of, pieces, pose_of, transformed
from mygym.robotics.transforms import pose_matrix, quaternion_to_matrix
from mygym.robotics.urdf import (
    INERTIA_ENTRIES,
    MOVING_JOINT_TYPES,
    inertial,
    merge_fixed_joints,
    number_in,
    read_joints,
    set_inertial,
    set_origin,
    text_of,
)
from mygym.types import Vector


def link_element(
    name: str,
    geoms: Sequence[GeomSpec],
    color: Color | None = None,
    inertial: Inertial | None = None,
    collisions: bool = True,
    visuals: bool = True,
    origin: ArrayLike | None = None,
) -> ET.Element:
    """Return a URDF `<link>` of geoms, whose frame has the pose `origin` `(4, 4)` in the link's.

    Meshes become temporary files. Without a default colour, geoms keep that of the mesh file, or of Bullet; without an
    inertial the link is massless.
    """
    frame = np.eye(4) if origin is None else np.asarray(origin, dtype=float)
    link = ET.Element("link", name=name)
    if inertial is not None:
        rotation = frame[:3, :3]
        centre, inertia = rotation @ inertial.centre + frame[:3, 3], rotation @ inertial.inertia @ rotation.T
        set_inertial(link, inertial.mass, centre, inertia)
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
        geometry = ET.SubElement(collision, "geometry")
        if piece.shape == "hull":
            ET.SubElement(geometry, "mesh", filename=hull_file(piece.points))
        else:
            _add_primitive(geometry, piece.shape, piece.size)


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


def _add_primitive(geometry: ET.Element, shape: str, size: tuple[float, ...]) -> None:
    if shape == "box":
        ET.SubElement(geometry, "box", size=text_of(size))
    elif shape == "sphere":
        ET.SubElement(geometry, "sphere", radius=repr(size[0]))
    else:
        ET.SubElement(geometry, shape, radius=repr(size[0]), length=repr(size[1]))


DENSITY = 1000.0
"""kg/m³ of the hull of a link's shapes: housings of aluminium with motors, and air."""

LEAST_MASS, MOST_MASS = 0.02, 60.0
"""kg."""

WITHOUT_SHAPE = Inertial(0.1, np.zeros(3), np.eye(3) * 4e-5)
"""Of a link without shapes: a ball of 3 cm radius."""

LEAST_RADIUS = 0.01
"""m: no estimated moment is below that of a ball of this radius."""

VIOLATION = 0.01
"""Excess of the largest moment over the sum of the other two, as a share of it, from which the repair is reported."""


def complete_inertials(root: ET.Element) -> tuple[list[str], list[str]]:
    """Give every moving link a possible mass and inertia, in place.

    Links that fixed joints connect are one body. `remove_unusable_inertials` must have been called.

    Returns:
        The links whose values are estimated, and the links whose moments are replaced by the nearest possible moments.
    """
    adjusted = [link.get("name", "") for link in root.findall("link") if _make_possible(link)]
    merged = copy.deepcopy(root)
    placed = merge_fixed_joints(merged)
    links = {link.get("name", ""): link for link in root.findall("link")}
    moving = {joint.child for joint in read_joints(merged).values() if joint.kind in MOVING_JOINT_TYPES}
    estimated = []
    for body in merged.findall("link"):
        name = body.get("name", "")
        mass, centre, inertia = inertial(body)
        if name not in moving or (mass > 0 and (np.linalg.eigvalsh(inertia) > 0).all()):
            continue
        estimate = _estimate(body, mass if mass > 0 else None)
        for part, (holder, _) in placed.items():
            element = links[part].find("inertial")
            if holder == name and element is not None:
                links[part].remove(element)
        set_inertial(links[name], estimate.mass, centre if mass > 0 else estimate.centre, estimate.inertia)
        estimated.append(name)
    return estimated, adjusted


def remove_unusable_inertials(root: ET.Element) -> None:
    """Remove every `<inertial>` without a positive mass or a place, in the tree; a mass without moments gets zeros."""
    for link in root.findall("link"):
        for element in link.findall("inertial"):
            mass, tensor = element.find("mass"), element.find("inertia")
            value = number_in(None if mass is None else mass.get("value"), math.nan)
            origin = element.find("origin")
            place = [] if origin is None else " ".join(origin.attrib.values()).split()
            moments = {} if tensor is None else tensor.attrib
            is_complete = {"ixx", "iyy", "izz"} <= moments.keys()
            if not 0 < value < math.inf or not all(math.isfinite(number_in(word, math.nan)) for word in place):
                link.remove(element)
            elif not is_complete or not all(math.isfinite(number_in(text, math.nan)) for text in moments.values()):
                if tensor is not None:
                    element.remove(tensor)
                ET.SubElement(element, "inertia", dict.fromkeys(INERTIA_ENTRIES, "0"))


def _make_possible(link: ET.Element) -> bool:
    """Replace impossible principal moments by the nearest possible moments; return whether they were far off.

    The largest moment must not exceed the sum of the other two. Some published URDFs have such moments; Bullet would
    use zero for them.
    """
    mass, centre, inertia = inertial(link)
    moments, axes = np.linalg.eigh(inertia)
    if not (moments[0] > 0 and moments[2] > moments[0] + moments[1]):
        return False
    excess = moments[2] - moments[0] - moments[1]
    largest = moments[2]
    moments += excess * np.array([1.001, 1.001, -1.0]) / 3
    set_inertial(link, mass, centre, axes @ np.diag(moments) @ axes.T)
    return bool(excess > VIOLATION * largest)


def _estimate(link: ET.Element, mass: float | None) -> Inertial:
    """Return mass, centre and inertia of a body from its collision shapes, else from its visual shapes."""
    for kind in ("collision", "visual"):
        solids = []
        for element in link.findall(kind):
            try:
                geom = replace(geom_of(element), collides=True)
                if volume([geom]) > 0:
                    solids.append(geom)
            except (AssetError, ValueError, KeyError):  # a flat mesh, a shape without a size
                continue
        if solids:
            weight = mass or float(np.clip(DENSITY * volume(solids), LEAST_MASS, MOST_MASS))
            estimate = mass_properties(solids, weight)
            return replace(estimate, inertia=estimate.inertia + np.eye(3) * 0.4 * weight * LEAST_RADIUS**2)
    if mass is None:
        return WITHOUT_SHAPE
    return replace(WITHOUT_SHAPE, mass=mass, inertia=WITHOUT_SHAPE.inertia * mass / WITHOUT_SHAPE.mass)
