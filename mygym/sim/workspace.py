"""Where a robot works, as data: `load_workspace("table") -> WorkspaceSpec`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mygym.errors import AssetError, bad_value
from mygym.sim.assets import STRICT, Color, Number, Vector, asset_names, find_asset, read_asset


@dataclass(frozen=True)
class Area:
    """An axis-aligned box in the world frame, m. An edge of no length is allowed: a surface."""

    __pydantic_config__ = STRICT

    low: Vector
    high: Vector


@dataclass(frozen=True)
class FixtureSpec:
    """A box that never moves, in the world frame."""

    __pydantic_config__ = STRICT

    size: Vector
    """m: edges along x, y, z."""
    position: Vector
    """m: the centre."""
    friction: Annotated[Number, Field(ge=0)] = 0.8
    color: Color = (0.7, 0.7, 0.7, 1.0)
    collides: bool = True
    """False for what is only seen."""


@dataclass(frozen=True)
class CameraSpec:
    """A camera that looks at `target` from `distance` m; angles in degrees as Bullet has them."""

    __pydantic_config__ = STRICT

    target: Vector
    distance: Annotated[Number, Field(gt=0)]
    yaw: Number
    pitch: Number
    fov: Annotated[Number, Field(gt=1, lt=170)] = 40.0
    """Vertical field of view, degrees."""


@dataclass(frozen=True)
class WorkspaceSpec:
    """Fixtures, sampling areas, cameras and bounds. World frame: origin on the table top, z up."""

    __pydantic_config__ = STRICT

    fixtures: dict[str, FixtureSpec]
    areas: dict[str, Area]
    """Where tasks sample goals and starting positions, by name."""
    cameras: dict[str, CameraSpec]
    bounds: Area
    """An object that leaves this box has left the workspace."""
    tool_bounds: Area
    """Controllers command the end effector inside this box only."""
    tool_home: Vector = field(default=(0.0, 0.0, 0.2))
    """m: where the end effector starts unless the reset says otherwise; the robot's home joints are close to it."""
    tool_direction: Vector = (0.0, 0.0, -1.0)
    """Unit vector along which the tool's z axis is held: down, unless said otherwise."""
    background: tuple[Number, Number, Number] = (1.0, 1.0, 1.0)
    name: str = ""
    """The file's stem, unless given."""


def workspace_names() -> tuple[str, ...]:
    """Workspaces that come with the package."""
    return asset_names("workspaces")


def load_workspace(name: str | Path) -> WorkspaceSpec:
    """The workspace of this name, or of this YAML file.

    Raises:
        AssetError: unknown name, or a file with an unknown, missing or wrong key, or a box whose low is above its high.
    """
    path = find_asset("workspaces", name)
    spec = read_asset(WorkspaceSpec, path)
    boxes = {f"areas.{key}": area for key, area in spec.areas.items()}
    boxes |= {"bounds": spec.bounds, "tool_bounds": spec.tool_bounds}
    for key, area in boxes.items():
        if any(low > high for low, high in zip(area.low, area.high, strict=True)):
            raise AssetError(f"{path}: {bad_value(f'{key}.low', list(area.low), f'at most high = {list(area.high)}')}")
    if "main" not in spec.cameras:
        raise AssetError(f"{path}: {bad_value('cameras.main', None, 'a camera', 'is missing')}")
    return replace(spec, name=spec.name or path.stem)
