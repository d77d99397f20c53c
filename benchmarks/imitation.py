"""`dagger` and `bc` from launch to the saved model, with the defaults they ship with: what they solve, and how soon.

    python benchmarks/imitation.py > benchmarks/results/imitation.md

For each task and each seed it runs `python train.py --algo ALGO --task TASK --robot panda --seed S --logdir TEMPORARY`,
one at a time. Success is the run's own final number: 100 fresh episodes of the saved model. Its interval is Wilson's of
95 %, over the episodes of all seeds together, as if they were of one policy. Seconds: the whole command by the clock,
imports, evaluations and films included; they are those of a quiet machine only if nothing else runs.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TASKS = ("pick_and_place", "push", "stack", "AGMDW")
EPISODES = 100
"""Of a run's final evaluation."""
Z = 1.96
"""Standard deviations of a normal distribution that 95 % are within."""

Row = dict[str, Any]


def wilson(successes: int, episodes: int) -> tuple[float, float]:
    """Bounds of the success rate (Wilson, 1927)."""
    share, size = successes / episodes, Z**2 / episodes
    middle = (share + size / 2) / (1 + size)
    half = Z * math.sqrt(share * (1 - share) / episodes + size / (4 * episodes)) / (1 + size)
    return middle - half, middle + half


def command_of(algo: str, task: str) -> list[str]:
    """How it is trained, the seed left out."""
    return ["train.py", "--algo", algo, "--task", task, "--robot", "panda"]


def run(algo: str, task: str, seed: int) -> Row:
    """One run.

    Raises:
        RuntimeError: It failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *command_of(algo, task), "--seed", str(seed), "--logdir", folder]
        begin = time.perf_counter()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - begin
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
        path = done.stdout.rstrip().rpartition("\n")[2].removeprefix("run: ")
        result = json.loads((Path(path) / "result.json").read_text(encoding="utf-8"))
    return {"seed": seed, "seconds": seconds, "steps": result["steps"], "success": result["success_rate"]}


def line(algo: str, task: str, rows: list[Row]) -> str:
    """Of the table."""
    episodes = EPISODES * len(rows)
    successes = round(sum(EPISODES * row["success"] for row in rows))
    low, high = wilson(successes, episodes)
    each = ", ".join(f"{100 * row['success']:.0f}" for row in rows)
    steps, seconds = ([row[key] for row in rows] for key in ("steps", "seconds"))
    return (
        f"| `python {' '.join(command_of(algo, task))} --seed S` | {len(rows)} "
        f"| **{100 * successes / episodes:.1f}** ({100 * low:.1f}–{100 * high:.1f}) | {each} "
        f"| {statistics.median(steps):,.0f} ({min(steps):,}–{max(steps):,}) "
        f"| {statistics.median(seconds):.0f} ({min(seconds):.0f}–{max(seconds):.0f}) |"
    )


def main() -> None:
    """Run, and print the table line by line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algo", nargs="+", default=["dagger"], help="algorithms (default: dagger)")
    parser.add_argument("--task", nargs="+", default=TASKS, help="tasks (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 0 (default: %(default)s)")
    options = parser.parse_args()

    versions = ", ".join(f"{name} {version(name)}" for name in ("stable-baselines3", "torch", "pybullet"))
    print("# Learning from the scripted expert\n")
    print(f"`python benchmarks/imitation.py`; Python {platform.python_version()}, {platform.machine()}, {versions}.")
    print("What the columns mean: the docstring of the program.\n")
    print("| command | seeds | success, % (95 % interval) | each | env steps (range) | seconds (range) |")
    print("|---|---|---|---|---|---|")
    for algo in options.algo:
        for task in options.task:
            rows = []
            for seed in range(options.seeds):
                rows.append(run(algo, task, seed))
                print(json.dumps({"algo": algo, "task": task, **rows[-1]}), file=sys.stderr, flush=True)
            print(line(algo, task, rows), flush=True)


if __name__ == "__main__":
    main()
