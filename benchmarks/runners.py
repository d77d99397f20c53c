"""The shipped runners on `reach`: `ppo_runner` against Stable-Baselines3's `ppo` with an equal config, and `cem`.

    python benchmarks/runners.py > benchmarks/results/runners.md

Each algorithm is trained with the seeds 0 to 4, one run at a time, to its last step (`stop_at_success=null`). At each
mark of env steps 50 validation episodes, which choose the best model, and 50 test episodes, which choose nothing, are
evaluated; at the end 100 fresh episodes judge the last model. `ppo` and `ppo_runner` have the same hyperparameters and
the same run. Tables: mean over the seeds, and a 95 % interval of that mean by bootstrap over them; differences of the
two are taken seed by seed.

Finished runs are kept in a JSON file and not repeated unless their config has changed since; `--fresh` repeats them.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

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
"""Env steps of a run, and between its marks."""

FIGURES = {
    "test success": ("test_success_rate", 100.0, "{:.0f} %"),
    "validation success": ("success_rate", 100.0, "{:.0f} %"),
    "training success": ("train_success_rate", 100.0, "{:.0f} %"),
    "test return": ("test_mean_return", 1.0, "{:.2f}"),
}
"""Column → key of an evaluation's record, factor, form."""

Row = dict[str, Any]


def words(algorithm: str, seed: int | str) -> list[str]:
    """The arguments of `train.py`."""
    steps, every = STEPS[algorithm]
    said = ["--algo", algorithm, "--steps", str(steps), "--seed", str(seed)]
    for setting in (f"eval.every={every}", *SETTINGS):
        said += ["--set", setting]
    return said


def shipped(algorithm: str) -> str:
    """Hash of the config that a run would have now."""
    from mygym.config import config_hash, parse_overrides
    from mygym.runs.resolve_config import resolve_config

    settings = parse_overrides([f"eval.every={STEPS[algorithm][1]}", *SETTINGS])
    return config_hash(resolve_config(overrides={**settings, "algo": algorithm, "steps": STEPS[algorithm][0]}).values())


def equal_config() -> bool:
    """Whether the two PPOs have the same hyperparameters, as far as both have them, and the same run."""
    from mygym.runs.resolve_config import from_python

    ours, theirs = (from_python({"algo": name}).values() for name in ("ppo_runner", "ppo"))
    shared = ours["algo_params"].keys() & theirs["algo_params"].keys()
    same = all(ours["algo_params"][key] == theirs["algo_params"][key] for key in shared)
    rest = ours.keys() - {"algo", "algo_params", "eval"}
    return same and all(ours[key] == theirs[key] for key in rest)


