"""Validation of fixtures."""

from __future__ import annotations

from mygym.errors import AssetError, bad_value
from mygym.models.fixture_urdf import articulated_parts
from mygym.models.fixtures import FixtureJoint, FixtureSpec, base_geoms
from mygym.models.inertia import mass_properties
from mygym.models.shapes import check_geom


def check_fixture(spec: FixtureSpec, key: str) -> None:
    """Validate a fixture.

    Args:
        spec: The fixture, with absolute file names.
        key: Prefix of the keys in messages, with its dot, such as `fixtures.cabinet.`.

    Raises:
        AssetError: None or several of size, parts and urdf; a wrong size; an axis without direction; a reversed range;
            a rest position outside it; or a URDF that is invalid or lacks a named joint.
    """
    sources = [name for name, value in (("size", spec.size), ("parts", spec.parts), ("urdf", spec.urdf)) if value]
    if len(sources) > 1 or not (sources or spec.joints):
        raise AssetError(bad_value(key.removesuffix("."), sources, "exactly one of size, parts, urdf"))
    if spec.joints and spec.urdf:
        raise AssetError(bad_value(f"{key}joints", list(spec.joints), "no joints beside a urdf"))
    for name in ("collides", "visible"):
        if (spec.joints or spec.urdf) and not getattr(spec, name):
            raise AssetError(bad_value(f"{key}{name}", False, "true for a fixture with joints or a urdf"))
    for index, geom in enumerate(base_geoms(spec)):
        check_geom(geom, key if spec.size else f"{key}parts.{index}.")
    for name, joint in spec.joints.items():
        _check_joint(joint, f"{key}joints.{name}.")
    if not spec.urdf:
        if spec.handles:
            raise AssetError(
                bad_value(f"{key}handles", list(spec.handles), "a fixture with a urdf; else `joints` have handles")
            )
        return
    moving = [part.name for part in articulated_parts(spec)]
    for name in spec.handles:
        if name not in moving:
            raise AssetError(bad_value(f"{key}handles", name, moving, "is not a moving joint of the URDF"))


def _check_joint(joint: FixtureJoint, key: str) -> None:
    lower, upper = joint.range
    if not any(joint.axis):
        raise AssetError(bad_value(f"{key}axis", list(joint.axis), "a direction"))
    if not lower < upper:
        raise AssetError(bad_value(f"{key}range", list(joint.range), "the lowest position, then the highest"))
    if not lower <= joint.rest <= upper:
        raise AssetError(bad_value(f"{key}rest", joint.rest, f"{lower:g} to {upper:g}, the range"))
    if joint.force <= joint.friction:
        raise AssetError(bad_value(f"{key}force", joint.force, f"more than the friction of {joint.friction:g}"))
    if not joint.parts:
        raise AssetError(bad_value(f"{key}parts", [], "at least one shape"))
    for index, geom in enumerate(joint.parts):
        check_geom(geom, f"{key}parts.{index}.")
    mass_properties(joint.parts, joint.mass, f"{key}mass")
