"""What strategies and imitation are worth: whole commands, from launch to the saved model, over five seeds.

    python benchmarks/strategies.py > benchmarks/results/strategies.md

Each line of a table is a command, `python train.py … --seed S --logdir TEMPORARY`, run one at a time. Success is the
run's own final number: 100 fresh episodes of the saved model, of several tasks in equal shares. Its interval is
Wilson's of 95 %, over the episodes of all seeds together, as if they were of one policy. Steps to 90 %: env steps at
the first evaluation with at least that, median (range) over seeds; of a seed that has not got there it is more than it
was given. Seconds: the whole command by the clock, imports, evaluations and films included; they are those of a quiet
machine only if nothing else runs. Usage entropy: how evenly experts are used, of the last batch that was learned from,
1 all alike and 0 one does it all. Curves: success at each evaluation, one line for a seed, next to the table.

Finished runs are kept in a JSON file and not repeated; `--fresh` repeats them.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
EPISODES = 100
"""Of a run's final evaluation."""
Z = 1.96
"""Standard deviations of a normal distribution that 95 % are within."""
ENTROPY = "strategy/usage_entropy"
"""What a run logs of how evenly experts are used: 1 all alike, 0 one does it all."""
GOOD = 0.9
"""Success rate to which steps are counted."""

THREE = "strategy_params.tasks=[reach,push,pick_and_place] --set strategy_params.identify=one_hot --steps 40000"
SEQUENCE = "--algo dagger --task AGMDW --robot panda"
GATES = ("", *(f" --set strategy_params.protocol={one}" for one in ("softmax", "gumbel_softmax")))
SPARSE = (
    "--algo sac --task pick_and_place --reward sparse --set normalize=true --set algo_params.gradient_steps=4 "
    "--set algo_params.batch_size=256 --set algo_params.policy_kwargs.n_critics=2 "
    "--set 'algo_params.learning_rate={schedule: linear, from: 3e-3, to: 3e-4}'"
)
"""The same with demonstrations and without, so that strategy and steps alone differ."""

HARD = (
    "--algo td3 --task AGM --reward sparse --set normalize=true --set algo_params.gradient_steps=4 "
    "--set algo_params.policy_kwargs.net_arch=[128,128] --set algo_params.learning_rate=1e-3 "
    "--set 'algo_params.action_noise={schedule: linear, from: 0.4, to: 0.1}' --steps 150000 --set eval.every=5000"
)
"""Grasping is found by noise, and hindsight does the rest."""

QUESTIONS: Mapping[str, tuple[str, Sequence[str]]] = {
    "imitation": (
        "Learning from the scripted expert",
        [*(f"--algo dagger --task {task} --robot panda" for task in ("pick_and_place", "push", "stack")), SEQUENCE],
    ),
    "demonstrations": (
        "400 demonstrations, of 12,000 env steps, and 30,000 more, against hindsight with five times all of them",
        [
            f"{SPARSE} --strategy demos --set strategy_params.episodes=400 --set strategy_params.warm_start=5000 "
            "--steps 30000 --set eval.every=5000",
            f"{SPARSE} --steps 210000 --set eval.every=5000",
        ],
    ),
    "curriculum": (
        "Its end first, against all of it from the beginning",
        [f"{HARD} --strategy {strategy}" for strategy in ("standard", "curriculum")],
    ),
    "multitask": (
        "Three tasks, one network, at the same budget",
        [f"--algo {algo} --strategy multitask --set {THREE}" for algo in ("dagger", "sac")],
    ),
    "experts": (
        "One network, an expert for each stage, or a learned gate",
        [SEQUENCE, *(f"{SEQUENCE} --strategy experts{params}" for params in GATES)],
    ),
}
"""Name → what is asked, and the commands that answer it, without `python train.py`."""

Row = dict[str, Any]


def wilson(successes: int, episodes: int) -> tuple[float, float]:
    """Bounds of the success rate (Wilson, 1927)."""
    share, size = successes / episodes, Z**2 / episodes
    middle = (share + size / 2) / (1 + size)
    half = Z * math.sqrt(share * (1 - share) / episodes + size / (4 * episodes)) / (1 + size)
    return middle - half, middle + half


