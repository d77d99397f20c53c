"""Success of strategies and imitation: whole commands, from launch to the saved model, over five seeds.

    python benchmarks/strategies.py > benchmarks/results/strategies.md

Each table row is a command, `python train.py … --seed S --logdir TEMPORARY`, run in sequence. Success is the result's
`success_rate`: 100 fresh episodes of the saved model, several tasks in equal shares. Its interval is Wilson's 95 %
interval over the episodes of all seeds together, as for a single policy. Steps to 90 %: env steps at the first
evaluation with at least 90 % success, median (range) over seeds; for a seed below 90 %, more than its steps. Seconds:
wall time of the whole command, with imports, evaluations and videos; comparable only if nothing else runs. Usage
entropy: use of a mixture's candidates in the last training batch; 0: a single candidate; 1: all equally. Curves:
success at each evaluation, a line for each seed, in a picture beside the table.

Finished runs are stored in a JSON file and not repeated; `--fresh` repeats them.
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
from pathlib import Path
from typing import Any

from mygym.api import evaluate
from mygym.engines.engine import BULLET, FUSED, MUJOCO
from mygym.reporting.statistics import success_interval
from mygym.training.result import versions_in_words

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
EPISODES = 100
"""Episodes of a run's final evaluation."""
ENTROPY = "strategy/usage_entropy"
"""Log key of the entropy of the candidates' usage; 0: a single candidate is used; 1: all are used equally."""
GOOD = 0.9
"""Success rate for the steps in the table."""

THREE = "strategy_params.tasks=[reach,push,pick_and_place] --set strategy_params.identify=one_hot --steps 40000"
SEQUENCE = "--algo dagger --task AGMDW --robot panda"
GATES = ("", *(f" --set strategy_params.protocol={protocol}" for protocol in ("softmax", "gumbel_softmax")))
SPARSE = (
    "--algo sac --task pick_and_place --reward sparse --set normalize=true --set algo_params.gradient_steps=4 "
    "--set algo_params.batch_size=256 --set algo_params.policy_kwargs.n_critics=2 "
    "--set 'algo_params.learning_rate={schedule: linear, from: 3e-3, to: 3e-4}'"
)
"""Common settings with and without demonstrations: only strategy and steps differ."""

HARD = (
    "--algo td3 --task AGM --reward sparse --set normalize=true --set algo_params.gradient_steps=4 "
    "--set algo_params.policy_kwargs.net_arch=[128,128] --set algo_params.learning_rate=1e-3 "
    "--set 'algo_params.action_noise={schedule: linear, from: 0.4, to: 0.1}' --steps 150000 --set eval.every=5000"
)
"""Settings in which exploration noise discovers grasping and hindsight learns from it."""

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
    "mixture": (
        "One network, a network for each stage, or a learned gate",
        [SEQUENCE, *(f"{SEQUENCE} --strategy mixture{params}" for params in GATES)],
    ),
}
"""Name → question, and the commands that answer it, without `python train.py`."""

Row = dict[str, Any]


