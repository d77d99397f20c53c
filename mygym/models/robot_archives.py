"""Archives of robot descriptions: safe extraction into a temporary folder, and the description inside."""

from __future__ import annotations

import os
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from mygym.errors import AssetError, bad_value
from mygym.models.file_cache import cached_by_file
from mygym.models.temporary_files import temporary_folder
from mygym.registry import RobotFileName

MAX_BYTES = 1_000_000_000
"""Maximum size of the files of an archive together."""

MAX_FILES = 20_000
"""Maximum number of files of an archive."""

Member = tuple[str, IO[bytes]]
"""Name and content of a file in an archive."""


def extracted(name: RobotFileName) -> Path:
    """Return the description in an archive, extracted once per process into a temporary folder.

    Raises:
        AssetError: The archive is damaged, too large, has paths outside its folder, or has no or several descriptions.
    """
    folder = _extract(name.file, os.getpid())
    if name.inside:
        path = folder / name.inside
        if path.is_file():
            return path
        inside = [str(file.relative_to(folder)) for file in _descriptions(folder)]
        raise AssetError(f"{name.file}: {bad_value('path inside', name.inside, inside, 'is not a file')}")
    matches = _descriptions(folder)
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise AssetError(bad_value("robot", str(name.file), "an archive with a robot's description", "contains none"))
    allowed = ", ".join(str(name.file / file.relative_to(folder)) for file in matches)
    raise AssetError(bad_value("robot", str(name.file), allowed, f"contains {len(matches)} descriptions: name one"))


def _descriptions(folder: Path) -> list[Path]:
    """Return the descriptions of the kind that comes first: URDF, xacro files that describe a robot, MuJoCo."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__MACOSX" not in path.parts)
    for suffix, tag in ((".urdf", b""), (".xacro", b"<robot"), ((".xml", ".mjcf"), b"<mujoco")):
        matches = [path for path in files if path.name.lower().endswith(suffix) and tag in path.read_bytes()]
        if suffix == ".xacro":  # files without a name define macros for others
            matches = [
                path for path in matches if b"name=" in path.read_bytes().partition(b"<robot")[2].partition(b">")[0]
            ]
        if matches:
            return matches
    return []


@cached_by_file(16)
def _extract(archive: Path, process: int) -> Path:
    number = len(list(temporary_folder(process).iterdir()))
    folder = temporary_folder(process) / f"{number}_{archive.name}"
    total = count = 0
    try:
        with _opened(archive) as members:
            for name, content in members:
                parts = PurePosixPath(name.replace("\\", "/"))
                if parts.is_absolute() or not parts.parts or ".." in parts.parts or ":" in parts.parts[0]:
                    allowed = "an archive whose files lie in its own folder"
                    raise AssetError(bad_value("robot", str(archive), allowed, f"has the path {name!r}"))
                count += 1
                target = folder / parts
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as file:
                    while block := content.read(1 << 20):
                        total += len(block)
                        if total > MAX_BYTES or count > MAX_FILES:
                            allowed = f"up to {MAX_FILES:,} files of {MAX_BYTES / 1e9:g} GB together"
                            raise AssetError(bad_value("robot", str(archive), allowed, "is larger"))
                        file.write(block)
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, tarfile.TarError) as error:
        why = f"cannot be read ({type(error).__name__}: {error})"
        raise AssetError(bad_value("robot", str(archive), "a zip or tar archive", why)) from error
    folder.mkdir(exist_ok=True)
    return folder


@contextmanager
def _opened(archive: Path) -> Iterator[Iterator[Member]]:
    """Open an archive; its files follow, without links."""
    if archive.name.lower().endswith(".zip"):
        with zipfile.ZipFile(archive) as file:
            yield ((info.filename, file.open(info)) for info in file.infolist() if not info.is_dir())
    else:
        with tarfile.open(archive) as file:
            yield (
                (member.name, content)
                for member in file
                if member.isfile() and (content := file.extractfile(member)) is not None
            )
