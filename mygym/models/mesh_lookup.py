"""Mesh files of robot descriptions: names such as `package://arm/meshes/link.stl`, resolved to files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

MESH_PATH = "MYGYM_MESH_PATH"
"""Environment variable: folders in which meshes are looked for, with their subfolders."""

PACKAGE_PATHS = ("ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH", "GAZEBO_MODEL_PATH", "GZ_SIM_RESOURCE_PATH")
"""Environment variables of ROS and Gazebo with folders of packages, or with packages."""

FOLDERS_ABOVE = 4
"""Folders above a description in which a mesh is looked for with a part of its path."""


def find_mesh(description: Path, name: str) -> Path | None:
    """Return the file of a mesh, or None.

    It is looked for in the folders above the description; in the packages of ROS and Gazebo; with the last parts of
    its path (the package's folder has another name, or the path is of another computer); and below `MYGYM_MESH_PATH`.

    Args:
        description: The robot's file.
        name: `filename` of a mesh: a path, or `package://`, `model://` or `file://`.
    """
    for spelling in dict.fromkeys((name, unquote(name))):
        for path in _candidates(description, spelling):
            if path.is_file():
                return path
    return None


def package_folder(description: Path, package: str) -> Path | None:
    """Return the folder of a ROS package: a folder above the description, or beside one; or in the paths of ROS."""
    for folder in description.absolute().parents:
        if folder.name == package or _package_name(folder) == package:
            return folder
        if (folder / package).is_dir():
            return folder / package
    for folder in _package_folders():
        if folder.name == package and folder.is_dir():
            return folder
        if (folder / package).is_dir():
            return folder / package
    return None


def _candidates(description: Path, name: str) -> Iterator[Path]:
    scheme, separator, path = name.replace("\\", "/").rpartition("://")
    if not separator:
        scheme = ""
    if scheme == "file":
        path = "/" + path.removeprefix("localhost").lstrip("/")
    if path.startswith("/") and scheme in ("", "file"):
        yield Path(path)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts:
        return
    folders = description.absolute().parents
    if scheme in ("", "file"):
        yield folders[0] / path.lstrip("/")
    for folder in folders:
        yield folder.joinpath(*parts)
    if scheme in ("package", "model"):
        package = package_folder(description, parts[0])
        if package is not None:
            yield package.joinpath(*parts[1:])
        for folder in _package_folders():
            yield folder.joinpath(*parts)
    inside = [part for part in parts if part != ".."]
    for start in range(1, len(inside)):
        for folder in folders[: FOLDERS_ABOVE if start < len(inside) - 1 else 1]:
            yield folder.joinpath(*inside[start:])
    for folder in _folders(MESH_PATH):
        matches = sorted(folder.rglob(inside[-1]), key=lambda match: -_common_end(match.parts, inside))
        yield from matches[:1]


def _common_end(first: tuple[str, ...], second: list[str]) -> int:
    """Return the number of equal parts at the ends of two paths."""
    return next((k for k, (a, b) in enumerate(zip(first[::-1], second[::-1], strict=False)) if a != b), len(second))


def _folders(variable: str) -> list[Path]:
    return [Path(folder).expanduser() for folder in os.environ.get(variable, "").split(os.pathsep) if folder]


def _package_folders() -> Iterator[Path]:
    for variable in PACKAGE_PATHS:
        for folder in _folders(variable):
            yield from (folder, folder / "share")


def _package_name(folder: Path) -> str:
    """Return the name in a folder's `package.xml`; empty without one."""
    try:
        text = (folder / "package.xml").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.partition("<name>")[2].partition("</name>")[0].strip()
