"""Robots as data: `load_robot("panda") -> RobotSpec`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mygym.errors import AssetError
from mygym.models.assets import asset_names, find_asset, find_beside, read_asset
from mygym.models.robot_spec import RobotSpec
from mygym.models.robot_validation import check_model


def robot_names() -> tuple[str, ...]:
    """Return the names of the built-in robots; no file is opened."""
    return asset_names("robots")


def load_robot(name: str | Path) -> RobotSpec:
    """Load a built-in robot by name, or a robot from a YAML file.

    Raises:
        AssetError: Unknown name; an unknown, missing or invalid key; a missing URDF; or a joint or link that the
            URDF lacks.
    """
    path = find_asset("robots", name)
    spec = read_asset(RobotSpec, path)
    try:
        return resolved(spec, path)
    except AssetError as error:
        raise AssetError(f"{path}: {error}") from error


def resolved(spec: RobotSpec, path: Path) -> RobotSpec:
    """Return the robot of a YAML file with the absolute paths of its URDF files, and with a name.

    Raises:
        AssetError: A missing URDF or mesh, a joint or link that the URDF lacks, or a link without mass or inertia.
    """
    mounts = tuple(replace(mount, urdf=str(find_beside(path, mount.urdf))) for mount in spec.mounts)
    spec = replace(spec, name=spec.name or path.stem, urdf=str(find_beside(path, spec.urdf)), mounts=mounts)
    check_model(spec)
    return spec