def run(command: str, seed: int, verdict: bool = False) -> Row:
    """Run a command and return its row.

    Args:
        command: Without `python train.py`.
        seed: Its seed.
        verdict: Whether to add the success of as many episodes in MuJoCo.

    Raises:
        RuntimeError: The command failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "train.py", *shlex.split(command), "--seed", str(seed), "--logdir", folder]
        start = time.perf_counter()
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - start
        if done.returncode:
            raise RuntimeError(f"{command}, seed {seed}: {done.stderr.strip()[-500:]}")
        path = done.stdout.rstrip().rpartition("\n")[2].removeprefix("run: ")
        result = json.loads((Path(path) / "result.json").read_text(encoding="utf-8"))
        engine = MUJOCO if result["engine"] in (BULLET, FUSED) else result["engine"]
        second = evaluate(path, episodes=EPISODES, engine=engine).success_rate if verdict else None
        logged = (Path(path) / "progress.jsonl").read_text(encoding="utf-8").splitlines()
    entropies = [record[ENTROPY] for record in map(json.loads, logged) if ENTROPY in record]
    return {
        "command": command,
        "seed": seed,
        "seconds": round(seconds, 1),
        "steps": result["steps"],
        "success": result["success_rate"],
        "in_mujoco": second,
        "by_task": result["success_by_task"],
        "usage_entropy": entropies[-1] if entropies else None,
        "curve": [[record["steps"], record["success_rate"]] for record in result["evaluations"]],
    }


def steps_to_good(row: Row) -> float:
    """Return the env steps at the first evaluation with success `GOOD`; infinite if none."""
    return next((float(steps) for steps, success in row["curve"] if success >= GOOD), math.inf)


def middle_of(values: Sequence[float], missing: float) -> str:
    """Format median and range; infinite values are shown as more than `missing`."""

    def formatted(value: float) -> str:
        return f"{value:,.0f}" if math.isfinite(value) else f"> {missing:,.0f}"

    ordered = sorted(values)
    return f"{formatted(ordered[len(ordered) // 2])} ({formatted(ordered[0])} to {formatted(ordered[-1])})"


def cells(command: str, rows: Sequence[Row]) -> dict[str, str]:
    """Return a row of the table, column → text; a column without a value in any row is left out of the table."""
    episodes = EPISODES * len(rows)
    successes = round(sum(EPISODES * row["success"] for row in rows))
    low, high = success_interval(successes, episodes)
    tasks = dict.fromkeys(task for row in rows for task in row["by_task"])
    by_task = ", ".join(f"{task} {100 * min(row['by_task'][task] for row in rows):.0f}" for task in tasks)
    steps, seconds = ([row[key] for row in rows] for key in ("steps", "seconds"))
    entropies = [row["usage_entropy"] for row in rows if row.get("usage_entropy") is not None]
    second = [row["in_mujoco"] for row in rows if row.get("in_mujoco") is not None]
    return {
        "command": f"`python train.py {command} --seed S`",
        "seeds": str(len(rows)),
        "success, % (95 % interval)": f"**{100 * successes / episodes:.1f}** ({100 * low:.1f}–{100 * high:.1f})",
        "each": ", ".join(f"{100 * row['success']:.0f}" for row in rows),
        "each, in MuJoCo": ", ".join(f"{100 * rate:.0f}" for rate in second),
        "lowest of a seed, by task": by_task,
        "env steps (range)": f"{statistics.median(steps):,.0f} ({min(steps):,}–{max(steps):,})",
        "steps to 90 %": middle_of([steps_to_good(row) for row in rows], max(steps)),
        "seconds (range)": f"{statistics.median(seconds):.0f} ({min(seconds):.0f}–{max(seconds):.0f})",
        "usage entropy": f"{statistics.median(entropies):.2f} ({min(entropies):.2f}–{max(entropies):.2f})"
        if entropies
        else "",
    }


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """Return a Markdown table of the columns that have a value."""
    columns = [column for column in rows[0] if any(row[column] for row in rows)]
    lines = [columns, ["---"] * len(columns), *([row[column] for column in columns] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def picture(question: str, rows: Mapping[str, Sequence[Row]], path: Path) -> None:
    """Plot success over env steps, a colour or a style of line for each command."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    is_beside = len(rows) > 6  # the legend
    figure, axes = pyplot.subplots(figsize=(11, 4.5) if is_beside else (8, 4.5))
    for number, (command, runs) in enumerate(rows.items()):
        for row in runs:
            steps, success = zip(*row["curve"], strict=True)
            label = textwrap.fill(command, 50 if is_beside else 100) if row is runs[0] else None
            style = ("-", "--", ":")[number // 10]
            axes.plot(steps, [100 * rate for rate in success], style, color=f"C{number}", alpha=0.7, label=label)
    axes.set(xlabel="env steps", ylabel="success, % of evaluation episodes", title=question, ylim=(-2, 102))
    beside: dict[str, Any] = {"bbox_to_anchor": (1, 1), "loc": "upper left"} if is_beside else {}
    axes.legend(fontsize=7, **beside)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def stored(path: Path) -> list[Row]:
    """Return the rows of finished runs."""
    rows: list[Row] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return rows


def store(path: Path, rows: Sequence[Row]) -> None:
    """Replace the rows of finished runs."""
    path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def main(
    name: str, title: str, questions: Mapping[str, tuple[str, Sequence[str]]], description: str, verdict: bool = False
) -> None:
    """Run missing commands and print the tables.

    Args:
        name: Name of the program and of its results.
        title: Title of the results.
        questions: Name → question, and the commands that answer it, without `python train.py`.
        description: Help of the program.
        verdict: See `run`.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="+", choices=questions, default=list(questions), help="questions (default: all)"
    )
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds, from 0 (default: %(default)s)")
    parser.add_argument("--fresh", action="store_true", help="repeat finished runs")
    options = parser.parse_args()

    path = RESULTS / f"{name}.json"
    wanted = [(command, seed) for seed in range(options.seeds) for key in options.only for command in questions[key][1]]
    if options.fresh:
        store(path, [row for row in stored(path) if (row["command"], row["seed"]) not in wanted])
    for command, seed in wanted:
        if any((row["command"], row["seed"]) == (command, seed) for row in stored(path)):
            continue
        row = run(command, seed, verdict)
        print(json.dumps(row), file=sys.stderr, flush=True)
        store(path, [*stored(path), row])  # another process may have stored rows in the meantime
    rows = stored(path)

    versions = versions_in_words("stable-baselines3", "torch", "pybullet")
    print(f"# {title}\n")
    print(f"`python benchmarks/{name}.py`; Python {platform.python_version()}, {platform.machine()}, {versions}.")
    print("The docstring of the program explains the columns.")
    for key, (question, commands) in questions.items():
        by_command = {command: [row for row in rows if row["command"] == command] for command in commands}
        by_command = {c: sorted(runs, key=lambda row: row["seed"]) for c, runs in by_command.items() if runs}
        if not by_command:
            continue
        print(f"\n## {question}\n\n![curves]({name}_{key}.png)\n")
        print(table([cells(command, runs) for command, runs in by_command.items()]))
        picture(question, by_command, RESULTS / f"{name}_{key}.png")


if __name__ == "__main__":
    main("strategies", "Strategies and imitation", QUESTIONS, __doc__ or "")
