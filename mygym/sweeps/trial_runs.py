"""Runs of a trial: its folder, the commands that start and resume its runs, their evaluations and outcomes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mygym.reporting.curves import read_curve
from mygym.reporting.records import is_locked, read_run
from mygym.reporting.settings import ENDED
from mygym.sweeps.executors import Job
from mygym.sweeps.settings import Objective, Sweep
from mygym.training import directory, files
from mygym.training.loading import read_config
from mygym.training.result import Result

CONFIG = "trial.yaml"
"""Config of a trial; another name than that of a run's config, because the folder of a trial is no run."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run."""

    seed: int
    status: str
    """Status of the result; `failed` as well for a run without a result, and for a result without the objective."""
    scores: tuple[float, ...] = ()
    """Score of each objective; empty if the run failed."""
    seconds: float | None = None
    """Wall time of the run, s."""
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the outcome for the journal."""
        return {key: value for key, value in vars(self).items() if value not in (None, "", ())}


def write_config(folder: Path, config: Mapping[str, Any]) -> None:
    """Create the folder of a trial with its config; a folder of a killed sweep stays as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / CONFIG).is_file():
        files.write_yaml(folder / CONFIG, config)


def find_run(folder: Path, seed: int) -> Path | None:
    """Return the run directory of a seed in the folder of a trial; None if no run has begun."""
    return next((path.parent for path in folder.glob(f"*/*/*/*/seed_{seed}/{directory.CONFIG}")), None)


def job(folder: Path, seed: int, imports: Sequence[str], memory: int = 0, steps: int | None = None) -> Job:
    """Return the job that starts the run of a seed, or continues it from its newest checkpoint.

    Args:
        folder: Folder of the trial, an absolute path.
        seed: Seed of the run.
        imports: Modules that register components.
        memory: Estimated bytes of memory.
        steps: Env steps of the run at its end; None: those of its config.
    """
    return Job(
        partial(_words, folder, seed, tuple(imports), steps),
        _log(folder, seed),
        memory,
        partial(_is_busy, folder, seed),
    )


def _words(folder: Path, seed: int, imports: Sequence[str], steps: int | None) -> tuple[str, ...]:
    run = find_run(folder, seed)
    if run is None:
        for path in folder.glob(f"*/*/*/*/seed_{seed}"):  # its process was killed before it wrote a config
            files.remove(path)
        words = ["--config", str(folder / CONFIG), "--seed", str(seed), "--logdir", str(folder)]
    else:
        words = ["--resume", str(run)]
    length = ["--steps", str(steps)] if steps is not None else []
    return (*words, *length, *(word for module in imports for word in ("--import", module)))


def has_ended(run: Path | None, steps: int) -> bool:
    """Return whether a run has ended that has, or would have without `stop_at_success`, a number of env steps."""
    result = Result.read(run) if run else None
    if result is None or run is None or result.status not in ENDED:
        return False
    return result.steps >= steps or read_config(run)["steps"] == steps


def _is_busy(folder: Path, seed: int) -> bool:
    """Return whether a process that this sweep has not started is writing the run of a seed."""
    run = find_run(folder, seed)
    return run is not None and is_locked(run)


def figures_for_pruner(run: Path | None, sweep: Sweep, outcomes: Mapping[int, Outcome]) -> dict[int, float]:
    """Return step → figure of a trial: of the evaluations of its first seed; for `wilcoxon`, of its seeds so far.

    Args:
        run: Run of the first seed; None if it has not begun.
        sweep: The sweep.
        outcomes: Outcomes of the runs that have ended, by seed.
    """
    if sweep.settings.pruner == "wilcoxon":
        return {step: outcomes[seed].scores[0] for step, seed in enumerate(sweep.seeds) if seed in outcomes}
    figures = evaluations(run, sweep.objective.metric) if run else []
    return {step: sweep.objective.intermediate(figure) for step, figure in enumerate(figures, start=1)}


def evaluations(run: Path, metric: str) -> list[float]:
    """Return a figure, `success` or `return`, of each evaluation of a run so far, without that at step 0."""
    curve = read_curve(read_run(run, time.time()), evaluations_only=True)
    if curve is None:
        return []
    steps, figures = curve.along("steps", metric)
    return [float(figure) for step, figure in zip(steps, figures, strict=True) if step > 0]


def outcome(folder: Path, seed: int, objectives: Sequence[Objective]) -> Outcome | None:
    """Return the outcome of a run that has ended; None if it can be resumed, or has not begun."""
    run = find_run(folder, seed)
    return outcome_of(run, objectives) if run else None


def outcome_of(run: Path, objectives: Sequence[Objective]) -> Outcome | None:
    """Return the outcome of a run that has ended; None if it can be resumed."""
    result = Result.read(run)
    if result is None or result.status == "interrupted":
        return None
    seed, seconds = result.seed, result.wall_time_s
    if result.status == "failed":
        return Outcome(seed, "failed", (), seconds, result.error or "no reason")
    scores = [objective.score(result) for objective in objectives]
    for objective, score in zip(objectives, scores, strict=True):
        if score is None:
            error = f"{result.status}, without a number {objective.name} in {result.path}/{directory.RESULT}"
            return Outcome(seed, "failed", (), seconds, error)
    return Outcome(seed, result.status, tuple(score for score in scores if score is not None), seconds)


def failure(folder: Path, seed: int) -> Outcome:
    """Return the outcome of a run whose process has ended without a result; its error is the last line of its log."""
    log = _log(folder, seed)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
    last = next((line for line in reversed(lines) if line.strip() and not line.startswith("run: ")), "")
    return Outcome(seed, "failed", error=last.removeprefix("error: ") or f"see {log}")


def _log(folder: Path, seed: int) -> Path:
    return folder / f"seed_{seed}.log"
