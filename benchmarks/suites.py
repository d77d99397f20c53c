"""Overhead of a benchmark: runs of a suite by `mygym benchmark`, and the same runs by hand, in turn.

    python benchmarks/suites.py > benchmarks/results/suites.md

Each side trains runs of `sac` on `reach`, one after the other: one run, and five. Wall time of all commands of a side;
median of five (smallest to largest). The overhead of a start, with Python, the plan and the table, and that of each run
follow from the medians of the differences of neighbours; the last line is their share of a suite as long as `quick`.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import yaml

from mygym.benchmark.suite import load_suite

ROOT = Path(__file__).resolve().parents[1]
MYGYM = [sys.executable, "-m", "mygym"]
REPEATS, COUNTS = 5, (1, 5)
SET = {"steps": 1500, "eval": {"every": 500, "episodes": 25}, "video": {"episodes": 0}, "tensorboard": False}

QUICK = 600.0
"""s of the suite `quick` on two cores."""


def seconds(commands: Sequence[Sequence[str]]) -> float:
    """Return the wall time of commands, one after the other."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    begin = time.perf_counter()
    for command in commands:
        subprocess.run(command, check=True, capture_output=True, env=environment)
    return time.perf_counter() - begin


def pair(folder: Path, runs: int) -> tuple[float, float]:
    """Return the wall time of runs by hand and by a suite, in a new folder."""
    folder.mkdir()
    run, suite = folder / "run.yaml", folder / "suite.yaml"
    run.write_text(yaml.safe_dump({"task": "reach", "algo": "sac", **SET}))
    suite.write_text(yaml.safe_dump({"set": SET, "cells": [{"task": "reach", "algo": "sac", "seeds": runs}]}))
    by_hand = [*MYGYM, "train", "--config", str(run), "--logdir", str(folder / "hand")]
    by_suite = [*MYGYM, "benchmark", str(suite), "--logdir", str(folder / "suite"), "--jobs", "1"]
    return seconds([[*by_hand, "--seed", str(seed)] for seed in range(runs)]), seconds([by_suite])


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    times: dict[int, list[tuple[float, float]]] = {runs: [] for runs in COUNTS}
    with tempfile.TemporaryDirectory() as name:
        for repeat in range(REPEATS):
            for runs in COUNTS:
                times[runs].append(pair(Path(name) / f"{repeat}_{runs}", runs))
    print("# Suites\n\n| runs | by hand, s | `mygym benchmark`, s |\n|---|---|---|")
    for runs, pairs in times.items():
        sides = [
            f"{statistics.median(side):.1f} ({min(side):.1f} to {max(side):.1f})" for side in zip(*pairs, strict=True)
        ]
        print(f"| {runs} | {' | '.join(sides)} |")
    few, many = (statistics.median(suite - hand for hand, suite in times[runs]) for runs in COUNTS)
    of_run = (many - few) / (COUNTS[1] - COUNTS[0])
    start = few - COUNTS[0] * of_run
    number = sum(len(cell.seeds) for cell in load_suite("quick").cells)
    share = (start + number * of_run) / QUICK
    print(f"\nA start takes {start:.1f} s more, each run {of_run:.2f} s more.")
    print(f"Of the ten minutes of `quick` with its {number} runs that is {100 * share:.1f} %.")
    machine = f"{os.cpu_count()} cores of a shared machine, load {os.getloadavg()[0]:.1f}"
    print(f"\nMade by `python benchmarks/suites.py`; Python {platform.python_version()}, {machine}.")


if __name__ == "__main__":
    main()