def run(algorithm: str, seed: int) -> Row:
    """One run."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "train.py", *words(algorithm, seed), "--logdir", folder]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
        path = done.stdout.rstrip().rpartition("\n")[2].removeprefix("run: ")
        result = json.loads((ROOT / path / "result.json").read_text(encoding="utf-8"))
    kept = ("steps", "success_rate", "mean_return", "steps_per_second", "config_hash", "evaluations")
    return {"algorithm": algorithm, "seed": seed, **{key: result[key] for key in kept}}


def interval(values: Sequence[float], form: str) -> str:
    """Mean and its 95 % interval."""
    rng = np.random.default_rng(0)
    array = np.asarray(values, dtype=float)
    means = rng.choice(array, (10_000, len(array))).mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return (
        f"{form.format(array.mean())} ({form.format(low).removesuffix(' %')} to {form.format(high).removesuffix(' %')})"
    )


def at_marks(rows: Sequence[Row], algorithm: str, key: str) -> dict[int, list[float]]:
    """Mark → the figure of each seed at the first evaluation from there on."""
    steps, every = STEPS[algorithm]
    found: dict[int, list[float]] = {}
    for mark in range(0, steps + 1, every):
        for row in rows:
            record = next((one for one in row["evaluations"] if one["steps"] >= mark), None)
            if record is not None and record[key] is not None:
                found.setdefault(mark, []).append(record[key])
    return found


def table(rows: Sequence[Row], algorithm: str) -> list[str]:
    """Figures at each mark."""
    columns = {name: at_marks(rows, algorithm, key) for name, (key, _, _) in FIGURES.items()}
    lines = [f"| env steps | {' | '.join(FIGURES)} |", f"|---|{'---|' * len(FIGURES)}"]
    for mark in columns["test success"]:
        cells = []
        for name, (_, factor, form) in FIGURES.items():
            values = [factor * value for value in columns[name].get(mark, [])]
            cells.append(interval(values, form) if values else "")
        lines.append(f"| {mark:,} | {' | '.join(cells)} |")
    final = interval([100 * row["success_rate"] for row in rows], "{:.0f} %")
    each = ", ".join(f"{100 * row['success_rate']:.0f}" for row in rows)
    return [*lines, "", f"The last model, 100 fresh episodes: {final}; seeds: {each}."]


def differences(rows: Mapping[str, Sequence[Row]]) -> list[str]:
    """`ppo_runner` minus `ppo`, seed by seed."""
    lines = ["| env steps | test success, points | test return |", "|---|---|---|"]
    columns = []
    for key, factor, form in (("test_success_rate", 100.0, "{:.1f}"), ("test_mean_return", 1.0, "{:.3f}")):
        ours, theirs = (at_marks(rows[name], name, key) for name in ("ppo_runner", "ppo"))
        columns.append(
            {
                mark: interval([factor * (a - b) for a, b in zip(ours[mark], theirs[mark], strict=True)], form)
                for mark in ours
            }
        )
    lines += [f"| {mark:,} | {columns[0][mark]} | {columns[1][mark]} |" for mark in columns[0]]
    figures = [
        [{key: value for key, value in record.items() if key != "wall_time_s"} for record in row["evaluations"]]
        for name in ("ppo_runner", "ppo")
        for row in rows[name]
    ]
    half = len(figures) // 2
    same = sum(one == other for one, other in zip(figures[:half], figures[half:], strict=True))
    return [*lines, "", f"Seeds whose figures at all marks are equal to the last digit: {same} of {half}."]


def main() -> None:
    """Run what is missing, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="+", choices=list(STEPS), default=list(STEPS), help="train these, print nothing"
    )
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 0 (default: %(default)s)")
    parser.add_argument("--rows", type=Path, default=RESULTS / "runners.json", help="JSON file of finished runs")
    parser.add_argument("--fresh", action="store_true", help="repeat runs that are in it")
    options = parser.parse_args()

    assert equal_config(), "the two PPOs would not be trained alike"
    hashes = {name: shipped(name) for name in STEPS}
    path: Path = options.rows
    rows: list[Row] = json.loads(path.read_text(encoding="utf-8")) if path.exists() and not options.fresh else []
    rows = [row for row in rows if row["config_hash"] == hashes.get(row["algorithm"])]
    for seed in range(options.seeds):
        for name in options.only:
            if not any((row["algorithm"], row["seed"]) == (name, seed) for row in rows):
                rows.append(run(name, seed))
                shown = {key: value for key, value in rows[-1].items() if key != "evaluations"}
                print(json.dumps(shown), file=sys.stderr, flush=True)
                path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    by_name = {
        name: sorted((row for row in rows if row["algorithm"] == name), key=lambda row: row["seed"]) for name in STEPS
    }
    versions = ", ".join(f"{name} {version(name)}" for name in ("stable-baselines3", "sb3-contrib", "torch"))
    print("# The shipped runners on reach\n")
    print(f"`python benchmarks/runners.py`; Python {platform.python_version()}, {platform.machine()}, {versions}.")
    print("What the columns mean: the docstring of the program.")
    for name in [name for name in STEPS if by_name[name]]:
        print(f"\n## {name}\n\n`python train.py {' '.join(words(name, 'S'))}`\n")
        print("\n".join(table(by_name[name], name)))
    if [row["seed"] for row in by_name["ppo"]] == [row["seed"] for row in by_name["ppo_runner"]] != []:
        print("\n## ppo_runner minus ppo\n")
        print("\n".join(differences(by_name)))


if __name__ == "__main__":
    main()
