"""`Result`, the outcome of a run, written to result.json whenever a run ends; its learning curves."""

from __future__ import annotations

import contextlib
import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

from mygym.engines.engine import BULLET
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


@cache
def machine_in_words() -> str:
    """Return the processor of this machine and the number of its cores."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    return f"{name}, {os.cpu_count()} cores"


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
    judge: str = BULLET
    """Engine of the evaluations."""
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
    machine: str = field(default_factory=lambda: machine_in_words())
    """Processor and number of its cores; empty if unknown."""

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
            in_older_runs = {"strategy": {}, "algo_source": "", "last_interval": {}, "judge": BULLET, "machine": ""}
            content = in_older_runs | content
            names = [entry.name for entry in fields(cls) if entry.name != "path"]
            result = cls(path=run, **{name: content[name] for name in names})
            figures = [entry[key] for entry in result.evaluations for key in ("steps", "wall_time_s", "success_rate")]
            final = (result.success_rate, result.mean_return) if result.status == "done" else ()
            counts = (result.seed, result.steps, *result.stage_reached.values())
            numbers = (result.wall_time_s, result.steps_per_second, *counts, *final, *figures)
            texts = (result.algo, result.robot, result.task, result.config_hash, result.status, result.error or "")
            valid = all(isinstance(each, int | float) for each in numbers)
            return result if valid and all(isinstance(each, str) for each in texts) else None
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


@dataclass(frozen=True)
class Score:
    """Success rate and mean return of a set of episodes."""

    success_rate: float
    """Share of episodes that ended in success."""
    mean_return: float
    """Mean sum of rewards."""


@dataclass(frozen=True)
class Mark:
    """Figures of a run at one evaluation."""

    steps: int
    """Env steps trained so far."""
    train: Score | None
    """Training episodes since the last mark, exploration included; None if no episode has ended."""
    validation: Score
    """Episodes that select the best model and may stop the run."""
    test: Score | None
    """Episodes that select nothing; None without `eval.test_episodes`."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Means of the figures that the runner has recorded since the last mark, see `Loop.record`."""


@dataclass(frozen=True)
class Curves:
    """Learning curves of a run: its marks in order of their steps."""

    marks: tuple[Mark, ...] = ()

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> Self:
        """Return the curves of a run's evaluations, from `Result.evaluations` or result.json.

        Args:
            records: An entry for each evaluation, in the order of steps.
        """
        marks = []
        for record in records:
            train, validation, test = (_score(record, prefix) for prefix in ("train_", "", "test_"))
            marks.append(Mark(record["steps"], train, validation, test, record.get("figures", {})))
        return cls(tuple(marks))


def _score(record: Mapping[str, Any], prefix: str) -> Any:
    rate, total = (record.get(f"{prefix}{key}") for key in ("success_rate", "mean_return"))
    return None if rate is None or total is None else Score(rate, total)


class Figures:
    """Means of a runner's figures between two marks."""

    def __init__(self) -> None:
        self.sums: dict[str, list[float]] = {}
        """Name → sum and number of the values."""

    def add(self, name: str, value: float) -> None:
        """Add a value."""
        total, count = self.sums.get(name, (0.0, 0.0))
        self.sums[name] = [total + value, count + 1.0]

    def means(self) -> dict[str, float]:
        """Return the means since the last call of `clear`."""
        return {name: total / count for name, (total, count) in self.sums.items()}

    def clear(self) -> None:
        """Forget the values."""
        self.sums = {}

    def state_dict(self) -> dict[str, list[float]]:
        """Return sums and numbers."""
        return {name: list(pair) for name, pair in self.sums.items()}

    def load_state_dict(self, state: Mapping[str, Sequence[float]]) -> None:
        """Restore a state of `state_dict`."""
        self.sums = {name: [float(number) for number in pair] for name, pair in state.items()}


class EpisodeCounter:
    """Counts the training episodes between two marks."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget the episodes."""
        self.episodes, self.successes, self.total_return = 0, 0, 0.0

    def add(self, episode: Mapping[str, Any]) -> None:
        """Count an episode, given as a row of monitor.csv."""
        self.episodes += 1
        self.successes += bool(episode["is_success"])
        self.total_return += float(episode["r"])

    def means(self) -> dict[str, float | None]:
        """Return the figures of an evaluation's record; None if no episode has ended."""
        count = self.episodes
        rate, mean = (self.successes / count, self.total_return / count) if count else (None, None)
        return {"train_success_rate": rate, "train_mean_return": mean}

    def state_dict(self) -> dict[str, float]:
        """Return the counts."""
        return dict(vars(self))

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Restore a state of `state_dict`."""
        self.episodes, self.successes = int(state["episodes"]), int(state["successes"])
        self.total_return = float(state["total_return"])
