"""Folder of a sweep: `sweep.yaml`, the journal, `best.yaml`, tables, figures; a folder for each trial, and its runs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mygym.config import load_file
from mygym.config.layers import flatten
from mygym.config.schema import renamed
from mygym.errors import ConfigError, RunError, bad_value
from mygym.reporting.curves import read_curve
from mygym.reporting.records import SweepFiles, is_locked, read_run
from mygym.reporting.settings import ENDED, different_keys
from mygym.sweeps.executors import Job
from mygym.sweeps.settings import Objective, Sweep, make_sweep
from mygym.sweeps.space import distributions, quiet
from mygym.training import directory, files
from mygym.training.loading import read_config
from mygym.training.logs import trim_partial_records
from mygym.training.result import Result

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.storages import JournalStorage
    from optuna.study import Study

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


def write_config(folder: Path, config: Mapping[str, Any], name: str = CONFIG) -> None:
    """Create the folder of a trial with its config; a folder of a killed sweep stays as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / name).is_file():
        files.write_yaml(folder / name, config)


@dataclass(frozen=True)
class SeedRun:
    """The run of a seed, which may not have begun, of the config in a folder."""

    folder: Path
    seed: int
    config: str = CONFIG
    """Name of the config in the folder."""

    @property
    def path(self) -> Path | None:
        """Run directory; None if the run has not begun."""
        return next((path.parent for path in self.folder.glob(f"*/*/*/*/seed_{self.seed}/{directory.CONFIG}")), None)

    @property
    def log(self) -> Path:
        """Output of its processes."""
        return self.folder / f"seed_{self.seed}.log"

    def job(self, imports: Sequence[str], memory: int = 0, steps: int | None = None) -> Job:
        """Return the job that starts the run, or continues it from its newest checkpoint, up to some env steps."""
        return Job(partial(self._words, tuple(imports), steps), self.log, memory, self._is_busy)

    def _words(self, imports: Sequence[str], steps: int | None) -> tuple[str, ...]:
        if (run := self.path) is None:
            for path in self.folder.glob(f"*/*/*/*/seed_{self.seed}"):  # killed before it wrote a config
                files.remove(path)
            words = ["--config", str(self.folder / self.config), "--seed", str(self.seed), "--logdir", str(self.folder)]
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

    `run` is that of the first seed, None before it has begun; `outcomes` has the runs that have ended, by seed.
    """
    if sweep.settings.pruner == "wilcoxon":
        return {step: outcomes[seed].scores[0] for step, seed in enumerate(sweep.seeds) if seed in outcomes}
    curve = read_curve(read_run(run, time.time()), evaluations_only=True) if run else None
    if curve is None:
        return {}
    pairs = zip(*curve.along("steps", sweep.objective.metric), strict=True)
    figures = [float(figure) for step, figure in pairs if step > 0]
    return {step: sweep.objective.intermediate(figure) for step, figure in enumerate(figures, start=1)}


JOURNAL = "journal.log"
TRIALS = "trials"
STUDY = "mygym"
"""Name of the study in the journal; the brackets of `hyperband` depend on it."""


def trial_folder(folder: Path, number: int) -> Path:
    """Return the folder of a trial."""
    return folder / TRIALS / f"{number:04}"


def create(folder: Path, sweep: Sweep, past: Sequence[Mapping[str, Any]] = ()) -> None:
    """Create the folder of a new sweep; `past` are trials of past runs, the first of the journal.

    Raises:
        ConfigError: The folder exists, or cannot be created.
        RunError: A file cannot be written.
    """
    files.check_new(folder, "--logdir", "a folder")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        why = f"cannot be created ({error.strerror or error})"
        raise ConfigError(bad_value("--logdir", str(folder), "a folder that you may write to", why)) from None
    if past:
        import optuna

        first = 0 if sweep.settings.pruner == "wilcoxon" else 1
        with quiet(), files.writing(folder / JOURNAL):
            open_study(folder, sweep).add_trials(
                optuna.trial.create_trial(
                    values=trial["scores"],
                    params=trial["values"],
                    distributions=distributions(sweep.parameters),
                    intermediate_values=dict(enumerate(trial["figures"], start=first)),
                    user_attrs={"runs": trial["runs"], "past": trial["past"]},
                )
                for trial in past
            )
    files.write_yaml(folder / SweepFiles.SWEEP, sweep.to_file())  # last: from now on the folder is a sweep


def read(folder: Path, flag: str = "--resume") -> Sweep:
    """Return the sweep in a folder; refuse a folder without one."""
    if not files.is_file(folder / SweepFiles.SWEEP):
        near = sorted(str(path.parent) for path in folder.parent.glob(f"*/{SweepFiles.SWEEP}"))
        raise ConfigError(bad_value(flag, str(folder), near or "the folder of a sweep", f"has no {SweepFiles.SWEEP}"))
    return make_sweep(renamed(load_file(folder / SweepFiles.SWEEP), notify=False))


def check_same(where: Path, stored: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Refuse to resume a sweep with another space, config or setting; the number of trials may differ.

    `stored` is the `Sweep.fixed()` of the sweep in a place, `asked` that of the sweep that the user asks for.

    Raises:
        ConfigError: They differ; the message names the first key.
    """
    before, after = dict(flatten(renamed(stored, notify=False))), dict(flatten(renamed(asked, notify=False)))
    for key in different_keys(before, after):
        why = f"differs from the sweep in {where}"
        raise ConfigError(bad_value(key, after.get(key), f"{before.get(key)!r}, or a new sweep with --logdir DIR", why))


def lock(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Return a context that holds the lock of a sweep; see `mygym.training.files.locked`."""
    allowed = "a sweep that no other process executes"
    return files.locked(folder / directory.LOCK, "sweep", allowed, "is being searched by another process")


def open_study(folder: Path, sweep: Sweep, pruner: BasePruner | None = None) -> Study:
    """Return the study in the journal of a sweep that this process has locked.

    Raises:
        ConfigError: The journal belongs to another space.
        RunError: The journal is damaged.
    """
    import optuna

    _repair(folder / JOURNAL)
    with _journal(folder) as storage:
        study = optuna.create_study(
            storage=storage,
            study_name=STUDY,
            directions=["maximize" if each.maximize else "minimize" for each in sweep.objectives],
            pruner=pruner,
            load_if_exists=True,
        )
    if "sweep" in study.user_attrs:
        check_same(folder / JOURNAL, study.user_attrs["sweep"], sweep.fixed())
    else:
        study.set_user_attr("sweep", sweep.fixed())
    return study


def load_study(folder: Path) -> Study | None:
    """Return the study of a sweep that another process may execute, for reading; None before it has begun.

    Raises:
        RunError: The journal is damaged.
    """
    import optuna

    if not (folder / JOURNAL).is_file():
        return None
    with _journal(folder) as storage:
        known = STUDY in optuna.get_all_study_names(storage)
        return optuna.load_study(study_name=STUDY, storage=storage) if known else None


@contextlib.contextmanager
def _journal(folder: Path) -> Iterator[JournalStorage]:
    """Yield the journal of a sweep."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    try:
        yield JournalStorage(JournalFileBackend(str(folder / JOURNAL)))
    except (ValueError, LookupError, TypeError) as error:
        raise RunError(f"{folder / JOURNAL}: is damaged: {type(error).__name__}: {error}") from error


def _repair(journal: Path) -> None:
    """Remove the remains of a killed process: the lock of the journal, and a part of its last line."""
    for lock_of_journal in journal.parent.glob(f"{journal.name}.lock*"):
        lock_of_journal.unlink()
    trim_partial_records(journal)
