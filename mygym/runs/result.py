"""result.json: what a run came to, written whenever a run ends, however it ends."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

from mygym.runs.directory import RESULT, write_json

THRESHOLDS = (0.5, 0.8, 0.9, 0.95, 0.98)
"""Success rates for which a result says when they were first measured."""

PACKAGES = ("mygym", "pybullet", "gymnasium", "stable-baselines3", "sb3-contrib", "sbx-rl", "torch", "jax", "numpy")


@dataclass
class Result:
    """Outcome of a run; `path` is its directory."""

    path: Path
    algo: str
    framework: str
    robot: str
    task: str
    workspace: str
    engine: str
    seed: int
    config_hash: str
    status: str = "failed"
    """`done`, `diverged`, `interrupted` or `failed`."""
    error: str | None = None
    steps: int = 0
    success_rate: float | None = None
    """Of the saved model over fresh episodes."""
    mean_return: float | None = None
    wall_time_s: float = 0.0
    steps_per_second: float = 0.0
    """Env steps over training time, evaluations left out."""
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    stage_reached: dict[str, int] = field(default_factory=dict)
    success_by_task: dict[str, float] = field(default_factory=dict)
    """Of the saved model, where a run has several tasks."""
    strategy: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What each strategy has come to, of those that tell: a curriculum's level, a super-network's path."""

    def time_to_threshold(self) -> dict[str, dict[str, Any] | None]:
        """For each threshold the first evaluation that reached it."""
        reached = {}
        for threshold in THRESHOLDS:
            first = next((e for e in self.evaluations if e["success_rate"] >= threshold), None)
            reached[str(threshold)] = {key: first[key] for key in ("steps", "wall_time_s")} if first else None
        return reached

    def to_json(self) -> dict[str, Any]:
        """The content of result.json."""
        content = {"schema": 1, **asdict(self)}
        del content["path"]
        return {**content, "time_to_threshold": self.time_to_threshold(), "versions": versions()}

    @classmethod
    def read(cls, run: Path) -> Self | None:
        """The result in a run directory; None if there is none that can be read."""
        try:
            content = json.loads((run / RESULT).read_text(encoding="utf-8"))
            content = {"strategy": {}, **content}  # of runs before there was any
            result = cls(path=run, **{one.name: content[one.name] for one in fields(cls) if one.name != "path"})
            result.time_to_threshold()  # fails where the evaluations are none
            judged = (result.success_rate, result.mean_return) if result.status == "done" else ()
            numbers = (result.steps, result.wall_time_s, result.steps_per_second, *judged)
            return result if all(isinstance(number, int | float) for number in numbers) else None
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return None

    def write(self) -> None:
        """Write result.json, whole or not at all."""
        write_json(self.path / RESULT, self.to_json())


_version = cache(version)  # the packages' descriptions are parsed anew each time


def versions() -> Mapping[str, str]:
    """Versions of Python and of the packages that shape a result."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = _version(package)
        except PackageNotFoundError:
            continue
    return found
