"""Folder of a sweep: `sweep.yaml`, the journal, `best.yaml`, tables, figures, and a folder for each trial."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mygym.config import load_file
from mygym.config.layers import flatten
from mygym.config.schema import renamed
from mygym.errors import ConfigError, RunError, bad_value
from mygym.reporting.records import SweepFiles
from mygym.reporting.settings import different_keys
from mygym.sweeps.samplers import distributions, quiet
from mygym.sweeps.settings import Sweep, make_sweep
from mygym.training import files

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.storages import JournalStorage
    from optuna.study import Study

JOURNAL = "journal.log"
TRIALS = "trials"
LOCK = ".lock"
STUDY = "mygym"
"""Name of the study in the journal; the brackets of `hyperband` depend on it."""


def trial_folder(folder: Path, number: int) -> Path:
    """Return the folder of a trial."""
    return folder / TRIALS / f"{number:04}"


def create(folder: Path, sweep: Sweep, past: Sequence[Mapping[str, Any]] = ()) -> None:
    """Create the folder of a new sweep.

    Args:
        folder: New folder.
        sweep: The sweep.
        past: Trials of past runs (`mygym.sweeps.past`), the first of the journal.

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
    """Return the sweep in a folder.

    Args:
        folder: The folder.
        flag: Flag that names it, for the message.

    Raises:
        ConfigError: The folder has no sweep.
    """
    if not files.is_file(folder / SweepFiles.SWEEP):
        near = sorted(str(path.parent) for path in folder.parent.glob(f"*/{SweepFiles.SWEEP}"))
        raise ConfigError(bad_value(flag, str(folder), near or "the folder of a sweep", f"has no {SweepFiles.SWEEP}"))
    return make_sweep(renamed(load_file(folder / SweepFiles.SWEEP), notify=False))


def check_same(where: Path, stored: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Refuse to resume a sweep with another space, config or setting; the number of trials may differ.

    Args:
        where: Place of `stored`, for the message.
        stored: `Sweep.fixed()` of the sweep in a folder.
        asked: That of the sweep that the user asks for.

    Raises:
        ConfigError: They differ; the message names the first key.
    """
    before, after = dict(flatten(stored)), dict(flatten(asked))
    for key in different_keys(before, after):
        why = f"differs from the sweep in {where}"
        raise ConfigError(bad_value(key, after.get(key), f"{before.get(key)!r}, or a new sweep with --logdir DIR", why))


def lock(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Return a context that holds the lock of a sweep; see `mygym.training.files.locked`."""
    allowed = "a sweep that no other process executes"
    return files.locked(folder / LOCK, "sweep", allowed, "is being searched by another process")


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
    """Yield the journal of a sweep.

    Raises:
        RunError: The journal is damaged.
    """
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
    if journal.is_file():
        content = journal.read_bytes()
        complete = content[: content.rfind(b"\n") + 1]
        if len(complete) < len(content):
            files.write_bytes(journal, complete)
