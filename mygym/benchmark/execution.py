"""Execution of suites: a folder with the runs of each cell, their order, and the time left."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mygym.benchmark.stored import TABLE, CellRow, is_stored, read_stored
from mygym.benchmark.suite import Cell, Suite
from mygym.config import load_file
from mygym.config.layers import flatten
from mygym.config.schema import NOT_SHAPING, renamed
from mygym.errors import ConfigError, bad_value
from mygym.reporting.records import RunRecord, read_run
from mygym.reporting.settings import ENDED, different_keys
from mygym.reporting.tables import duration
from mygym.sweeps.executors import Executor, execute, stop_left_over
from mygym.sweeps.run import run_memory
from mygym.sweeps.space import with_values
from mygym.sweeps.storage import SeedRun, write_config
from mygym.training import directory, files
from mygym.training.env_factory import try_worlds_of

SUITE = "suite.yaml"
CELL = "cell.yaml"
CELLS = "cells"

_UNKNOWN = object()


@dataclass(frozen=True)
class PlannedRun:
    """The run of a cell and a seed, which may not have begun."""

    cell: Cell
    seed: int
    files: SeedRun

    @property
    def name(self) -> str:
        """`TASK/ROBOT/ENGINE/METHOD, seed S`."""
        return f"{self.cell.name}, seed {self.seed}"


class Benchmark:
    """A suite and the folder of its runs."""

    def __init__(self, suite: Suite, folder: Path) -> None:
        self.suite, self.folder = suite, folder.absolute()
        self._ended: dict[tuple[str, int], RunRecord] = {}

    @cached_property
    def stored(self) -> Mapping[str, CellRow]:
        """Name of a cell → its results in the table of the folder."""
        return read_stored(self.folder) if is_stored(self.folder) else {}

    @cached_property
    def runs(self) -> list[PlannedRun]:
        """The runs of all cells: the first seed of each, then the second …, short runs first."""
        planned = [
            (number, cell.resolved.config.steps, PlannedRun(cell, seed, SeedRun(self._folder(cell), seed, CELL)))
            for cell in self.suite.cells
            for number, seed in enumerate(cell.seeds)
        ]
        return [run for *_, run in sorted(planned, key=lambda each: each[:2])]

    def _folder(self, cell: Cell) -> Path:
        return self.folder / CELLS / cell.name

    def ended(self, run: PlannedRun) -> RunRecord | None:
        """Return a run that is done or has diverged, from its directory or else from the table in the folder; or None.

        A run that failed is executed again.
        """
        key = run.cell.name, run.seed
        if key not in self._ended:
            path = run.files.path
            record = read_run(path, time.time()) if path else self._stored(run)
            if record is not None and record.status in ENDED:
                self._ended[key] = record
        return self._ended.get(key)

    def _stored(self, run: PlannedRun) -> RunRecord | None:
        cell = self.stored.get(run.cell.name)
        records = cell.setting.records if cell is not None else ()
        return next((record for record in records if record.seed == run.seed), None)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Create the folder, or check that its cells are those of the suite, and hold its lock.

        Raises:
            ConfigError: A cell of the same name has other values, or another process executes the benchmark.
            RunError: The folder cannot be written.
        """
        files.check_writable(self.folder)
        for cell in self.suite.cells:
            self._check(cell)
        with files.writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        allowed = "a benchmark that no other process executes"
        with files.locked(self.folder / directory.LOCK, "benchmark", allowed, "is being executed by another process"):
            for cell in self.suite.cells:
                with files.writing(self._folder(cell)):
                    write_config(self._folder(cell), cell.values, CELL)
            files.write_yaml(self.folder / SUITE, self.suite.content)
            yield

    def _check(self, cell: Cell) -> None:
        file = self._folder(cell) / CELL
        if file.is_file():
            before, after = (dict(flatten(renamed(each, notify=False))) for each in (load_file(str(file)), cell.values))
        elif cell.name in self.stored:
            file = self.folder / TABLE
            before, after = _shared_values(self.stored[cell.name].setting.config, cell)
        else:
            return
        for key in different_keys(before, after):
            allowed = f"{before.get(key)!r} as in {file}; or a new `name` for the cell, or another --logdir"
            raise ConfigError(bad_value(f"{cell.name}: {key}", after.get(key), allowed, "differs from the runs there"))

    def try_worlds(self) -> None:
        """Build the world of each cell with runs that are left, so that a mistake is found before any run.

        Raises:
            ConfigError: Task, robot and other values of a cell do not fit together; nothing has been written.
        """
        try_worlds_of({f"the cell {run.cell.name}": run.cell.resolved for run in self._waiting()})

    def execute(
        self, executor: Executor, again: str, notify: Callable[[str], None], on_end: Callable[[], None]
    ) -> None:
        """Execute the runs that have not ended; `locked` holds the lock.

        `notify` gets a line for each run that ends; the command `again` continues after a signal.

        Raises:
            ConfigError: A run needs more memory than is free.
            InterruptedRunError: Ctrl-C, SIGTERM or SIGHUP; the runs have stopped with checkpoints.
        """
        stop_left_over(self.folder)
        waiting = self._waiting()
        kinds = {_kind(run.cell): run.cell for run in waiting}
        memory = {kind: run_memory(cell.resolved) for kind, cell in kinds.items()}
        if waiting:
            executor.limit(max(memory.values()))  # a cluster learns here how many runs fit
        notify(self.state(executor.jobs))
        left = dict(enumerate(waiting))

        def note(index: int) -> None:
            run = left.pop(index)
            notify(f"{self._outcome(run)}{self._left(list(left.values()), executor.jobs)}")
            on_end()

        jobs = [run.files.job(self.suite.imports, memory[_kind(run.cell)]) for run in waiting]
        execute(executor, jobs, note, again)

    def state(self, jobs: int) -> str:
        """Return how many runs are there and how many are left, with the time that they take, in words."""
        waiting = self._waiting()
        return f"{len(self.runs) - len(waiting)} of {len(self.runs)} runs are there{self._left(waiting, jobs)}"

    def _waiting(self) -> list[PlannedRun]:
        return [run for run in self.runs if self.ended(run) is None]

    def _outcome(self, run: PlannedRun) -> str:
        """Return what became of a run, in a line."""
        record = self.ended(run)
        if record is None:
            return f"{run.name}: failed: {run.files.failure().error}"
        rate = "diverged" if record.status == "diverged" else f"{100 * (record.success_rate or 0.0):.1f} %"
        return f"{run.name}: {rate} after {record.steps:,} steps, {duration(record.wall_time_s)}"

    def _left(self, waiting: Sequence[PlannedRun], jobs: int) -> str:
        """Return the number of runs that are waiting, and the time that they will take, as far as it is known."""
        if not waiting:
            return "; all have ended"
        estimates = self._estimates()
        known = [seconds for run in waiting if (seconds := estimates(run.cell)) is not None]
        about = f", about {duration(max(sum(known) / jobs, *known))}" if known else ""
        unknown = len(waiting) - len(known)
        return f"; {len(waiting)} left{about}{f' without {unknown} of unknown length' if known and unknown else ''}"

    def _estimates(self) -> Callable[[Cell], float | None]:
        """Return a function that estimates the s of a cell's runs; None if they are unknown.

        That is the median of the seeds that have ended; without them, of the s of each env step of the same method in
        the same engine, times the env steps.
        """
        seconds: dict[str, list[float]] = {}
        rates: dict[tuple[str, str], list[float]] = {}
        for run in self.runs:
            record = self.ended(run)
            if record is not None and record.wall_time_s:
                seconds.setdefault(run.cell.name, []).append(record.wall_time_s)
                rate = record.wall_time_s / max(1, record.steps)
                rates.setdefault((run.cell.method, run.cell.engine), []).append(rate)

        def estimate(cell: Cell) -> float | None:
            if cell.name in seconds:
                return statistics.median(seconds[cell.name])
            of_method = rates.get((cell.method, cell.engine))
            return statistics.median(of_method) * cell.resolved.config.steps if of_method else None

        return estimate


