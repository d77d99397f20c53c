"""`train.py --seeds`: runs of one setting with several seeds, each an ordinary run in a process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mygym.cli.output import print_note
from mygym.errors import ConfigError, InterruptedRunError, RunError, bad_value
from mygym.reporting.comparison import summary_in_words
from mygym.reporting.records import find_runs
from mygym.training import directory
from mygym.training.stop_request import SEPARATE, SIGNALS, request_stop

RESUMED = ("interrupted", "stopped", "failed")
"""Statuses of runs that `--resume SETTING` continues."""

MAX_SEEDS = 1_000
"""Largest number of seeds of a command."""


def parse_seeds(text: str) -> list[int]:
    """Return the seeds of `5` (0 to 4), `3..7` or `0,2,5`.

    Raises:
        ConfigError: None of these forms, or too many seeds.
    """
    seeds: list[int] = []
    if match := re.fullmatch(r"(\d{1,9})\.\.(\d{1,9})", text):
        seeds = list(range(int(match[1]), min(int(match[2]), int(match[1]) + MAX_SEEDS) + 1))
    elif re.fullmatch(r"\d{1,9}", text):
        seeds = list(range(min(int(text), MAX_SEEDS + 1)))
    elif re.fullmatch(r"\d{1,9}(,\d{1,9})+", text):
        seeds = list(dict.fromkeys(map(int, text.split(","))))
    if not 0 < len(seeds) <= MAX_SEEDS:
        raise ConfigError(bad_value("--seeds", text, f"a number such as 5, 0..4, or 0,2,5; at most {MAX_SEEDS} seeds"))
    return seeds


@dataclass
class SeedRuns:
    """Runs of several seeds, in processes.

    Args:
        program: Words that start `train.py`, without flags.
        jobs: Processes at a time; each gets an equal share of the cores.
    """

    program: Sequence[str]
    jobs: int
    runs: dict[int, str] = field(default_factory=dict)
    """Seed → run directory."""
    codes: dict[int, int] = field(default_factory=dict)
    """Seed → exit code."""
    stopped: bool = False
    """Whether a signal has stopped the runs."""
    _processes: set[subprocess.Popen[str]] = field(default_factory=set)
    _lock: Any = field(default_factory=threading.RLock)  # a second signal may interrupt the handler of the first

    def train(self, commands: Mapping[int, Sequence[str]]) -> None:
        """Run the command of each seed; a signal stops all processes, which save checkpoints."""
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        shares = [cores[job :: self.jobs] for job in range(self.jobs)]
        free = list(range(self.jobs))

        def work(seed: int) -> None:
            with self._lock:
                if self.stopped:
                    return
                job = free.pop()
            try:
                self.codes[seed] = self._run(seed, commands[seed], shares[job])
            finally:
                free.append(job)

        with self._stopping(), ThreadPoolExecutor(self.jobs) as pool:
            for future in [pool.submit(work, seed) for seed in commands]:
                future.result()

    def _run(self, seed: int, command: Sequence[str], cores: Sequence[int]) -> int:
        threads = {"OMP_NUM_THREADS": str(max(1, len(cores)))} if self.jobs > 1 else {}
        with subprocess.Popen(  # noqa: S603  (the program that runs now)
            [*self.program, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**threads, **os.environ},
            **SEPARATE,  # Ctrl-C reaches the processes once, through `_stopping`
        ) as process:
            if self.jobs > 1 and cores:
                os.sched_setaffinity(process.pid, cores)
            with self._lock:
                self._processes.add(process)
                if self.stopped:
                    request_stop(process)
            for line in process.stderr or ():
                print_note(f"seed {seed}: {line.rstrip()}")
            for line in process.stdout or ():
                if line.startswith("run: "):
                    self.runs[seed] = line.removeprefix("run: ").rstrip("\n")
        with self._lock:
            self._processes.discard(process)
        return process.returncode

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        """Request that the processes stop at a signal, and start no further process."""

        def stop(*_: object) -> None:
            with self._lock:
                self.stopped = True
                for process in self._processes:
                    request_stop(process)

        previous = {kind: signal.signal(kind, stop) for kind in SIGNALS}
        try:
            yield
        finally:
            for kind, handler in previous.items():
                signal.signal(kind, handler)


def train_seeds(program: Sequence[str], words: Sequence[str], seeds: Sequence[int], jobs: int) -> None:
    """Train a setting with several seeds.

    Args:
        program: Words that start `train.py`, without flags.
        words: Flags of the config.
        seeds: Seeds of the runs.
        jobs: Processes at a time.

    Raises:
        InterruptedRunError: A signal has stopped the runs; their checkpoints are saved.
        RunError: A run has failed.
    """
    _train(program, {seed: [*words, "--seed", str(seed)] for seed in seeds}, jobs, None)


def resume_seeds(program: Sequence[str], setting: Path, seeds: Sequence[int] | None, jobs: int) -> None:
    """Continue the stopped runs of a setting, and start those of `seeds` that are missing.

    Args:
        program: Words that start `train.py`, without flags.
        setting: Folder of the runs.
        seeds: Seeds that the setting has at the end; None: those that it has.
        jobs: Processes at a time.

    Raises:
        ConfigError: The folder has no run.
        InterruptedRunError: A signal has stopped the runs; their checkpoints are saved.
        RunError: A run has failed.
    """
    records = {record.seed: record for record in find_runs(setting) if record.setting == str(setting)}
    if not records:
        raise ConfigError(bad_value("--resume", str(setting), "a run, or a setting with runs", "has no runs"))
    config = str(Path(next(iter(records.values())).path) / directory.CONFIG)
    logdir = str(setting.absolute().parents[3])  # LOGDIR/TASK/ROBOT/ALGO/SETTING; that of the config may be relative
    commands: dict[int, Sequence[str]] = {}
    for seed in seeds if seeds is not None else sorted(seed for seed in records if seed is not None):
        record = records.get(seed)
        if record is None:
            commands[seed] = ["--config", config, "--seed", str(seed), "--logdir", logdir]
        elif record.status in RESUMED:
            commands[seed] = ["--resume", record.path]
    _train(program, commands, jobs, setting)


def _train(program: Sequence[str], commands: Mapping[int, Sequence[str]], jobs: int, setting: Path | None) -> None:
    runs = SeedRuns(program, jobs)
    runs.train(commands)
    folder = setting or next((Path(run).parent for run in runs.runs.values()), None)
    if folder is None:
        raise RunError("no run has begun")
    if summary := summary_in_words(folder):
        print_note(summary)
    print(f"runs: {folder}")
    if runs.stopped:
        seeds = ",".join(map(str, commands))
        raise InterruptedRunError(f"interrupted; go on with: python train.py --resume {folder} --seeds {seeds}")
    failed = sorted(seed for seed, code in runs.codes.items() if code)
    if failed:
        raise RunError(f"the runs with the seeds {', '.join(map(str, failed))} have failed")
