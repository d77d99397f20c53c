"""The shipped runners on `reach`: `ppo_runner` against Stable-Baselines3's `ppo` with an equal config, and `cem`.

    python benchmarks/runners.py > benchmarks/results/runners.md

Each algorithm is trained with the seeds 0 to 4, in sequence, to its last step (`stop_at_success=null`). At each
mark of env steps it is evaluated on 50 validation episodes, which select the best model, and 50 test episodes; at the
end on 100 fresh episodes of the last model. `ppo` and `ppo_runner` have equal hyperparameters and run settings. Tables:
mean over the seeds with a 95 % bootstrap interval; differences are between equal seeds.

Finished runs are stored in a JSON file and repeated only if their config has changed; `--fresh` repeats all.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mygym.training.result import versions_in_words

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"

SETTINGS = (
    "stop_at_success=null",
    "eval.episodes=50",
    "eval.test_episodes=50",
    "video.episodes=0",
    "tensorboard=false",
)
STEPS = {"ppo": (30_000, 5_000), "ppo_runner": (30_000, 5_000), "cem": (300_000, 60_000)}
"""Env steps of a run, and between evaluations."""

METRICS = {
    "test success": ("test_success_rate", 100.0, "{:.0f} %"),
    "validation success": ("success_rate", 100.0, "{:.0f} %"),
    "training success": ("train_success_rate", 100.0, "{:.0f} %"),
    "test return": ("test_mean_return", 1.0, "{:.2f}"),
}
"""Column → key of an evaluation record, factor, format."""

Row = dict[str, Any]


def words(algorithm: str, seed: int | str) -> list[str]:
    """Return the arguments of `train.py`."""
    steps, every = STEPS[algorithm]
    arguments = ["--algo", algorithm, "--steps", str(steps), "--seed", str(seed)]
    for setting in (f"eval.every={every}", *SETTINGS):
        arguments += ["--set", setting]
    return arguments


def default_hash(algorithm: str) -> str:
    """Return the hash of the current config of a run."""
    from mygym.config import config_hash, parse_overrides
    from mygym.planning.resolve import resolve_config

    settings = parse_overrides([f"eval.every={STEPS[algorithm][1]}", *SETTINGS])
    return config_hash(resolve_config(overrides={**settings, "algo": algorithm, "steps": STEPS[algorithm][0]}).values())


def equal_config() -> bool:
    """Return whether both PPOs have equal common hyperparameters and run settings."""
    from mygym.planning.resolve import from_python

    runner, sb3 = (from_python({"algo": name}).values() for name in ("ppo_runner", "ppo"))
    shared = runner["algo_params"].keys() & sb3["algo_params"].keys()
    same = all(runner["algo_params"][key] == sb3["algo_params"][key] for key in shared)
    rest = runner.keys() - {"algo", "algo_params", "eval"}
    return same and all(runner[key] == sb3[key] for key in rest)


def run(algorithm: str, seed: int) -> Row:
    """Run once and return the row."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "train.py", *words(algorithm, seed), "--logdir", folder]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
        path = done.stdout.rstrip().rpartition("\n")[2].removeprefix("run: ")
        result = json.loads((ROOT / path / "result.json").read_text(encoding="utf-8"))
    keys = ("steps", "success_rate", "mean_return", "steps_per_second", "config_hash", "evaluations")
    return {"algorithm": algorithm, "seed": seed, **{key: result[key] for key in keys}}


def interval(values: Sequence[float], form: str) -> str:
    """Format the mean and its 95 % bootstrap interval."""
    rng = np.random.default_rng(0)
    array = np.asarray(values, dtype=float)
    means = rng.choice(array, (10_000, len(array))).mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return (
        f"{form.format(array.mean())} ({form.format(low).removesuffix(' %')} to {form.format(high).removesuffix(' %')})"
    )


def at_marks(rows: Sequence[Row], algorithm: str, key: str) -> dict[int, list[float]]:
    """Return for each mark the values of all seeds at the first evaluation at or after the mark."""
    steps, every = STEPS[algorithm]
    values: dict[int, list[float]] = {}
    for mark in range(0, steps + 1, every):
        for row in rows:
            record = next((r for r in row["evaluations"] if r["steps"] >= mark), None)
            if record is not None and record[key] is not None:
                values.setdefault(mark, []).append(record[key])
    return values