def _shared_values(stored: Mapping[str, Any], cell: Cell) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return dotted key → value, in a table and now, of the keys that the suite sets for a cell and the table knows.

    The table has a complete config, which shapes its results, perhaps of an older version that lacks a key.
    """
    before, after = dict[str, Any](), dict[str, Any]()
    old = with_values({}, {tuple(key.split(".")): value for key, value in stored.items()})
    new = cell.resolved.values()
    for key, value in flatten(renamed(cell.values, notify=False)):
        path = tuple(key.split("."))
        if path[0] in NOT_SHAPING or value == {}:  # which sets nothing
            continue
        known, now = _leaf(old, path), _leaf(new, path)
        if known is not _UNKNOWN and (now or known != {}):  # a mapping without a key has 0 there
            before[key], after[key] = known, now
    return before, after


def _leaf(config: Any, path: tuple[str, ...]) -> Any:
    """Return the value at a path in nested values, or that of a part of the path if it has no further keys.

    A text stands for a mapping whose first value it is, such as a controller without parameters: both are the text.
    """
    for name in path:
        if not isinstance(config, Mapping) or not config:
            return config
        if name not in config:
            return _UNKNOWN
        config = config[name]
    return next(iter(config.values())) if isinstance(config, Mapping) and config else config


def _kind(cell: Cell) -> tuple[Any, ...]:
    """Return what the memory of a run depends on, besides the sizes of its observations."""
    config = cell.resolved.config
    return config.algo, config.framework, config.engine, config.n_envs, config.learners, str(config.algo_params)
