"""Exported policies: duration of the export, latency and import time of the file, success beside the run's.

    python benchmarks/export.py > benchmarks/results/export.md

Each row trains a policy for `reach` with the defaults of its algorithm and few env steps. Export: the command from
launch to exit, with the verification. Latency: `ExportedPolicy.predict` for a single observation, in one thread; in a
row, and in `mygym run`, between the steps of the simulator, whose data push the policy out of the caches. Success:
`mygym run` and `mygym evaluate` on the same 100 episodes. Import: numpy and onnxruntime, and `ExportedPolicy`, each in
new processes.
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
from importlib.metadata import version
from pathlib import Path

import numpy as np

STEPS = {"sac": 20_000, "ppo": 20_000, "recurrent_ppo": 4_000}
"""Algorithm → env steps; SAC ends earlier, when it succeeds."""

CALLS = 20_000

IMPORTS = {
    "numpy, onnxruntime": "import numpy, onnxruntime",
    "`ExportedPolicy`": "from mygym.exporting.exported_policy import ExportedPolicy",
}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="processes of each import (default 5)")
    options = parser.parse_args()
    print("# Exported policies\n")
    print("| algorithm | export | difference | latency in a row: median, 99 % | in `mygym run` | success: file, run |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for algo, steps in STEPS.items():
            print(row(algo, steps, Path(folder)), flush=True)
    print("\n| import | median, largest |\n|---|---|")
    for name, code in IMPORTS.items():
        seconds = [seconds_of_import(code) for _ in range(options.repeats)]
        print(f"| {name} | {statistics.median(seconds):.2f} s, {max(seconds):.2f} s |")
    packages = ", ".join(f"{package} {version(package)}" for package in ("torch", "onnx", "onnxruntime"))
    print(f"\nMade by `python benchmarks/export.py`; Python {platform.python_version()}, {packages}, ", end="")
    print(f"{os.cpu_count()} cores of a shared machine, load {os.getloadavg()[0]:.1f}.")


def row(algo: str, steps: int, folder: Path) -> str:
    """Train, export and play a policy; return its row."""
    import mygym
    from mygym.exporting.playing import play

    evaluations = {"every": steps, "episodes": 25, "final_episodes": 1}
    config = {"algo": algo, "steps": steps, "video": {"episodes": 0}, "logdir": str(folder)}
    result = mygym.train(config if algo == "sac" else {**config, "eval": evaluations})
    file = folder / f"{algo}.onnx"
    start = time.perf_counter()
    command = [sys.executable, "-m", "mygym", "export", str(result.path), "-o", str(file)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds = time.perf_counter() - start
    difference = printed.split("largest difference ")[1].split()[0]
    playing = play(file, episodes=100)
    median, percentile = latencies(file)
    return (
        f"| `{algo}` | {seconds:.1f} s | {difference} | {median:.1f} µs, {percentile:.1f} µs "
        f"| {playing.microseconds(50):.1f} µs, {playing.microseconds(99):.1f} µs "
        f"| {playing.evaluation.success_rate:.0%}, {mygym.evaluate(result.path, episodes=100).success_rate:.0%} |"
    )


def latencies(file: Path) -> tuple[float, float]:
    """Return median and 99th percentile, in µs, of calls in a row."""
    from mygym.exporting.exported_policy import ExportedPolicy

    policy = ExportedPolicy(file)
    inputs = policy.description["observation"].items()
    observation, state = {name: np.zeros(entry["shape"], entry["dtype"]) for name, entry in inputs}, None
    seconds = []
    for _ in range(CALLS):
        start = time.perf_counter()
        _, state = policy.predict(observation, state)
        seconds.append(time.perf_counter() - start)
    return 1e6 * statistics.median(seconds), 1e6 * float(np.percentile(seconds, 99))


def seconds_of_import(code: str) -> float:
    """Return the seconds that imports take in a new process."""
    timed = f"import time; start = time.perf_counter()\n{code}\nprint(time.perf_counter() - start)"
    return float(subprocess.run([sys.executable, "-c", timed], check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main()
