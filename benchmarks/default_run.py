"""Default run compared with panda-gym and Stable-Baselines3: wall time of whole commands.

    python benchmarks/default_run.py > benchmarks/results/default_run.md

Each seed launches `python train.py --seed S --logdir TEMPORARY`, then `python benchmarks/peer_panda_gym.py --seed S`,
in sequence. Wall: from launch to exit, with imports, environments, training, evaluations, final evaluation, and for
mygym saving and the video. CPU: processor time of the command, all threads and child processes; below wall when other
programs use the processors, above it when several threads run. Success: 100 fresh episodes each, for mygym of the saved
model; both within 5 cm, in mygym held for three steps. Memory: the largest resident set of the command's processes.
Load: the machine's load average just before each launch.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mygym.training.result import versions_in_words

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Launch:
    """Measurements of one command, from launch to exit."""

    wall: float
    """s."""
    cpu: float
    """s, user and system time, including child processes."""
    memory: float
    """MB, largest resident set."""
    load: float
    """Load average of the last minute before the launch."""
    output: str


def launch(*command: str) -> Launch:
    """Run a command in the repository.

    Raises:
        SystemExit: The command failed; the message has the end of its error output.
    """
    load = os.getloadavg()[0]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+", encoding="utf-8") as err:
        start = time.perf_counter()
        process = subprocess.Popen([sys.executable, *command], cwd=ROOT, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)  # usage of this child only; getrusage would add all children
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}\n{err.read()[-2000:]}")
        memory = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6
        return Launch(wall, usage.ru_utime + usage.ru_stime, memory, load, out.read())


def run_mygym(seed: int) -> tuple[Launch, dict[str, Any]]:
    """Launch the default run; also return its `result.json`."""
    with tempfile.TemporaryDirectory() as folder:
        done = launch("train.py", "--seed", str(seed), "--logdir", folder)
        path = done.output.rstrip().rpartition("\n")[2].removeprefix("run: ")
        result: dict[str, Any] = json.loads((ROOT / path / "result.json").read_text(encoding="utf-8"))
    return done, result


def run_panda_gym(seed: int) -> tuple[Launch, dict[str, Any]]:
    """Launch the panda-gym program; also return its printed result."""
    done = launch("benchmarks/peer_panda_gym.py", "--seed", str(seed))
    result: dict[str, Any] = json.loads(done.output.rstrip().rpartition("\n")[2])
    return done, result


def numbers(seed: int) -> list[float]:
    """Return a table row: mygym, then panda-gym."""
    a, mygym = run_mygym(seed)
    b, panda_gym = run_panda_gym(seed)
    return [
        *(a.wall, a.cpu, 100 * mygym["success_rate"], mygym["steps"], a.memory, a.load),
        *(b.wall, b.cpu, panda_gym["train_s"], 100 * panda_gym["success_rate"], panda_gym["steps"], b.memory, b.load),
    ]


def cells(row: list[float]) -> str:
    """Return the cells of a row as Markdown."""
    digits = (1, 1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1)
    return " | ".join(f"{value:.{count}f}" for value, count in zip(row, digits, strict=True)) + " |"


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="default: 0 1 2 3 4")
    arguments = parser.parse_args()

    rows = []
    for seed in arguments.seeds:
        rows.append(numbers(seed))
        print(f"| {seed} | {cells(rows[-1])}", file=sys.stderr)
    median = [statistics.median(column) for column in zip(*rows, strict=True)]
    versions = versions_in_words("stable-baselines3", "torch", "panda-gym", "pybullet")
    lines = [
        "# The default run, beside panda-gym with Stable-Baselines3",
        "",
        f"`python benchmarks/default_run.py`; Python {platform.python_version()}, {platform.machine()}, "
        f"{os.cpu_count()} cores, {versions}, a shared machine.",
        "The docstring of the program explains the columns.",
        "",
        "| seed | mygym: wall, s | CPU, s | success, % | steps | memory, MB | load "
        "| panda-gym + SB3: wall, s | CPU, s | training alone, s | success, % | steps | memory, MB | load |",
        "|---" * 14 + "|",
        *(f"| {seed} | {cells(row)}" for seed, row in zip(arguments.seeds, rows, strict=True)),
        f"| **median** | {cells(median)}",
        "",
        f"Wall, mygym / panda-gym, median of {len(rows)}: {statistics.median(row[0] / row[6] for row in rows):.2f}.",
    ]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
