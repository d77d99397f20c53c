"""CPU time of the index of 5,000 runs, of a comparison of 2 × 10 seeds, and of pages of 100 and of 1,000 runs.

    python benchmarks/report.py > benchmarks/results/report.md

The runs are synthetic, as in the tests of reports. Medians of five (smallest to largest), with the sizes of the pages.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from mygym.cli.main import main as mygym_command
from mygym.registry import registry
from mygym.reporting.comparison import compare
from mygym.reporting.records import find_runs
from mygym.reporting.settings import find_settings
from mygym.tasks.lookup import find_task
from mygym.training import files
from tests.reporting.runs import make_run

REPEATS = 5
TASKS = ("reach", "push", "stack", "poke")


def make_runs(folder: Path) -> None:
    """Write 500 settings of ten seeds each; the first ten settings into `few`, the others into `runs`."""
    rng = np.random.default_rng(0)
    for number in range(500):
        place = folder / ("runs" if number >= 10 else "few")
        for seed in range(10):
            make_run(place, float(rng.random()), seed, task=TASKS[number % 4], n_envs=1 + number // 4)


def make_benchmark(folder: Path) -> None:
    """Write the benchmark of a suite of 20 tasks, ten methods and five seeds."""
    rng, methods = np.random.default_rng(0), [f"method {number}" for number in range(10)]
    tasks = [entry.name for entry in registry("task") if entry.built_in and find_task(entry.name).robot == "panda"]
    cells = [{"task": tasks, "algo": "ppo", "name": method, "seeds": 5} for method in methods]
    folder.mkdir()
    files.write_yaml(folder / "suite.yaml", {"cells": cells})
    for task, method, seed in itertools.product(tasks, methods, range(5)):
        cell = folder / "cells" / task / "panda" / "pybullet" / method
        make_run(cell, float(rng.random()), seed, task=task, algo="ppo")


def seconds(work: Callable[[], object]) -> str:
    """Format median and range of the CPU time of `REPEATS` calls, s."""
    times = []
    for _ in range(REPEATS):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return f"{statistics.median(times):.2f} ({min(times):.2f} to {max(times):.2f})"


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_runs(folder)
        make_benchmark(folder / "suite")
        few, page, index = folder / "few", folder / "report.html", folder / "suite" / "index.html"

        def command(*words: str) -> None:
            with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(SystemExit):
                mygym_command(words)

        rows = {
            "index of 5,000 runs": seconds(lambda: find_runs(folder)),
            "comparison of 2 × 10 seeds": seconds(lambda: compare(find_settings([few / "reach"])[:2])),
            "report of 100 runs": seconds(lambda: command("report", str(few), "-o", str(page), "--force")),
            "table and page of a benchmark of 1,000 runs": seconds(
                lambda: command("benchmark", str(folder / "suite"), "--table")
            ),
        }
        sizes = [path.stat().st_size / 1e6 for path in (page, index)]
    print("# Reports\n\n| work | CPU time, s |\n|---|---|")
    for work, times in rows.items():
        print(f"| {work} | {times} |")
    machine = f"{os.cpu_count()} cores of a shared machine, load {os.getloadavg()[0]:.1f}"
    print(f"\nThe report has {sizes[0]:.1f} MB, the page of the benchmark {sizes[1]:.1f} MB.")
    print(f"\nMade by `python benchmarks/report.py`; Python {platform.python_version()}, {machine}.")


if __name__ == "__main__":
    main()
