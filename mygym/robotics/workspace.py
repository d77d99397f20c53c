"""Workspaces as data: `load_workspace("table") -> WorkspaceSpec`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mygym.errors import AssetError, bad_value
from mygym.registry import registry
from mygym.robotics.assets import STRICT, FiniteVector, Number, Positive, Quaternion, find_asset, read_asset
from mygym.robotics.fixtures import ArticulatedPart, FixtureSpec, articulated_parts, check_fixture, with_absolute_files
from mygym.robotics.robot_spec import RobotSpec

MIN_WIDTH = 0.5
"""Smallest width of shrunk areas, as a share of their width: a goal 10 cm from an object in the middle needs it."""

MIN_HEIGHT = 0.02
"""m: shrunk areas come no closer to the table top, as a short arm's tool needs the clearance of any tool."""


@dataclass(frozen=True)
class Area:
    """An axis-aligned box in the world frame, m. Edges may have length 0."""

    __pydantic_config__ = STRICT

    low: FiniteVector
    high: FiniteVector


@dataclass(frozen=True)
class CameraSpec:
    """A camera that looks at `target` from `distance` m; angles in degrees as in Bullet."""

    __pydantic_config__ = STRICT

    target: FiniteVector
    distance: Positive
    yaw: Number
    pitch: Number
    fov: Annotated[Number, Field(gt=1, lt=170)] = 40.0
    """Vertical field of view, degrees."""


@dataclass(frozen=True)
class HomeSpec:
    """Settings of a workspace for one of its robots."""

    __pydantic_config__ = STRICT

    base_position: FiniteVector | None = None
    """m; by default the robot's."""
    base_orientation: Quaternion | None = None
    areas: dict[str, Area] = field(default_factory=dict)
    """Replace the workspace's areas of the same names."""
    tool_home: FiniteVector | None = None
    tool_bounds: Area | None = None
    cameras: dict[str, CameraSpec] = field(default_factory=dict)
    """Replace the workspace's cameras of the same names."""
    unsuited: tuple[str, ...] = ()
    """Tasks that the robot does not do well enough here; a comment states the reason."""


@dataclass(frozen=True)
class WorkspaceSpec:
    """Fixtures, sampling areas, cameras and bounds. World frame: origin on the table top, z up."""

    __pydantic_config__ = STRICT

    fixtures: dict[str, FixtureSpec]
    areas: dict[str, Area]
    """Areas in which tasks sample goals and starting positions, by name."""
    cameras: dict[str, CameraSpec]
    bounds: Area
    """Box of the workspace; an object outside it is lost."""
    tool_bounds: Area
    """Box in which controllers command the end effector."""
    tool_home: FiniteVector = field(default=(0.0, 0.0, 0.2))
    """m: default start of the end effector; the robot's home joints are close to it."""
    tool_direction: FiniteVector = (0.0, 0.0, -1.0)
    """Unit vector along which controllers hold the tool's z axis: down, or forward for work on a wall."""
    paths: dict[str, tuple[FiniteVector, ...]] = field(default_factory=dict)
    """m: points of paths that an object is guided along, by name; the last is the goal."""
    robots: dict[str, HomeSpec | None] = field(default_factory=dict)
    """Robots that suit this workspace, with their settings; other robots get the general settings."""
    shrinks: bool = False
    """Whether areas, tool bounds and cameras shrink for short arms: no area has to be where a fixture is."""
    background: tuple[Number, Number, Number] = (1.0, 1.0, 1.0)
    name: str = ""
    """Name; by default the file's stem."""

    @property
    def parts(self) -> dict[str, ArticulatedPart]:
        """Articulated parts by name, `fixture.joint`, in the order of `State.part_position`."""
        solid = {name: fixture for name, fixture in self.fixtures.items() if fixture.collides}
        return {f"{name}.{part.name}": part for name, fixture in solid.items() for part in articulated_parts(fixture)}

    def for_robot(self, name: str) -> WorkspaceSpec:
        """Return the workspace with its settings for a robot: areas, cameras, bounds and home."""
        home = self.robots.get(name) or HomeSpec()
        return replace(
            self,
            areas={**self.areas, **home.areas},
            cameras={**self.cameras, **home.cameras},
            tool_home=home.tool_home or self.tool_home,
            tool_bounds=home.tool_bounds or self.tool_bounds,
        )

    def fit(self, robot: RobotSpec) -> WorkspaceSpec:
        """Return the workspace with its settings for a robot; without areas of its own, shrunk for a short arm."""
        home = self.robots.get(robot.name) or HomeSpec()
        own = self.for_robot(robot.name)
        return own.scaled(robot.area_scale) if self.shrinks and not home.areas else own

    def scaled(self, factor: float) -> WorkspaceSpec:
        """Return the workspace with areas, tool bounds, tool home and cameras that shrink towards the origin.

        Areas become lower without end, and narrower down to half their width.
        """
        wide = max(factor, MIN_WIDTH)

        def scale(point: FiniteVector) -> FiniteVector:
            x, y, z = point
            return wide * x, wide * y, max(factor * z, min(z, MIN_HEIGHT))

        def shrink(area: Area) -> Area:
            return Area(scale(area.low), scale(area.high))

        def approach(camera: CameraSpec) -> CameraSpec:
            return replace(camera, target=scale(camera.target), distance=factor * camera.distance)

        return replace(
            self,
            areas={name: shrink(area) for name, area in self.areas.items()},
            cameras={name: approach(camera) for name, camera in self.cameras.items()},
            tool_home=scale(self.tool_home),
            tool_bounds=shrink(self.tool_bounds),
        )

    def with_base(self, robot: RobotSpec) -> RobotSpec:
        """Return the robot with the base pose that the workspace sets for it, if any."""
        home = self.robots.get(robot.name) or HomeSpec()
        return replace(
            robot,
            base_position=home.base_position or robot.base_position,
            base_orientation=home.base_orientation or robot.base_orientation,
        )


