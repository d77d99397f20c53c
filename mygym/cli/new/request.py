"""`Request`: description of a new component from the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mygym.cli.new.naming import class_name


@dataclass(frozen=True)
class Request:
    """Description of a new component."""

    name: str
    folder: Path
    """Folder for `algos/`, `envs/`, `configs/` and `tests/`, which are created if missing."""
    class_name: str | None = None
    """Name of the class; None: the component's name in CamelCase."""
    base: str | None = None
    """Base algorithm of an algorithm or a policy; None: ppo."""
    framework: str = "pytorch"
    """Framework of the base."""
    urdf: Path | None = None
    """URDF file of a robot or an object; None: the template."""
    policy: Path | None = None
    """Exported policy of a ROS 2 node."""

    @property
    def cls(self) -> str:
        """Name of the class."""
        return self.class_name or class_name(self.name)
