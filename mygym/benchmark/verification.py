"""Verification: train a run of a benchmark again from its stored config, and test whether its result holds."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mygym.benchmark.execution import CELL, Benchmark, PlannedRun
from mygym.config import merged
from mygym.errors import ConfigError, bad_value
from mygym.reporting.records import RunRecord, read_run
from mygym.reporting.settings import ENDED
from mygym.reporting.statistics import SIGNIFICANCE, fisher_exact
from mygym.sweeps.executors import Executor, execute
from mygym.sweeps.run import run_memory
from mygym.sweeps.space import with_values
from mygym.sweeps.storage import SeedRun
from mygym.training import directory, files
from mygym.training.result import machine_in_words, versions

FOLDER = "verification"
"""Folder of the repeated runs, below that of the benchmark: a folder for each cell."""

UNFINISHED = "unfinished.json"
"""File with the names of the runs of a verification that has not ended, which the same command continues."""

NOT_REPEATED = ("seed", "logdir", "imports")
"""Keys of a stored config that the repeated run does not take from it."""


@dataclass(frozen=True)
class Verdict:
    """A result and its repetition."""

    cell: str
    seed: int
    success_rate: float
    again: float
    """Success rate of the repeated run; 0 if it diverged."""
    is_equal: bool
    """Whether steps, success and return are the same to the last digit."""
    p_value: float
    """Of Fisher's exact test on the successes of both runs' final episodes."""
    lowest: float
    highest: float
    """Lowest and highest success rate of the cell's seeds."""

    @property
    def holds(self) -> bool:
        """Whether the result holds: no significant difference, or none larger than between seeds."""
        return self.is_equal or self.p_value >= SIGNIFICANCE or self.lowest <= self.again <= self.highest

    @property
    def reason(self) -> str:
        """Why it holds or not, in words."""
        if self.is_equal:
            return "equal to the last digit"
        if self.p_value >= SIGNIFICANCE:
            return f"no significant difference (p = {self.p_value:.2f})"
        if self.holds:
            return f"differs (p = {self.p_value:.3f}), within the range of the seeds"
        return f"differs (p = {self.p_value:.1e}), outside the range of the seeds"


def chosen(benchmark: Benchmark, what: str, seed: int) -> list[PlannedRun]:
    """Return the finished runs to repeat: the first of the cell that `what` names, or a random sample of `what` runs.

    Raises:
        ConfigError: There is no such cell, or it has no finished run.
    """
    runs = [run for run in benchmark.runs if (record := benchmark.ended(run)) is not None and record.status == "done"]
    if not what.isdecimal():
        cell = benchmark.suite.cell(what)
        runs = [run for run in runs if run.cell.name == cell.name]
    if not runs:
        raise ConfigError(bad_value("--verify", what, "a cell with finished runs", "has no finished run"))
    if what.isdecimal() and int(what) < 1:
        raise ConfigError(bad_value("--verify", what, "a cell, or a number of runs, at least 1"))
    return random.Random(seed).sample(runs, min(int(what), len(runs))) if what.isdecimal() else runs[:1]  # noqa: S311


def verify(
    benchmark: Benchmark, runs: Sequence[PlannedRun], executor: Executor, again: str, notify: Callable[[str], None]
) -> list[Verdict]:
    """Train finished runs again from their stored configs, and compare the results; `Benchmark.locked` holds the lock.

    An interrupted verification of the same runs is continued; else those that have been repeated are repeated again.
    `notify` gets a line for each run that ends; the command `again` continues after a signal.

    Raises:
        InterruptedRunError: Ctrl-C, SIGTERM or SIGHUP; the runs have stopped with checkpoints.
    """
    unfinished, names = benchmark.folder / FOLDER / UNFINISHED, {"runs": [run.name for run in runs]}
    continues = unfinished.is_file() and json.loads(unfinished.read_text(encoding="utf-8")) == names
    repeated = [_prepared(benchmark, run, keep=continues) for run in runs]
    files.write_json(unfinished, names)
    memory = max(run_memory(run.cell.resolved) for run in runs)
    executor.limit(memory)
    verdicts: dict[int, Verdict] = {}

    def note(index: int) -> None:
        run = runs[index]
        path = repeated[index].path
        record = read_run(path, time.time()) if path else None
        if record is None or record.status not in ENDED:
            notify(f"{run.name}: failed: {repeated[index].failure().error}")
            return
        verdict = _verdict(benchmark, run, record)
        verdicts[index] = verdict
        content = {**asdict(verdict), "holds": verdict.holds, "machine": machine_in_words()}
        content |= {"versions": dict(versions()), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
        files.write_json(repeated[index].folder / f"seed_{run.seed}.json", content)
        notify(f"{run.name}: {'holds' if verdict.holds else 'does not hold'}: {verdict.reason}")

    left = []
    for index, run in enumerate(repeated):
        if _has_ended(run):
            note(index)
        else:
            left.append(index)
    jobs = [repeated[index].job(benchmark.suite.imports, memory) for index in left]
    execute(executor, jobs, lambda number: note(left[number]), again)
    unfinished.unlink()
    return [verdicts[index] for index in sorted(verdicts)]


def verdicts(folder: Path) -> dict[str, list[bool]]:
    """Return name of a cell → whether each of its repeated runs holds, of the verdicts in the folder of a benchmark."""
    found: dict[str, list[bool]] = {}
    for file in sorted((folder / FOLDER).glob("*/*/*/*/seed_*.json")):
        content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        found.setdefault(content["cell"], []).append(bool(content["holds"]))
    return found


def _has_ended(run: SeedRun) -> bool:
    return run.path is not None and read_run(run.path, time.time()).status in ENDED


def _prepared(benchmark: Benchmark, run: PlannedRun, keep: bool) -> SeedRun:
    """Return the repetition of a run, which has its stored config; without an earlier one that has ended, or `keep`."""
    folder = benchmark.folder / FOLDER / run.cell.name
    repeated = SeedRun(folder, run.seed, CELL)
    if (earlier := repeated.path) and not keep and _has_ended(repeated):
        files.remove(earlier)
    original = run.files.path
    if original is not None:
        config = directory.saved_config(original)
    else:  # the table has what shapes a result
        values = benchmark.stored[run.cell.name].setting.config.items()
        config = merged(run.cell.values, with_values({}, {tuple(key.split(".")): value for key, value in values}))
    with files.writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    files.write_yaml(folder / CELL, {key: value for key, value in config.items() if key not in NOT_REPEATED})
    return repeated


def _verdict(benchmark: Benchmark, run: PlannedRun, again: RunRecord) -> Verdict:
    first = benchmark.ended(run)
    assert first is not None  # it was chosen
    ended = [record for each in benchmark.runs if each.cell is run.cell and (record := benchmark.ended(each))]
    rates = [_success(record) for record in ended]
    rate, second = _success(first), _success(again)
    same = all(getattr(first, key) == getattr(again, key) for key in ("status", "steps", "success_rate", "mean_return"))
    trials = first.episodes, again.episodes or first.episodes  # a diverged run has no final episodes: it fails all
    p_value = fisher_exact((round(rate * trials[0]), round(second * trials[1])), trials)
    return Verdict(
        run.cell.name, run.seed, rate, second, same, p_value, min(rates, default=0.0), max(rates, default=1.0)
    )


def _success(record: RunRecord) -> float:
    """Return the success rate that counts; that of a diverged run is 0, not that of its last evaluation."""
    return record.success_rate or 0.0 if record.status == "done" else 0.0
