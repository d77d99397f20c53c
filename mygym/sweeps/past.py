"""Past runs of the same space: finished runs in other folders, which become trials without training."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mygym.config import config_hash
from mygym.errors import ConfigError, bad_value
from mygym.nested import at, merged
from mygym.planning.resolve import resolve_config
from mygym.reporting.records import find_runs
from mygym.reporting.settings import ENDED
from mygym.sweeps import trial_runs
from mygym.sweeps.settings import FAST, Sweep, judge
from mygym.sweeps.space import with_values
from mygym.training import directory
from mygym.training.model_factory import explained
from mygym.training.result import Result

JUDGED = ("eval", "stop_at_success")
"""Config keys that the hash of a config leaves out, and that change evaluations."""


def find_trials(sweep: Sweep, folders: Iterable[str | Path]) -> list[dict[str, Any]]:
    """Return the trials of past runs: of each combination of values, the runs of all seeds of the sweep.

    The config of a run must be that of a trial of the sweep, and the run must have ended. Values of the parameters must
    lie within their ranges.

    Args:
        sweep: The sweep.
        folders: Folders with runs.

    Raises:
        ConfigError: A folder does not exist, or has no such runs.
    """
    trials: list[dict[str, Any]] = []
    for folder in folders:
        of_folder = _in_folder(sweep, folder)
        if not of_folder:
            seeds = ", ".join(map(str, sweep.seeds))
            allowed = f"a folder with finished runs of this space, each with the seeds {seeds}"
            raise ConfigError(bad_value("--past", str(folder), allowed, "has no such runs"))
        trials += [trial for trial in of_folder if all(trial["values"] != other["values"] for other in trials)]
    return trials


def _in_folder(sweep: Sweep, folder: str | Path) -> list[dict[str, Any]]:
    settings: dict[str, dict[int, Path]] = {}
    for record in find_runs(folder):
        if record.status in ENDED and record.seed in sweep.seeds:
            settings.setdefault(record.setting, {}).setdefault(record.seed, Path(record.path))
    trials = []
    for runs in settings.values():
        if len(runs) == len(sweep.seeds) and (values := _values(sweep, runs[sweep.seeds[0]])) is not None:
            found = {seed: trial_runs.outcome_of(runs[seed], sweep.objectives) for seed in sweep.seeds}
            outcomes = {seed: outcome for seed, outcome in found.items() if outcome is not None and outcome.scores}
            if len(outcomes) == len(sweep.seeds):
                first = runs[sweep.seeds[0]]
                trials.append(
                    {
                        "values": values,
                        "scores": judge([outcome.scores for outcome in outcomes.values()]),
                        "figures": list(trial_runs.figures_for_pruner(first, sweep, outcomes).values()),
                        "runs": [outcome.to_json() for outcome in outcomes.values()],
                        "past": str(first.parent),
                    }
                )
    return trials


def _values(sweep: Sweep, run: Path) -> dict[str, Any] | None:
    """Return key → stored value of each parameter in a run; None if the run is not in the space."""
    config, result = directory.saved_config(run), Result.read(run)
    values = {each.path: at(config, each.path) for each in sweep.parameters}
    if result is None or not all(each.contains(values[each.path]) for each in sweep.parameters):
        return None
    try:
        trial = resolve_config(merged(FAST, with_values(sweep.base, values)))
    except ConfigError:
        return None
    same = all(trial.values()[key] == config.get(key) for key in ("algo", "task", "robot", *JUDGED))
    if not same or config_hash(explained(trial).values()) != result.config_hash:
        return None
    return {each.key: each.stored(values[each.path]) for each in sweep.parameters}
