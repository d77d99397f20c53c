"""Every registered algorithm on `reach` with the defaults it ships with.

    python benchmarks/algorithms.py > benchmarks/results/algorithms.md

For each algorithm and seed it runs `python train.py --algo NAME --seed S --logdir TEMPORARY`, one at a time. Success is
the run's own final number: 100 fresh episodes of the saved model. Steps: those trained until the success threshold
stopped the run, or all. Seconds: the whole command by the clock, imports and video included. Table: median and range
over seeds, then every seed.

Finished runs are kept in a JSON file and not repeated unless they failed or the defaults have changed since (by the
hash of the configuration); `--fresh` repeats them anyway. Algorithms in the user's own `algos/` are left out.
"""

from __future__ import annotations

import argparse
import json
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
RESULTS = ROOT / "benchmarks" / "results"

Row = dict[str, Any]


def built_in() -> list[str]:
    """Names of the algorithms that the library ships."""
    from mygym.registry import registry

    return [entry.name for entry in registry("algorithm") if entry.origin.startswith("mygym.")]


def shipped(algorithm: str) -> str:
    """Hash of the configuration that the algorithm ships with now: rows made with another are out of date."""
    from mygym.config import config_hash
    from mygym.runs.settings import from_python

    return config_hash(from_python({"algo": algorithm}).values())


def run(algorithm: str, seed: int) -> Row:
    """One run; a failed one is a row with the error."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["train.py", "--algo", algorithm, "--seed", str(seed), "--logdir", folder]
        begin = time.perf_counter()
        done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
        row: Row = {"algorithm": algorithm, "seed": seed, "seconds": round(time.perf_counter() - begin, 1)}
        if done.returncode:
            return {**row, "error": done.stderr.strip()[-500:]}
        path = done.stdout.rstrip().rpartition("\n")[2].removeprefix("run: ")
        result = json.loads((ROOT / path / "result.json").read_text(encoding="utf-8"))
    kept = ("steps", "success_rate", "mean_return", "steps_per_second", "config_hash")
    return {**row, **{key: result[key] for key in kept}}


def table(rows: list[Row]) -> list[str]:
    """As Markdown, most successful first, then fewest steps."""
    lines = [
        "| algorithm | command | steps, median | seconds, median | success of 100: median | range | each seed |",
        "|---|---|---|---|---|---|---|",
    ]
    ranked = []
    for name in sorted({row["algorithm"] for row in rows}):
        mine = sorted((row for row in rows if row["algorithm"] == name), key=lambda row: row["seed"])
        good = [row for row in mine if "error" not in row]
        each = ", ".join(f"{row['seed']}: " + (f"{100 * row['success_rate']:.0f}" if row in good else "failed")
                         for row in mine)  # fmt: skip
        command = f"`python train.py --algo {name} --seed S`"
        if not good:
            ranked.append((0.0, 0.0, f"| {name} | {command} | | | | | {each} |"))
            continue
        steps, seconds, success = (
            statistics.median(row[key] for row in good) for key in ("steps", "seconds", "success_rate")
        )
        rates = [100 * row["success_rate"] for row in good]
        line = (
            f"| {name} | {command} | {steps:,.0f} | {seconds:.0f} | **{100 * success:.0f}** "
            f"| {min(rates):.0f}–{max(rates):.0f} | {each} |"
        )
        ranked.append((-success, steps, line))
    return lines + [line for *_, line in sorted(ranked)]


def main() -> None:
    """Run what is missing; print, and write to a file if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these algorithms (default: all that are shipped)")
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 0 (default: %(default)s)")
    parser.add_argument("--rows", type=Path, help="JSON file of finished runs (default: algorithms.json in results/)")
    parser.add_argument("--fresh", action="store_true", help="repeat runs that are in it")
    arguments = parser.parse_args()

    names = built_in()
    unknown = sorted(set(arguments.only or ()) - set(names))
    if unknown:
        parser.error(f"--only: {', '.join(unknown)} is none of {', '.join(names)}")
    wanted = [(name, seed) for name in arguments.only or names for seed in range(arguments.seeds)]
    path: Path = arguments.rows or RESULTS / "algorithms.json"
    rows: list[Row] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    hashes = {name: shipped(name) for name in names}
    rows = [row for row in rows if "error" not in row and row["config_hash"] == hashes.get(row["algorithm"])]
    if arguments.fresh:
        rows = [row for row in rows if (row["algorithm"], row["seed"]) not in wanted]
    finished = {(row["algorithm"], row["seed"]) for row in rows}
    for name, seed in wanted:
        if (name, seed) in finished:
            continue
        row = run(name, seed)
        print(json.dumps(row), file=sys.stderr)
        rows.append(row)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    versions = ", ".join(f"{name} {version(name)}" for name in ("stable-baselines3", "sb3-contrib", "torch"))
    lines = [
        "# Every algorithm on reach, with the defaults it ships with",
        "",
        f"`python benchmarks/algorithms.py`; Python {platform.python_version()}, {platform.machine()}, {versions}, "
        "a shared machine.",
        "What the columns mean: the docstring of the program.",
        "",
        *table(rows),
    ]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
