"""Overhead of a benchmark: runs of a suite by `mygym benchmark`, and the same runs by hand, in turn.

    python benchmarks/suites.py > benchmarks/results/suites.md

Each side trains four runs of `sac` on `reach`, one after the other. Wall time of all commands of a side; median of five
(smallest to largest), and the median of the ratios of neighbours.
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

ROOT = Path(__file__).resolve().parents[1]
MYGYM = [sys.executable, "-m", "mygym"]
REPEATS, SEEDS = 5, 4
SET = {"steps": 2500, "eval": {"every": 500, "episodes": 25}, "video": {"episodes": 0}, "tensorboard": False}


def seconds(commands: Sequence[Sequence[str]]) -> float:
    """Return the wall time of commands, one after the other."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    begin = time.perf_counter()
    for command in commands:
        subprocess.run(command, check=True, capture_output=True, env=environment)
    return time.perf_counter() - begin


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    times: dict[str, list[float]] = {"by hand": [], "`mygym benchmark`": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "suite.yaml").write_text(
            yaml.safe_dump({"set": SET, "cells": [{"task": "reach", "algo": "sac", "seeds": SEEDS}]})
        )
        (folder / "run.yaml").write_text(yaml.safe_dump({"task": "reach", "algo": "sac", **SET}))
        for repeat in range(REPEATS):
            by_hand = [
                *MYGYM,
                "train",
                "--config",
                str(folder / "run.yaml"),
                "--logdir",
                str(folder / f"hand_{repeat}"),
            ]
            by_suite = [*MYGYM, "benchmark", str(folder / "suite.yaml"), "--logdir", str(folder / f"suite_{repeat}")]
            times["by hand"].append(seconds([[*by_hand, "--seed", str(seed)] for seed in range(SEEDS)]))
            times["`mygym benchmark`"].append(seconds([[*by_suite, "--jobs", "1"]]))
    print("# Suites\n\n| four runs | wall time, s |\n|---|---|")
    for side, values in times.items():
        print(f"| {side} | {statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f}) |")
    ratio = statistics.median(b / a for a, b in zip(*times.values(), strict=True))
    print(
        f"\nThe median of the ratios is {ratio:.3f}; it includes a start of Python and the table, once for the suite."
    )
    machine = f"{os.cpu_count()} cores of a shared machine, load {os.getloadavg()[0]:.1f}"
    print(f"\nMade by `python benchmarks/suites.py`; Python {platform.python_version()}, {machine}.")


if __name__ == "__main__":
    main()