def find_workspace(name: str) -> WorkspaceSpec:
    """Load a registered workspace, or one from the path of a YAML file, see `load_workspace`."""
    return load_workspace(registry("workspace").get(name).load())


def load_workspace(name: str | Path) -> WorkspaceSpec:
    """Load a built-in workspace by name, or a workspace from a YAML file.

    Raises:
        AssetError: Unknown name; an unknown, missing or invalid key; a box whose low is above its high; or an invalid
            fixture.
    """
    path = find_asset("workspaces", name)
    spec = read_asset(WorkspaceSpec, path)
    try:
        fixtures = {key: with_absolute_files(fixture, path) for key, fixture in spec.fixtures.items()}
        for key, fixture in fixtures.items():
            check_fixture(fixture, f"fixtures.{key}.")
        _check(spec)
    except AssetError as error:
        raise AssetError(f"{path}: {error}") from error
    return replace(spec, name=spec.name or path.stem, fixtures=fixtures)


def _check(spec: WorkspaceSpec) -> None:
    boxes = _boxes("", spec.areas, spec.bounds, spec.tool_bounds)
    for name, home in spec.robots.items():
        if home is not None:
            boxes |= _boxes(f"robots.{name}.", home.areas, None, home.tool_bounds)
    for key, area in boxes.items():
        if any(low > high for low, high in zip(area.low, area.high, strict=True)):
            raise AssetError(bad_value(f"{key}.low", list(area.low), f"at most high = {list(area.high)}"))
    for name, path in spec.paths.items():
        if not path:
            raise AssetError(bad_value(f"paths.{name}", [], "one point or more, the goal last", "is empty"))
        for index, point in enumerate(path):
            if not all(low <= x <= high for low, x, high in zip(spec.bounds.low, point, spec.bounds.high, strict=True)):
                allowed = f"within bounds {list(spec.bounds.low)} … {list(spec.bounds.high)}"
                raise AssetError(bad_value(f"paths.{name}.{index}", list(point), allowed))
    if "main" not in spec.cameras:
        raise AssetError(bad_value("cameras.main", None, "a camera", "is missing"))
    if abs(math.hypot(*spec.tool_direction) - 1.0) > 1e-3:
        raise AssetError(bad_value("tool_direction", list(spec.tool_direction), "a vector of length 1"))


def _boxes(key: str, areas: Mapping[str, Area], bounds: Area | None, tool_bounds: Area | None) -> dict[str, Area]:
    boxes = {f"{key}areas.{name}": area for name, area in areas.items()}
    limits = {f"{key}bounds": bounds, f"{key}tool_bounds": tool_bounds}
    return boxes | {name: area for name, area in limits.items() if area is not None}