def table(rows: Sequence[Row], algorithm: str) -> list[str]:
    """Return the table of metrics at each mark."""
    columns = {name: at_marks(rows, algorithm, key) for name, (key, _, _) in METRICS.items()}
    lines = [f"| env steps | {' | '.join(METRICS)} |", f"|---|{'---|' * len(METRICS)}"]
    for mark in columns["test success"]:
        cells = []
        for name, (_, factor, form) in METRICS.items():
            values = [factor * value for value in columns[name].get(mark, [])]
            cells.append(interval(values, form) if values else "")
        lines.append(f"| {mark:,} | {' | '.join(cells)} |")
    final = interval([100 * row["success_rate"] for row in rows], "{:.0f} %")
    each = ", ".join(f"{100 * row['success_rate']:.0f}" for row in rows)
    return [*lines, "", f"The last model, 100 fresh episodes: {final}; seeds: {each}."]


def differences(rows: Mapping[str, Sequence[Row]]) -> list[str]:
    """Return the table of `ppo_runner` minus `ppo`, seed by seed."""
    lines = ["| env steps | test success, points | test return |", "|---|---|---|"]
    columns = []
    for key, factor, form in (("test_success_rate", 100.0, "{:.1f}"), ("test_mean_return", 1.0, "{:.3f}")):
        runner, sb3 = (at_marks(rows[name], name, key) for name in ("ppo_runner", "ppo"))
        columns.append(
            {
                mark: interval([factor * (a - b) for a, b in zip(runner[mark], sb3[mark], strict=True)], form)
                for mark in runner
            }
        )
    lines += [f"| {mark:,} | {columns[0][mark]} | {columns[1][mark]} |" for mark in columns[0]]
    records = [
        [{key: value for key, value in record.items() if key != "wall_time_s"} for record in row["evaluations"]]
        for name in ("ppo_runner", "ppo")
        for row in rows[name]
    ]
    half = len(records) // 2
    same = sum(a == b for a, b in zip(records[:half], records[half:], strict=True))
    return [*lines, "", f"Seeds whose figures at all marks are equal to the last digit: {same} of {half}."]


def main() -> None:
    """Run missing seeds and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="+", choices=list(STEPS), default=list(STEPS), help="algorithms to train (default: all)"
    )
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds, from 0 (default: %(default)s)")
    parser.add_argument("--rows", type=Path, default=RESULTS / "runners.json", help="JSON file of finished runs")
    parser.add_argument("--fresh", action="store_true", help="repeat finished runs")
    options = parser.parse_args()

    assert equal_config(), "the two PPOs have different configs"
    hashes = {name: default_hash(name) for name in STEPS}
    path: Path = options.rows
    rows: list[Row] = json.loads(path.read_text(encoding="utf-8")) if path.exists() and not options.fresh else []
    rows = [row for row in rows if row["config_hash"] == hashes.get(row["algorithm"])]
    for seed in range(options.seeds):
        for name in options.only:
            if not any((row["algorithm"], row["seed"]) == (name, seed) for row in rows):
                rows.append(run(name, seed))
                summary = {key: value for key, value in rows[-1].items() if key != "evaluations"}
                print(json.dumps(summary), file=sys.stderr, flush=True)
                path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    by_name = {
        name: sorted((row for row in rows if row["algorithm"] == name), key=lambda row: row["seed"]) for name in STEPS
    }
    versions = versions_in_words("stable-baselines3", "sb3-contrib", "torch")
    print("# The shipped runners on reach\n")
    print(f"`python benchmarks/runners.py`; Python {platform.python_version()}, {platform.machine()}, {versions}.")
    print("The docstring of the program explains the columns.")
    for name in [name for name in STEPS if by_name[name]]:
        print(f"\n## {name}\n\n`python train.py {' '.join(words(name, 'S'))}`\n")
        print("\n".join(table(by_name[name], name)))
    if [row["seed"] for row in by_name["ppo"]] == [row["seed"] for row in by_name["ppo_runner"]] != []:
        print("\n## ppo_runner minus ppo\n")
        print("\n".join(differences(by_name)))


if __name__ == "__main__":
    main()
