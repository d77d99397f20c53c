"""URDF files of objects: one rigid body, read once into parts."""

from __future__ import annotations

import copy
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mygym.errors import AssetError, bad_value
from mygym.models.assets import Color
from mygym.models.inertia import Inertial
from mygym.models.shapes import PartSpec, bounds, check_part
from mygym.models.transforms import matrix_to_rpy
from mygym.models.urdf import inertial, merge_fixed_joints, origin_of, read_urdf

DEFAULT_FRICTION = 0.5
"""Of a URDF that says none: URDF itself has no friction, Bullet's `<contact>` has."""

GEOMETRIES = ("box", "sphere", "cylinder", "capsule", "mesh")


@dataclass(frozen=True, eq=False)
class UrdfObject:
    """What a URDF says of one rigid body."""

    parts: tuple[PartSpec, ...]
    inertial: Inertial | None
    """None if it was not asked for."""
    friction: float


def read_object_urdf(path: Path, weighs: bool = True) -> UrdfObject:
    """Read a URDF whose joints, if any, are fixed.

    Args:
        path: The file.
        weighs: Whether its mass and inertia are needed.

    Raises:
        AssetError: the file or one of its meshes is missing or damaged; joints move; nothing collides; the mass or an
            inertia is 0.
    """
    root = copy.deepcopy(read_urdf(path))
    try:
        return _read(root, weighs)
    except AssetError as error:
        raise AssetError(f"{path}: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        why = f"cannot be read ({type(error).__name__}: {error})"
        raise AssetError(f"{path}: {bad_value('urdf', path.name, 'a URDF of one rigid body', why)}") from error


def _read(root: ET.Element, weighs: bool) -> UrdfObject:
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
        raise AssetError(
            bad_value("link", names, "one rigid body: links joined by fixed joints", "do not hold together")
        )
    (link,) = links
    colors = {material.get("name", ""): _color_of(material) for material in root.findall("material")}
    solid = [replace(_part(element), visible=False) for element in link.findall("collision")]
    seen = [
        replace(_part(element), collides=False, color=_material(element, colors)) for element in link.findall("visual")
    ]
    if not solid:
        allowed = "a <link> with a <collision>; copy its <visual> if the shape is simple"
        raise AssetError(bad_value("collision", None, allowed, "is missing"))
    for number, part in enumerate(solid):
        check_part(part, f"collision.{number}.")
    for number, part in enumerate(seen):
        check_part(part, f"visual.{number}.")
    if not seen:
        solid = [replace(part, visible=True) for part in solid]
    contact = link.find("contact/lateral_friction")
    friction = DEFAULT_FRICTION if contact is None else float(contact.get("value", DEFAULT_FRICTION))
    return UrdfObject((*seen, *solid), _inertial(link, solid) if weighs else None, friction)


def _inertial(link: ET.Element, solid: list[PartSpec]) -> Inertial:
    mass, centre, inertia = inertial(link)
    if not mass > 0:
        why = "is not above 0: an object that never moves belongs into a workspace"
        raise AssetError(bad_value("mass", mass, "<inertial><mass value=.../> in kg", why))
    moments = np.linalg.eigvalsh(inertia)
    if not (moments > 0).all():
        low, high = bounds(solid)
        x, y, z = np.square(high - low)
        box = mass / 12 * np.array([y + z, x + z, x + y])
        about = ", ".join(f"{name}={value:.3g}" for name, value in zip(("ixx", "iyy", "izz"), box, strict=True))
        allowed = f"<inertia .../> with moments above 0 kg m² (a box of its size and mass has {about})"
        raise AssetError(bad_value("inertia", moments.round(9).tolist(), allowed, "are no body's principal moments"))
    return Inertial(mass, centre, inertia)


def _part(element: ET.Element) -> PartSpec:
    """A `<collision>` or `<visual>`."""
    geometry = element.find("geometry")
    found = next(iter(geometry), None) if geometry is not None else None
    if found is None or found.tag not in GEOMETRIES:
        raise AssetError(bad_value(f"{element.tag} geometry", None if found is None else found.tag, GEOMETRIES))
    pose = origin_of(element)
    x, y, z = pose[:3, 3].tolist()
    roll, pitch, yaw = np.degrees(matrix_to_rpy(pose[:3, :3])).tolist()
    place = PartSpec(found.tag, position=(x, y, z), euler=(roll, pitch, yaw))  # type: ignore[arg-type]
    if found.tag == "mesh":
        sx, sy, sz = (float(word) for word in found.get("scale", "1 1 1").split())
        return replace(place, file=found.get("filename", ""), scale=(sx, sy, sz))
    if found.tag == "box":
        return replace(place, size=tuple(float(word) for word in found.get("size", "").split()))
    keys = ("radius",) if found.tag == "sphere" else ("radius", "length")
    return replace(place, size=tuple(float(found.attrib[key]) for key in keys))


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
