"""`Result`, the outcome of a run, written to result.json whenever a run ends."""

from __future__ import annotations

import contextlib
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

from mygym.training.directory import RESULT
from mygym.training.files import write_json

SCHEMA = 1
"""Number of the form of result.json; files of another form are not read."""

THRESHOLDS = (0.5, 0.8, 0.9, 0.95, 0.98)
"""Success rates for which `time_to_threshold` is reported."""

PACKAGES = (
    "mygym",
    "pybullet",
    "mujoco-core",
    "gymnasium",
    "stable-baselines3",
    "sb3-contrib",
    "sbx-rl",
    "torch",
    "jax",
    "numpy",
)
"""Packages whose versions are reported."""

PYBULLET = ("pybullet", "pybullet-arm64")
"""Packages with the module `pybullet`, of which an environment has one (pyproject.toml)."""


@dataclass
class Result:
    """Outcome of a run."""

    path: Path
    """The run directory."""
    algo: str
    framework: str
    robot: str
    task: str
    workspace: str
    engine: str
    """Engine of the training."""
    seed: int
    config_hash: str
    status: str = "failed"
    """`done`, `diverged`, `interrupted` or `failed`."""
    judge: str = ""
    """Engine of the evaluations; empty in results of older versions, which PyBullet judged."""
    error: str | None = None
    steps: int = 0
    """Env steps."""
    success_rate: float | None = None
    """Success rate of the saved model over fresh episodes."""
    mean_return: float | None = None
    """Mean return of the saved model over the same episodes."""
    wall_time_s: float = 0.0
    steps_per_second: float = 0.0
    """Env steps per second of training, evaluations excluded."""
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    last_interval: dict[str, Any] = field(default_factory=dict)
    """Env steps and figures of the training after the last evaluation, as in `evaluations`; empty if none."""
    stage_reached: dict[str, int] = field(default_factory=dict)
    """Number of final episodes that ended in each stage."""
    success_by_task: dict[str, float] = field(default_factory=dict)
    """Success rate of the saved model for each task; empty for a single task."""
    algo_source: str = ""
    """Source of the algorithm's registration: `file:line`, or `mygym.algos`."""
    strategy: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Outcomes by strategy, e.g. the level of a curriculum or the path of a super-network."""

    def first_at(self, threshold: float) -> dict[str, Any] | None:
        """Return `steps` and `wall_time_s` of the first evaluation that reached a success rate; None if none did.

        Args:
            threshold: The success rate, in [0, 1].
        """
        first = next((e for e in self.evaluations if e["success_rate"] >= threshold), None)
        return {key: first[key] for key in ("steps", "wall_time_s")} if first else None

    def time_to_threshold(self) -> dict[str, dict[str, Any] | None]:
        """Return the first evaluation that reached each threshold; None if no evaluation did."""
        return {str(threshold): self.first_at(threshold) for threshold in THRESHOLDS}

    def to_json(self) -> dict[str, Any]:
        """Return the content of result.json."""
        content = {"schema": SCHEMA, **asdict(self)}
        del content["path"]
        return {**content, "time_to_threshold": self.time_to_threshold(), "versions": versions()}

    @classmethod
    def read(cls, run: Path) -> Self | None:
        """Return the result in a run directory; None if it is missing or unreadable.

        Args:
            run: The run directory.
        """
        try:
            if not (run / RESULT).is_file():  # reading a pipe would block
                return None
            content = json.loads((run / RESULT).read_text(encoding="utf-8"))
            if content["schema"] != SCHEMA:
                return None
            content = {"strategy": {}, "algo_source": "", "last_interval": {}, **content}  # absent in older runs
            names = [entry.name for entry in fields(cls) if entry.name != "path"]
            result = cls(path=run, **{name: content[name] for name in names})
            figures = [entry[key] for entry in result.evaluations for key in ("steps", "wall_time_s", "success_rate")]
            final = (result.success_rate, result.mean_return) if result.status == "done" else ()
            counts = (result.seed, result.steps, *result.stage_reached.values())
            numbers = (result.wall_time_s, result.steps_per_second, *counts, *final, *figures)
            texts = (result.algo, result.robot, result.task, result.config_hash, result.status, result.error or "")
            valid = all(isinstance(each, int | float) for each in numbers) and all(
                isinstance(each, str) for each in texts
            )
            return result if valid else None
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None

    def write(self) -> None:
        """Write result.json atomically."""
        write_json(self.path / RESULT, self.to_json())


_version = cache(version)  # `version` parses the package's metadata at every call


def versions() -> Mapping[str, str]:
    """Return the versions of Python and of the packages that shape a result."""
    return {"python": platform.python_version(), **package_versions(PACKAGES)}


def package_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed; `pybullet` stands for any package with this module."""
    result = {}
    for package in packages:
        for name in PYBULLET if package == "pybullet" else (package,):
            with contextlib.suppress(PackageNotFoundError):
                result[name] = _version(name)
    return result


def versions_in_words(*packages: str) -> str:
    """Return `NAME VERSION, …` of those packages that are installed, see `package_versions`."""
    return ", ".join(" ".join(item) for item in package_versions(packages).items())
