"""Fixtures of a workspace as data: geoms, and articulated parts such as drawers, doors and levers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mygym.models.assets import STRICT, Color, FiniteVector, Number
from mygym.models.shapes import GeomSpec, NonNegative, Shape

Positive = Annotated[Number, Field(gt=0)]


@dataclass(frozen=True)
class SpringSpec:
    """A spring that pulls to its rest position."""

    __pydantic_config__ = STRICT

    stiffness: Positive
    """N/m along a slide, N m/rad about a hinge."""
    rest: Number = 0.0
    """m or rad: position without force."""


@dataclass(frozen=True)
class FixtureJoint:
    """Articulated part of a fixture: a drawer, a door or a lever.

    Positions are in the fixture's frame, with the joint at zero. The part does not collide with the rest of its
    fixture; `range` stops it.
    """

    __pydantic_config__ = STRICT

    type: Literal["slide", "hinge"]
    axis: FiniteVector
    """Direction of sliding, or of rotation by the right-hand rule; any length but zero."""
    range: tuple[Number, Number]
    """Lowest and highest position: m of a slide, rad of a hinge."""
    parts: tuple[GeomSpec, ...]
    """Geoms that move."""
    mass: Positive
    """kg, of all geoms together."""
    handle: FiniteVector
    """m: point at which it is gripped."""
    force: Positive
    """N along a slide, N m about a hinge: moves the part from end to end, which `mygym check workspace` verifies."""
    pivot: FiniteVector = (0.0, 0.0, 0.0)
    """m: a point on a hinge's axis."""
    rest: Number = 0.0
    """m or rad: position after a reset."""
    friction: NonNegative = 0.0
    """N or N m: dry friction, which holds the position."""
    damping: NonNegative = 0.0
    """N s/m or N m s/rad."""
    spring: SpringSpec | None = None


@dataclass(frozen=True)
class FixtureSpec:
    """Fixture of a workspace: one shape, several shapes, or a URDF. Its base is fixed; its joints move."""

    __pydantic_config__ = STRICT

    shape: Shape = "box"
    size: tuple[NonNegative, ...] = ()
    """m, of a single shape: edges along x, y, z of a box; see `mygym.models.shapes.SIZES`."""
    parts: tuple[GeomSpec, ...] = ()
    """Geoms of several shapes, in the fixture's frame."""
    joints: dict[str, FixtureJoint] = field(default_factory=dict)
    """Articulated parts by name."""
    urdf: str = ""
    """In place of shapes and joints: a file beside the YAML, or `pybullet_data/...`. Absolute after loading."""
    handles: dict[str, FiniteVector] = field(default_factory=dict)
    """m, of a URDF: joint → point at which its child link is gripped, in that link's frame; by default the origin."""
    position: FiniteVector = (0.0, 0.0, 0.0)
    """m: the frame's origin in the world; the centre of a single shape."""
    euler: FiniteVector = (0.0, 0.0, 0.0)
    """Degrees about the fixed axes x, y, z in this order: URDF's roll, pitch and yaw."""
    friction: NonNegative = 0.8
    """Friction of the surfaces; ignored for a URDF."""
    color: Color = (0.7, 0.7, 0.7, 1.0)
    """Default colour of the geoms."""
    collides: bool = True
    """False for a visual fixture."""
    visible: bool = True
    """False for an invisible fixture, such as a panel in place of a net."""


def base_geoms(spec: FixtureSpec) -> tuple[GeomSpec, ...]:
    """Return the geoms of a fixture that do not move, in its frame."""
    return spec.parts or ((GeomSpec(spec.shape, spec.size),) if spec.size else ())


def with_files(spec: FixtureSpec, folder: Path) -> FixtureSpec:
    """Return the fixture with absolute file names; `pybullet_data/...` is looked up in that package."""
    return replace(
        spec,
        urdf=spec.urdf and _file(spec.urdf, folder),
        parts=_with_files(spec.parts, folder),
        joints={name: replace(joint, parts=_with_files(joint.parts, folder)) for name, joint in spec.joints.items()},
    )


def _with_files(geoms: tuple[GeomSpec, ...], folder: Path) -> tuple[GeomSpec, ...]:
    return tuple(replace(geom, file=_file(geom.file, folder)) if geom.file else geom for geom in geoms)


def _file(name: str, folder: Path) -> str:
    path = folder / name
    if not path.is_file() and name.startswith("pybullet_data/"):
        return str(Path(import_module("pybullet_data").getDataPath()) / name.removeprefix("pybullet_data/"))
    return str(path.resolve())
