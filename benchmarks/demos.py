"""Sparse pick-and-place with demonstrations, and with hindsight alone, which gets five times as many env steps.

    python benchmarks/demos.py > benchmarks/results/demos.md

For each of the two and each seed it runs the command of the table, one at a time. The hyperparameters of the algorithm
are the same; the strategy and the steps are not, nor how often it is evaluated, which changes nothing else. Success is
the run's own final number, 100 fresh episodes of the saved model; its interval is Wilson's of 95 %, over the episodes
of all seeds together, as if they were of one policy. Best mark: the highest success of an evaluation on the way, of 25
episodes each. The scripted expert plays the demonstrations before training; their env steps are told apart.

Finished runs are kept in a JSON file, curves included, and not repeated; `--fresh` repeats them.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # as a program it has its own folder there, and not the one above

from benchmarks.imitation import wilson  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
STEPS = 20_000
"""Env steps of training with demonstrations."""
DEMONSTRATED = 3_000
"""Env steps that those take, about: hindsight alone gets five times the sum."""
ARMS = {
    "demonstrations": ["--strategy", "demos", "--steps", str(STEPS), "--set", "eval.every=2000"],
    "hindsight alone": ["--steps", str(5 * (STEPS + DEMONSTRATED)), "--set", "eval.every=5000"],
}
SETTINGS = (
    "normalize=true",
    "stop_at_success=null",
    "algo_params.gradient_steps=4",
    "algo_params.batch_size=256",
    "algo_params.policy_kwargs.n_critics=2",
    "algo_params.learning_rate={schedule: linear, from: 3e-3, to: 3e-4}",
)
"""Of both, so that they differ in the strategy and in steps alone."""

Row = dict[str, Any]


def command_of(arm: str) -> list[str]:
    """How it is trained, the seed left out."""
    settings = [word for one in SETTINGS for word in ("--set", one)]
    return ["train.py", "--algo", "sac", "--task", "pick_and_place", "--reward", "sparse", *ARMS[arm], *settings]


def run(arm: str, seed: int) -> Row:
    """One run.

    Raises:
        RuntimeError: It failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *command_of(arm), "--seed", str(seed), "--logdir", folder]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
        path = Path(done.stdout.rstrip().rpartition("\n")[2].removeprefix("run: "))
        result = json.loads((path / "result.json").read_text(encoding="utf-8"))
        lines = [json.loads(line) for line in (path / "progress.jsonl").read_text(encoding="utf-8").splitlines()]
    shown = [int(line["strategy/demonstrated_steps"]) for line in lines if "strategy/demonstrated_steps" in line]
    return {
        "arm": arm,
        "command": command_of(arm),
        "seed": seed,
        "steps": result["steps"],
        "demonstrated": shown[-1] if shown else 0,
        "success": result["success_rate"],
        "curve": [[one["steps"], one["success_rate"]] for one in result["evaluations"]],
    }


def line(arm: str, rows: list[Row]) -> str:
    """Of the table."""
    episodes = 100 * len(rows)
    successes = round(sum(100 * row["success"] for row in rows))
    low, high = wilson(successes, episodes)
    each = ", ".join(f"{row['seed']}: {100 * row['success']:.0f}" for row in rows)
    best = max(share for row in rows for _, share in row["curve"])
    shown = statistics.median(row["demonstrated"] for row in rows)
    steps = ", ".join(f"{row['steps']:,}" for row in rows)
    return (
        f"| {arm} | `python {shlex.join(command_of(arm))} --seed S` "
        f"| **{100 * successes / episodes:.1f}** ({100 * low:.1f}–{100 * high:.1f}) | {each} | {100 * best:.0f} "
        f"| {steps} | {shown:,.0f} |"
    )


def write_curves(path: Path, rows: list[Row]) -> None:
    """Success at every mark, as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["arm", "seed", "steps", "success"])
        for row in rows:
            writer.writerows([row["arm"], row["seed"], *mark] for mark in row["curve"])


def main() -> None:
    """Run what is missing, and print the table of what there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0 (default: %(default)s)")
    parser.add_argument("--fresh", action="store_true", help="repeat runs that are kept")
    parser.add_argument("--table", action="store_true", help="run nothing: the table of the runs that are kept")
    options = parser.parse_args()

    kept = RESULTS / "demos.json"
    rows: list[Row] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() and not options.fresh else []
    rows = [row for row in rows if row["command"] == command_of(row["arm"])]
    finished = {(row["arm"], row["seed"]) for row in rows}
    for arm in ARMS:
        for seed in range(0 if options.table else options.seeds):
            if (arm, seed) not in finished:
                rows.append(run(arm, seed))
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
                kept.write_text(json.dumps(rows) + "\n", encoding="utf-8")
    write_curves(RESULTS / "demos.csv", rows)
    versions = ", ".join(f"{name} {version(name)}" for name in ("stable-baselines3", "torch"))
    print("# Demonstrations against hindsight alone\n")
    print(
        f"`python benchmarks/demos.py`; Python {platform.python_version()}, {platform.machine()}, {versions}, ", end=""
    )
    print("a shared machine.\nWhat the columns mean: the docstring of the program. Curves: [demos.csv](demos.csv).\n")
    print("| | command | success, % (95 % interval) | each | best mark, % | env steps | of demonstrations |")
    print("|---|---|---|---|---|---|---|")
    for arm in ARMS:
        if of_arm := sorted((row for row in rows if row["arm"] == arm), key=lambda row: row["seed"]):
            print(line(arm, of_arm))


if __name__ == "__main__":
    main()
