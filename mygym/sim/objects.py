"""Rigid objects as data: `load_object("cube") -> ObjectSpec`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mygym.errors import AssetError, bad_value
from mygym.sim.assets import STRICT, Color, Number, asset_names, find_asset, read_asset

SIZES = {"box": 3, "sphere": 1, "cylinder": 2}
"""Numbers in `size`: box edges x, y, z; sphere radius; cylinder radius, height (along z)."""

Positive = Annotated[Number, Field(gt=0)]
NonNegative = Annotated[Number, Field(ge=0)]


@dataclass(frozen=True)
class ObjectSpec:
    """A rigid body of one primitive shape and even density, in SI units."""

    __pydantic_config__ = STRICT

    shape: Literal["box", "sphere", "cylinder"]
    size: tuple[Positive, ...]
    """m: see `SIZES`."""
    mass: Positive
    """kg."""
    friction: NonNegative
    """Sliding friction; Bullet multiplies the values of the two bodies in contact."""
    rolling_friction: NonNegative = 0.0
    """m: rolling resistance of round shapes."""
    spinning_friction: NonNegative = 0.0
    """m: resistance to turning on the spot."""
    restitution: Annotated[Number, Field(ge=0, le=1)] = 0.0
    color: Color = (0.85, 0.25, 0.2, 1.0)
    name: str = ""
    """The file's stem, unless given."""

    @property
    def half_height(self) -> float:
        """Height of the centre above the table when the object lies as modelled, m."""
        return self.size[0] if self.shape == "sphere" else self.size[-1] / 2


def object_names() -> tuple[str, ...]:
    """Objects that come with the package."""
    return asset_names("objects")


def load_object(name: str | Path) -> ObjectSpec:
    """The object of this name, or of this YAML file.

    Raises:
        AssetError: unknown name, or a file with an unknown, missing or wrong key.
    """
    path = find_asset("objects", name)
    spec = read_asset(ObjectSpec, path)
    if len(spec.size) != SIZES[spec.shape]:
        raise AssetError(
            f"{path}: {bad_value('size', list(spec.size), f'{SIZES[spec.shape]} numbers for a {spec.shape}')}"
        )
    return replace(spec, name=spec.name or path.stem)
