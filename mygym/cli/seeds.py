"""`train.py --seeds`: runs of one setting with several seeds, each an ordinary run in a process."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from mygym.cli.output import print_note
from mygym.errors import ConfigError, InterruptedRunError, RunError, bad_value
from mygym.reporting.comparison import summary_in_words
from mygym.reporting.records import find_runs
from mygym.sweeps.executors import Job, LocalExecutor, execute, start
from mygym.training import directory
from mygym.training.stop_request import SEPARATE

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
class SeedProcess:
    """A process that trains a seed."""

    process: subprocess.Popen[bytes]
    seed: int
    cores: Sequence[int]
    output: BinaryIO
    rest: bytes = b""
    """Begin of a line of its output."""


class SeedExecutor(LocalExecutor):
    """Processes with an equal share of the cores each; their output is printed as it comes.

    Args:
        program: Words that start `train.py`, without flags.
        jobs: Processes at a time.
    """

    def __init__(self, program: Sequence[str], jobs: int) -> None:
        super().__init__(jobs, program)
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self._free: list[Sequence[int]] = [cores[job::jobs] for job in range(jobs)]
        self.runs: dict[int, str] = {}
        """Seed → run directory."""
        self.failed: list[int] = []
        """Seeds whose processes have ended with another exit code than 0."""

    def submit(self, job: Job) -> SeedProcess:
        """Start the process of the seed that the name of the log has."""
        share = self._free.pop()
        process = start(self.program, job, max(1, len(share)) if self.jobs > 1 else None, **SEPARATE)
        if self.jobs > 1 and share:
            os.sched_setaffinity(process.pid, share)
        return SeedProcess(process, int(job.log.stem), share, job.log.open("rb"))

    def poll(self, handle: SeedProcess) -> int | None:
        """Print the new lines of the output of a process; return its exit code, or None while it is executing."""
        code = handle.process.poll()
        *lines, handle.rest = (handle.rest + handle.output.read()).split(b"\n")
        if code is not None and handle.rest:
            lines.append(handle.rest)
        for text in (line.decode(errors="replace").rstrip() for line in lines):
            if text.startswith("run: "):
                self.runs[handle.seed] = text.removeprefix("run: ")
            else:
                print_note(f"seed {handle.seed}: {text}")
        if code is not None:
            handle.output.close()
            self._free.append(handle.cores)
            self.failed += [handle.seed] if code else []
        return code

    def stop(self, handle: SeedProcess) -> None:
        """Request that a process stops with a checkpoint."""
        super().stop(handle.process)


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
    executor, stopped = SeedExecutor(program, jobs), False
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as logs:
        queue = [Job(partial(tuple, words), Path(logs, f"{seed}.log")) for seed, words in commands.items()]
        try:
            execute(executor, queue, lambda index: None, "")
        except InterruptedRunError:
            stopped = True
    folder = setting or next((Path(run).parent for run in executor.runs.values()), None)
    if folder is None:
        raise RunError("no run has begun")
    if summary := summary_in_words(folder):
        print_note(summary)
    print(f"runs: {folder}")
    if stopped:
        seeds = ",".join(map(str, commands))
        raise InterruptedRunError(f"interrupted; go on with: python train.py --resume {folder} --seeds {seeds}")
    if executor.failed:
        failed = ", ".join(map(str, sorted(executor.failed)))
        raise RunError(f"the runs with the seeds {failed} have failed")
