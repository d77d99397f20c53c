"""Description of an inferred robot as YAML, with a comment for each finding that its lines correct."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, fields
from typing import TYPE_CHECKING, Any

import yaml

from mygym.config.loading import Dumper

if TYPE_CHECKING:
    from mygym.robotics.inference.findings import Finding
    from mygym.robotics.robot_spec import RobotSpec

HELP: Mapping[str, str] = {
    "urdf": "path relative to this file, or absolute",
    "base_position": "m; x points to the work area, whose centre is the origin",
    "base_orientation": "quaternion (x, y, z, w)",
    "joints": "arm joints from base to tip: rad, rad/s, N m; home: start of episodes, tool down",
    "end_effector": "tool point in the frame of a link, m and quaternion (x, y, z, w); its z axis points out",
    "gripper": "positions of its joints, m or rad; width between the open fingers, m; links touch objects",
    "second_arm": "as the first arm",
    "area_scale": "size of the table's areas, below 1 for short arms",
}
"""Key → comment beside it."""

ALWAYS = ("urdf", "base_position", "base_orientation", "joints", "end_effector", "motor", "area_scale")
"""Keys that are written even if they have their default."""


def robot_yaml(robot: RobotSpec, urdf: str, findings: Iterable[Finding], title: str) -> str:
    """Return a YAML file that loads as a robot equal to `robot`, apart from the name.

    `urdf` is the path of its URDF in the file. Each finding is a comment above the key that corrects it, or below the
    title.
    """
    values = {**asdict(robot), "urdf": urdf}
    keys = [field.name for field in fields(robot) if field.name != "name" and _is_written(robot, field)]
    comments: dict[str, list[str]] = {}
    for finding in findings:
        key = top_key(finding)
        comments.setdefault(key if key in keys else "", []).append(_comment(finding))
    lines = [f"# {title}", *comments.get("", [])]
    for key in keys:
        first, *parts = _block(key, _plain(values[key]))
        lines += [*comments.get(key, []), f"{first}  # {HELP[key]}" if key in HELP else first, *parts]
    return "\n".join(lines) + "\n"


def top_key(finding: Finding) -> str:
    """Return the first part of a finding's key, e.g. `gripper` of `gripper.closed`."""
    return finding.key.partition(".")[0]


def line_of(text: str, key: str) -> int:
    """Return the number of the line of a file of `robot_yaml` that begins with a key; 0 if no line does."""
    lines = enumerate(text.splitlines(), start=1)
    return next((number for number, line in lines if line.startswith(f"{key}:")), 0)


def _is_written(robot: RobotSpec, field: Any) -> bool:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return field.name in ALWAYS or getattr(robot, field.name) != default


def _comment(finding: Finding) -> str:
    text = f"# {finding.certainty}: {finding.text}{f' ({finding.reason})' if finding.reason else ''}"
    return " ".join(text.split())  # a line break would end the comment


def _block(key: str, value: Any, indent: str = "") -> list[str]:
    """Return the lines of a key: a line for each joint and each part of an end effector, a gripper or an arm."""
    name = _flow(key)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [f"{indent}{name}:", *(f"{indent}  - {_flow(item)}" for item in value)]
    if isinstance(value, dict) and any(isinstance(item, list | dict) for item in value.values()):
        parts = [line for part, item in value.items() for line in _block(part, item, indent + "  ")]
        return [f"{indent}{name}:", *parts]
    return [f"{indent}{name}: {_flow(value)}"]


def _flow(value: Any) -> str:
    """Return a value in one line; names that YAML would read as numbers, words or comments are quoted."""
    text: str = yaml.dump(
        [value], Dumper=Dumper, default_flow_style=True, sort_keys=False, allow_unicode=True, width=1 << 20
    )
    return text.strip()[1:-1]


def _plain(value: Any) -> Any:
    """Return tuples as lists, mappings without their empty values, and zeros without a sign."""
    if value == 0.0 and isinstance(value, float):
        return 0.0
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value
