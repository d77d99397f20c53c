"""URDF files of objects: a rigid body, converted to geoms."""

from __future__ import annotations

import copy
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mygym.errors import AssetError, bad_value
from mygym.models.assets import Color
from mygym.models.bounding_box import bounds
from mygym.models.inertia import Inertial
from mygym.models.shapes import GeomSpec, check_geom
from mygym.models.transforms import matrix_to_rpy
from mygym.models.urdf import inertial, origin_of, read_urdf
from mygym.models.urdf_editing import merge_fixed_joints

DEFAULT_FRICTION = 0.5
"""Friction of a URDF without Bullet's `<contact>`, which is not standard URDF."""

GEOMETRIES = ("box", "sphere", "cylinder", "capsule", "mesh")


@dataclass(frozen=True, eq=False)
class UrdfObject:
    """Rigid body read from a URDF."""

    geoms: tuple[GeomSpec, ...]
    inertial: Inertial | None
    """None if not read."""
    friction: float


def read_object_urdf(path: Path, with_inertial: bool = True) -> UrdfObject:
    """Read a URDF with fixed joints only as one rigid body.

    Args:
        path: Path of the URDF.
        with_inertial: Whether to read mass and inertia.

    Raises:
        AssetError: The file or a mesh is missing or invalid; a joint moves; a collision shape is missing; or the
            mass or a moment of inertia is not positive.
    """
    root = copy.deepcopy(read_urdf(path))
    try:
        return _read(root, with_inertial)
    except AssetError as error:
        raise AssetError(f"{path}: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        why = f"cannot be read ({type(error).__name__}: {error})"
        raise AssetError(f"{path}: {bad_value('urdf', path.name, 'a URDF of one rigid body', why)}") from error


def _read(root: ET.Element, with_inertial: bool) -> UrdfObject:
    if root.tag != "robot":
        raise AssetError(bad_value("urdf", f"<{root.tag}>", "a file whose outermost element is <robot>"))
    for joint in root.findall("joint"):
        if joint.get("type") != "fixed":
            name, kind = joint.get("name", ""), joint.get("type")
            raise AssetError(bad_value("joint", name, "an object is one rigid body: fixed joints only", f"is {kind}"))
    merge_fixed_joints(root)
    links = root.findall("link")
    if len(links) != 1:
        names = [link.get("name", "") for link in links]
        raise AssetError(bad_value("link", names, "one rigid body: links joined by fixed joints", "are not connected"))
    (link,) = links
    colors = {material.get("name", ""): _color_of(material) for material in root.findall("material")}
    solid = [replace(geom_of(element), visible=False) for element in link.findall("collision")]
    visuals = [
        replace(geom_of(element), collides=False, color=_material(element, colors))
        for element in link.findall("visual")
    ]
    if not solid:
        allowed = "a <link> with a <collision>; copy its <visual> if the shape is simple"
        raise AssetError(bad_value("collision", None, allowed, "is missing"))
    for number, geom in enumerate(solid):
        check_geom(geom, f"collision.{number}.")
    for number, geom in enumerate(visuals):
        check_geom(geom, f"visual.{number}.")
    if not visuals:
        solid = [replace(geom, visible=True) for geom in solid]
    contact = link.find("contact/lateral_friction")
    friction = DEFAULT_FRICTION if contact is None else float(contact.get("value", DEFAULT_FRICTION))
    return UrdfObject((*visuals, *solid), _inertial(link, solid) if with_inertial else None, friction)


def _inertial(link: ET.Element, solid: list[GeomSpec]) -> Inertial:
    mass, centre, inertia = inertial(link)
    if not mass > 0:
        why = "is not above 0: an object that never moves belongs to a workspace"
        raise AssetError(bad_value("mass", mass, "<inertial><mass value=.../> in kg", why))
    moments = np.linalg.eigvalsh(inertia)
    if not (moments > 0).all():
        low, high = bounds(solid)
        x, y, z = np.square(high - low)
        box = mass / 12 * np.array([y + z, x + z, x + y])
        example = ", ".join(f"{name}={value:.3g}" for name, value in zip(("ixx", "iyy", "izz"), box, strict=True))
        allowed = f"<inertia .../> with moments above 0 kg m² (a box of its size and mass has {example})"
        raise AssetError(
            bad_value("inertia", moments.round(9).tolist(), allowed, "are not principal moments of a body")
        )
    return Inertial(mass, centre, inertia)


def geom_of(element: ET.Element) -> GeomSpec:
    """Return the geom of a `<collision>` or `<visual>`."""
    geometry = element.find("geometry")
    shape = next(iter(geometry), None) if geometry is not None else None
    if shape is None or shape.tag not in GEOMETRIES:
        raise AssetError(bad_value(f"{element.tag} geometry", None if shape is None else shape.tag, GEOMETRIES))
    pose = origin_of(element)
    x, y, z = pose[:3, 3].tolist()
    roll, pitch, yaw = np.degrees(matrix_to_rpy(pose[:3, :3])).tolist()
    geom = GeomSpec(shape.tag, position=(x, y, z), euler=(roll, pitch, yaw))  # type: ignore[arg-type]
    if shape.tag == "mesh":
        sx, sy, sz = (float(word) for word in shape.get("scale", "1 1 1").split())
        return replace(geom, file=shape.get("filename", ""), scale=(sx, sy, sz))
    if shape.tag == "box":
        return replace(geom, size=tuple(float(word) for word in shape.get("size", "").split()))
    keys = ("radius",) if shape.tag == "sphere" else ("radius", "length")
    return replace(geom, size=tuple(float(shape.attrib[key]) for key in keys))


def _material(element: ET.Element, known: Mapping[str, Color | None]) -> Color | None:
    material = element.find("material")
    if material is None:
        return None
    return _color_of(material) or known.get(material.get("name", ""))


def _color_of(material: ET.Element) -> Color | None:
    color = material.find("color")
    if color is None:
        return None
    r, g, b, a = (float(word) for word in color.get("rgba", "0.7 0.7 0.7 1").split())
    return r, g, b, a
