"""Leaderboard: a JSON file of judged runs, each with a checksum of its content, and its table."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from filelock import FileLock

from mygym.config.layers import flatten
from mygym.errors import ConfigError, bad_value
from mygym.reporting.statistics import Interval, success_interval
from mygym.training import files

SCHEMA = 1
"""Version of the file's form."""

DIGITS = 8
"""Hex digits of a checksum that a table shows."""


@dataclass(frozen=True)
class Row:
    """A judged run."""

    run: str
    """`TASK/ROBOT/ALGO/CONFIGHASH/seed_S`: the end of the path of the run directory, which identifies the run."""
    task: str
    robot: str
    workspace: str
    algo: str
    framework: str
    seed: int
    config_hash: str
    changes: dict[str, Any]
    """Values of the config that differ from the defaults of the algorithm and the task, nested."""
    steps: int
    """Env steps of the training."""
    training_s: float
    """Wall time of the training, s."""
    episodes: int
    successes: int
    mean_length: float
    """Mean number of steps of an episode."""
    policy_sha256: str
    """SHA-256 of `policy.safetensors`, in hex digits."""
    versions: dict[str, str]
    """Versions of Python and of the packages that judged the run."""
    date: str
    """Day of the judgement, UTC."""

    @property
    def success_rate(self) -> float:
        """Share of episodes that ended in success."""
        return self.successes / self.episodes

    @property
    def interval(self) -> Interval:
        """Wilson's interval of the success rate."""
        return success_interval(self.successes, self.episodes)

    def to_json(self) -> dict[str, Any]:
        """Return the row with its success rate, the bounds of its interval, and the checksum of all that."""
        low, high = self.interval
        bounds = {"success_rate": self.success_rate, "success_low": low, "success_high": high}
        content = {**asdict(self), **bounds}
        return {**content, "checksum": files.json_checksum(content)}

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the row of a `to_json`; refuse a row that was edited or damaged, whose checksum is wrong."""
        rest = {key: value for key, value in content.items() if key != "checksum"}
        if content.get("checksum") != files.json_checksum(rest):
            allowed = "the row as it was written: judge the run again"
            raise ConfigError(bad_value("leaderboard", content.get("run"), allowed, "was changed after it was judged"))
        return cls(**{field.name: content[field.name] for field in fields(cls)})


def read(file: Path) -> list[Row]:
    """Return the rows of a leaderboard.

    Raises:
        ConfigError: The file does not exist, is no leaderboard, or has a row whose checksum is wrong.
    """
    allowed = "a file of `mygym judge`"
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if content["schema"] != SCHEMA:
            raise ValueError(f"schema {content['schema']!r}, not {SCHEMA}")
        return [Row.of_json(row) for row in content["rows"]]
    except FileNotFoundError:
        raise ConfigError(bad_value("leaderboard", str(file), allowed, "does not exist")) from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        why = f"is no leaderboard ({type(error).__name__}: {error})"
        raise ConfigError(bad_value("leaderboard", str(file), allowed, why)) from None


def merge(file: Path, row: Row) -> None:
    """Add a row to a leaderboard, in place of an earlier row of the same run; create the file if it is missing.

    Raises:
        ConfigError: The file is no leaderboard.
        RunError: The file cannot be written.
    """
    files.make_folder_for(file)
    with _locked(file.parent):
        rows = [known for known in (read(file) if file.exists() else []) if known.run != row.run]
        content = {"schema": SCHEMA, "rows": [each.to_json() for each in ranked([*rows, row])]}
        files.write_json(file, content)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, so that no other process merges at the same time."""
    if sys.platform == "win32":  # it locks no folders; FileLock removes its file
        with files.writing(folder), FileLock(folder / ".leaderboard.lock"):
            yield
        return
    import fcntl

    with files.writing(folder):
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def ranked(rows: Sequence[Row]) -> list[Row]:
    """Return rows by task and robot, the highest success rate first, of equal rates the fewest steps first."""
    return sorted(rows, key=lambda row: (row.task, row.robot, -row.success_rate, row.steps, row.run))


CELLS: Mapping[str, Callable[[Row], str]] = {
    "task": lambda row: row.task,
    "robot": lambda row: row.robot,
    "algorithm": lambda row: row.algo if row.framework == "pytorch" else f"{row.algo} ({row.framework})",
    "env steps": lambda row: f"{row.steps:,}",
    "success (95 % interval)": lambda row: "{:.0%} ({:.1%} to {:.1%})".format(row.success_rate, *row.interval),
    "episodes": lambda row: str(row.episodes),
    "mean length": lambda row: f"{row.mean_length:.0f} steps",
    "seed": lambda row: str(row.seed),
    "config": lambda row: row.config_hash,
    "policy": lambda row: row.policy_sha256[:DIGITS],
    "changes": lambda row: ", ".join(f"{key.rpartition('.')[2]}={value}" for key, value in flatten(row.changes)),
}
"""Column of the table → its text."""


def table(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Return the table of a leaderboard."""
    return [{name: text(row) for name, text in CELLS.items()} for row in ranked(rows)]