def run(command: str, seed: int) -> Row:
    """One run.

    Raises:
        RuntimeError: It failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "train.py", *shlex.split(command), "--seed", str(seed), "--logdir", folder]
        begin = time.perf_counter()
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - begin
        if done.returncode:
            raise RuntimeError(f"{command}, seed {seed}: {done.stderr.strip()[-500:]}")
        path = done.stdout.rstrip().rpartition("\n")[2].removeprefix("run: ")
        result = json.loads((Path(path) / "result.json").read_text(encoding="utf-8"))
        logged = (Path(path) / "progress.jsonl").read_text(encoding="utf-8").splitlines()
    entropies = [one[ENTROPY] for one in map(json.loads, logged) if ENTROPY in one]
    return {
        "command": command,
        "seed": seed,
        "seconds": round(seconds, 1),
        "steps": result["steps"],
        "success": result["success_rate"],
        "by_task": result["success_by_task"],
        "usage_entropy": entropies[-1] if entropies else None,
        "curve": [[one["steps"], one["success_rate"]] for one in result["evaluations"]],
    }


def steps_to_good(row: Row) -> float:
    """Env steps at the first evaluation that is good; infinite if there is none."""
    return next((float(steps) for steps, success in row["curve"] if success >= GOOD), math.inf)


def middle_of(values: Sequence[float], missing: float) -> str:
    """Median and range; infinite ones are more than `missing`."""

    def said(value: float) -> str:
        return f"{value:,.0f}" if math.isfinite(value) else f"> {missing:,.0f}"

    ordered = sorted(values)
    return f"{said(ordered[len(ordered) // 2])} ({said(ordered[0])} to {said(ordered[-1])})"


def line(command: str, rows: Sequence[Row]) -> str:
    """Of the table."""
    episodes = EPISODES * len(rows)
    successes = round(sum(EPISODES * row["success"] for row in rows))
    low, high = wilson(successes, episodes)
    each = ", ".join(f"{100 * row['success']:.0f}" for row in rows)
    tasks = dict.fromkeys(task for row in rows for task in row["by_task"])
    by_task = ", ".join(f"{task} {100 * min(row['by_task'][task] for row in rows):.0f}" for task in tasks)
    steps, seconds = ([row[key] for row in rows] for key in ("steps", "seconds"))
    entropies = [row["usage_entropy"] for row in rows if row.get("usage_entropy") is not None]
    usage = f"{statistics.median(entropies):.2f} ({min(entropies):.2f}–{max(entropies):.2f})" if entropies else ""
    return (
        f"| `python train.py {command} --seed S` | {len(rows)} "
        f"| **{100 * successes / episodes:.1f}** ({100 * low:.1f}–{100 * high:.1f}) | {each} | {by_task} "
        f"| {statistics.median(steps):,.0f} ({min(steps):,}–{max(steps):,}) "
        f"| {middle_of([steps_to_good(row) for row in rows], max(steps))} "
        f"| {statistics.median(seconds):.0f} ({min(seconds):.0f}–{max(seconds):.0f}) | {usage} |"
    )


def picture(question: str, rows: Mapping[str, Sequence[Row]], path: Path) -> None:
    """Success over env steps, a colour for each command."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    for number, (command, mine) in enumerate(rows.items()):
        for row in mine:
            steps, success = zip(*row["curve"], strict=True)
            label = textwrap.fill(command, 100) if row is mine[0] else None
            axes.plot(steps, [100 * one for one in success], color=f"C{number}", alpha=0.7, label=label)
    axes.set(xlabel="env steps", ylabel="success, % of evaluation episodes", title=question, ylim=(-2, 102))
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=list(QUESTIONS), help="these (default: all)")
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 0 (default: %(default)s)")
    parser.add_argument("--fresh", action="store_true", help="repeat runs that are there")
    options = parser.parse_args()

    path = RESULTS / "strategies.json"
    rows: list[Row] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    wanted = [(one, seed) for name in options.only for one in QUESTIONS[name][1] for seed in range(options.seeds)]
    if options.fresh:
        rows = [row for row in rows if (row["command"], row["seed"]) not in wanted]
    for command, seed in wanted:
        if any((row["command"], row["seed"]) == (command, seed) for row in rows):
            continue
        rows.append(run(command, seed))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")

    versions = ", ".join(f"{name} {version(name)}" for name in ("stable-baselines3", "torch", "pybullet"))
    print("# Strategies and imitation\n")
    print(f"`python benchmarks/strategies.py`; Python {platform.python_version()}, {platform.machine()}, {versions}.")
    print("What the columns mean: the docstring of the program.")
    for name, (question, commands) in QUESTIONS.items():
        mine = {one: [row for row in rows if row["command"] == one] for one in commands}
        mine = {one: sorted(found, key=lambda row: row["seed"]) for one, found in mine.items() if found}
        if not mine:
            continue
        print(f"\n## {question}\n\n![curves](strategies_{name}.png)\n")
        print("| command | seeds | success, % (95 % interval) | each | lowest of a seed, by task | env steps (range) "
              "| steps to 90 % | seconds (range) | usage entropy |\n|---|---|---|---|---|---|---|---|---|")  # fmt: skip
        for command, found in mine.items():
            print(line(command, found))
        picture(question, mine, RESULTS / f"strategies_{name}.png")


if __name__ == "__main__":
    main()
