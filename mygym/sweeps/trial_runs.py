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


@dataclass(frozen=True)
class TrialRun:
    """The run of a seed, which may not have begun.

    Args:
        folder: Absolute path of the folder of the trial.
        seed: Seed of the run.
    """

    folder: Path
    seed: int

    @property
    def path(self) -> Path | None:
        """Run directory; None if the run has not begun."""
        return next((path.parent for path in self.folder.glob(f"*/*/*/*/seed_{self.seed}/{directory.CONFIG}")), None)

    @property
    def log(self) -> Path:
        """Output of its processes."""
        return self.folder / f"seed_{self.seed}.log"

    def job(self, imports: Sequence[str], memory: int = 0, steps: int | None = None) -> Job:
        """Return the job that starts the run, or continues it from its newest checkpoint.

        Args:
            imports: Modules that register components.
            memory: Estimated bytes of memory.
            steps: Env steps of the run at its end; None: those of its config.
        """
        return Job(partial(self._words, tuple(imports), steps), self.log, memory, self._is_busy)

    def _words(self, imports: Sequence[str], steps: int | None) -> tuple[str, ...]:
        if (run := self.path) is None:
            for path in self.folder.glob(f"*/*/*/*/seed_{self.seed}"):  # killed before it wrote a config
                files.remove(path)
            words = ["--config", str(self.folder / CONFIG), "--seed", str(self.seed), "--logdir", str(self.folder)]
        else:
            words = ["--resume", str(run)]
        length = ["--steps", str(steps)] if steps is not None else []
        return (*words, *length, *(word for module in imports for word in ("--import", module)))

    def _is_busy(self) -> bool:
        """Return whether a process that this sweep has not started is writing the run."""
        return (run := self.path) is not None and is_locked(run)

    def has_ended(self, steps: int) -> bool:
        """Return whether the run has ended and has, or would have without `stop_at_success`, a number of env steps."""
        run = self.path
        result = Result.read(run) if run else None
        if run is None or result is None or result.status not in ENDED:
            return False
        return result.steps >= steps or read_config(run)["steps"] == steps

    def outcome(self, objectives: Sequence[Objective]) -> Outcome | None:
        """Return the outcome of a run that has ended; None if it can be resumed, or has not begun."""
        return outcome_of(run, objectives) if (run := self.path) else None

    def failure(self) -> Outcome:
        """Return the outcome of a run whose process ended without a result; its error is the last line of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines() if self.log.is_file() else []
        last = next((line for line in reversed(lines) if line.strip() and not line.startswith("run: ")), "")
        return Outcome(self.seed, "failed", error=last.removeprefix("error: ") or f"see {self.log}")


def outcome_of(run: Path, objectives: Sequence[Objective]) -> Outcome | None:
    """Return the outcome of a run that has ended; None if it can be resumed."""
    result = Result.read(run)
    if result is None or result.status == "interrupted":
        return None
    seed, seconds = result.seed, result.wall_time_s
    if result.status == "failed":
        return Outcome(seed, "failed", (), seconds, result.error or "no reason")
    scores = {objective.name: objective.score(result) for objective in objectives}
    if missing := next((name for name, score in scores.items() if score is None), None):
        error = f"{result.status}, without a number {missing} in {result.path}/{directory.RESULT}"
        return Outcome(seed, "failed", (), seconds, error)
    return Outcome(seed, result.status, tuple(score for score in scores.values() if score is not None), seconds)


def figures_for_pruner(run: Path | None, sweep: Sweep, outcomes: Mapping[int, Outcome]) -> dict[int, float]:
    """Return step → figure of a trial: of the evaluations of its first seed; for `wilcoxon`, of its seeds so far.

    Args:
        run: Run of the first seed; None if it has not begun.
        sweep: The sweep.
        outcomes: Outcomes of the runs that have ended, by seed.
    """
    if sweep.settings.pruner == "wilcoxon":
        return {step: outcomes[seed].scores[0] for step, seed in enumerate(sweep.seeds) if seed in outcomes}
    curve = read_curve(read_run(run, time.time()), evaluations_only=True) if run else None
    if curve is None:
        return {}
    pairs = zip(*curve.along("steps", sweep.objective.metric), strict=True)
    figures = [float(figure) for step, figure in pairs if step > 0]
    return {step: sweep.objective.intermediate(figure) for step, figure in enumerate(figures, start=1)}
