"""Names of files in place of a robot's name: a description, a file in an archive, or a xacro file with arguments."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

DESCRIPTION_SUFFIXES = (".yaml", ".yml", ".urdf")
"""Suffixes of the files that can be given instead of the name of a robot, workspace or object."""

ARCHIVE_SUFFIXES = (".zip", ".tar", ".tgz", ".tar.gz", ".txz", ".tar.xz", ".tbz2", ".tar.bz2")
"""Suffixes of archives that may contain a robot."""

ROBOT_SUFFIXES = (*DESCRIPTION_SUFFIXES, ".xacro", ".xml", ".mjcf", *ARCHIVE_SUFFIXES)
"""Suffixes of the files that can be given instead of the name of a robot."""

OTHER_ROBOT_FILES = {".sdf": "a URDF, xacro or MuJoCo file; SDF, the format of Gazebo, is not read"}
"""Suffixes of robot files of other formats → the allowed values, for the message."""

_ARGUMENT = re.compile(r"\s+(?=[A-Za-z_]\w*:=)")


@dataclass(frozen=True)
class RobotFileName:
    """A text such as `arm.urdf`, `arms.zip/arm.urdf`, or `arm.xacro prefix:=left_ gripper:=true`."""

    file: Path
    """The file on the disk."""
    inside: str = ""
    """Path inside the archive `file`; empty for a whole archive, and for other files."""
    arguments: tuple[str, ...] = ()
    """`NAME:=VALUE` of a xacro file."""

    @classmethod
    def parse(cls, text: str | Path) -> RobotFileName:
        """Split a text into its parts; no file is opened."""
        name, *arguments = _ARGUMENT.split(str(text).strip())
        path = Path(name).expanduser()
        for folder in path.parents:
            if folder.name.lower().endswith(ARCHIVE_SUFFIXES) and folder.is_file():
                return cls(folder, str(path.relative_to(folder)), tuple(arguments))
        return cls(path, "", tuple(arguments))

    def absolute(self) -> RobotFileName:
        """Return the name with the absolute path of the file."""
        return replace(self, file=self.file.absolute())

    @property
    def name(self) -> str:
        """The name of the description, without folders and arguments."""
        return Path(self.inside).name or self.file.name

    @property
    def is_archive(self) -> bool:
        """Whether the file is an archive."""
        return self.file.name.lower().endswith(ARCHIVE_SUFFIXES)

    def __str__(self) -> str:
        return " ".join([str(self.file / self.inside if self.inside else self.file), *self.arguments])


def is_file_name(name: str, kind: str = "robot") -> bool:
    """Return whether the text in place of a component's name is that of a file, by its suffix."""
    if kind != "robot":
        return Path(name).suffix.lower() in DESCRIPTION_SUFFIXES
    return RobotFileName.parse(name).name.lower().endswith(ROBOT_SUFFIXES)
