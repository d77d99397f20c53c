"""Judgement of runs: fresh episodes of the saved policy, on seeds that no training and no evaluation uses."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mygym.config.schema import NOT_SHAPING
from mygym.errors import ConfigError, bad_value
from mygym.nested import changed
from mygym.planning.resolve import resolve_config
from mygym.reporting.leaderboard import Row
from mygym.reporting.records import RunRecord, find_runs
from mygym.training import directory, env_factory, files, model_factory
from mygym.training.evaluation import JUDGE, episode_seeds, evaluate_or_fail
from mygym.training.loading import find_plan, load
from mygym.training.result import Result, versions

SEED = 0
"""Seed of the judge's episodes, the same for all runs."""

FIRST, AGAIN, CERTIFIED = 0, 1, 2
"""Numbers of the judge's sets of episodes: for rows, for their repetition on other episodes, and for certificates."""

CHOICE = ("algo", "framework", "task", "robot", "workspace")
"""Keys of a config that choose its defaults."""

SIZE = ("steps", "n_envs")
"""Keys of a config from which other values follow, such as the size of the replay buffer."""


@dataclass(frozen=True)
class Repetition:
    """A row, and the judgement of the same run on other episodes."""

    row: Row
    again: Row

    @property
    def difference(self) -> str:
        """Reason why the two disagree; empty if they agree."""
        if self.again.policy_sha256 != self.row.policy_sha256:
            return "the weights are not those of the row"
        if self.again.config_hash != self.row.config_hash:
            return "the config is not that of the row"
        (low, high), (again_low, again_high) = self.row.interval, self.again.interval
        return "" if low <= again_high and again_low <= high else "the intervals do not overlap"


def find_finished(sources: Iterable[str | Path]) -> tuple[list[RunRecord], list[RunRecord]]:
    """Return the finished and the unfinished runs below folders, each run once.

    Raises:
        ConfigError: A folder does not exist, or no run is finished.
    """
    paths = [str(source) for source in sources]
    records = {Path(record.path).absolute(): record for path in paths for record in find_runs(path)}
    finished = [record for record in records.values() if record.status == "done"]
    unfinished = [record for record in records.values() if record.status != "done"]
    if not finished:
        statuses = ", ".join(sorted({record.status for record in unfinished})) or "no runs"
        why = f"has {statuses}"
        raise ConfigError(bad_value("runs", ", ".join(paths), "a folder with runs whose status is done", why))
    return finished, unfinished


def judge(run: Path, episodes: int, number: int = FIRST) -> Row:
    """Play episodes with the saved policy of a finished run.

    Args:
        run: The run directory, from which only `config.yaml`, `result.json` and `policy.safetensors` are read.
        episodes: Number of episodes.
        number: Number of the set of episodes: `FIRST` or `AGAIN`.

    Raises:
        ConfigError: The run is not finished.
        RunError: The policy cannot be loaded, or its actions are not finite.
    """
    result = finished_result(run)
    plan = find_plan(run)
    policy = load(run)
    with contextlib.ExitStack() as stack:
        envs = env_factory.make_eval_envs(plan, stack, episodes)
        seeds = episode_seeds(SEED, JUDGE, episodes, number, env=envs[0])
        evaluation = evaluate_or_fail(str(run), policy, envs, seeds)
    return Row(
        run=label(result),
        task=result.task,
        robot=result.robot,
        workspace=result.workspace,
        algo=result.algo,
        framework=result.framework,
        seed=result.seed,
        config_hash=result.config_hash,
        changes=_changes(plan.resolved.values()),
        steps=result.steps,
        training_s=round(result.wall_time_s, 1),
        episodes=len(evaluation.episodes),
        successes=evaluation.solved,
        mean_length=evaluation.mean_length,
        policy_sha256=files.checksum((run / directory.POLICY).read_bytes()),
        versions=dict(versions()),
        date=datetime.now(UTC).date().isoformat(),
    )


def finished_result(run: Path) -> Result:
    """Return the result of a finished run.

    Raises:
        ConfigError: The run is not finished.
    """
    result = Result.read(run)
    if result is None or result.status != "done":
        status = result.status if result else "without a readable result.json"
        raise ConfigError(bad_value("run", str(run), "a run whose status is done", f"is {status}"))
    return result


def label(result: Result) -> str:
    """Return the name of a run in leaderboards, which holds no folder of this machine."""
    return "/".join([result.task, result.robot, result.algo, result.config_hash, result.path.name])


def rejudge(rows: Sequence[Row], sources: Iterable[str | Path], episodes: int | None = None) -> list[Repetition]:
    """Judge the runs of rows again, on other episodes.

    Args:
        rows: Rows of a leaderboard; those whose runs are not below `sources` are left out.
        sources: Folders that hold the runs.
        episodes: Number of episodes; None: that of each row.

    Raises:
        ConfigError: No run of a row exists.
    """
    finished, _ = find_finished(sources)
    results = (Result.read(Path(record.path)) for record in finished)
    runs = {label(result): result.path for result in results if result is not None}
    known = [row for row in rows if row.run in runs]
    if not known:
        names = ", ".join(row.run for row in rows) or "no rows"
        raise ConfigError(
            bad_value("runs", names, "the folder that holds the runs of the rows", "are not in this folder")
        )
    return [Repetition(row, judge(runs[row.run], episodes or row.episodes, AGAIN)) for row in known]


def _changes(values: dict[str, Any]) -> dict[str, Any]:
    """Return the nested values of a complete config that differ from the defaults, without those that follow."""
    chosen = {key: values[key] for key in CHOICE}
    size = {key: values[key] for key in SIZE}
    of_same_size = model_factory.explained(resolve_config(overrides={**chosen, **size})).values()
    different = changed(size, resolve_config(overrides=chosen).values()) | changed(values, of_same_size)
    return {key: value for key, value in different.items() if key not in NOT_SHAPING}
