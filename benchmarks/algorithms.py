"""Success of every built-in algorithm and framework on `reach`, with default settings.

    python benchmarks/algorithms.py > benchmarks/results/algorithms.md

For each algorithm and seed it runs `python train.py --algo NAME --framework F --seed S --logdir TEMPORARY`, in
sequence. Success is the result's `success_rate`: 100 fresh episodes of the saved model. Steps: until the threshold
stops the run, or all. Seconds: wall time of the whole command, with imports, compiling and video. Table: median and
range over the seeds, then the value of each seed.

Finished runs are stored in a JSON file and repeated only if they failed or the defaults have changed (according to the
hash of the config); `--fresh` repeats all. Algorithms in the user's `algos/` are excluded.
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
Combo = tuple[str, str]
"""Algorithm and framework."""


def built_in() -> list[Combo]:
    """Return the built-in algorithms and frameworks."""
    from mygym.registry import implemented_combos, registry

    names = [entry.name for entry in registry("algorithm") if entry.origin.startswith("mygym.")]
    return [(name, framework) for name in names for framework in implemented_combos[name]]


def selected(names: list[str] | None, combos: list[Combo]) -> list[Combo]:
    """Return the `combos` that match names such as `sac` (every framework) or `sac/jax`.

    Raises:
        ValueError: A name matches no combination.
    """
    for wanted in names or ():
        if not any(wanted in (name, f"{name}/{framework}") for name, framework in combos):
            raise ValueError(f"--only: {wanted} is none of {', '.join('/'.join(combo) for combo in combos)}")
    return [combo for combo in combos if names is None or combo[0] in names or "/".join(combo) in names]


def default_hash(combo: Combo) -> str:
    """Return the hash of the current default config; rows with a different hash are outdated."""
    from mygym.config import config_hash
    from mygym.planning.resolve import from_python
    from mygym.training import env_factory, model_factory

    resolved = from_python({"algo": combo[0], "framework": combo[1]})
    env = env_factory.make_vec_env(resolved.config)
    try:
        model = model_factory.build_model(resolved.config, env)
    finally:
        env.close()
    return config_hash(model_factory.as_built(resolved, model).values())


def combo_of(row: Row) -> Combo:
    """Return algorithm and framework of a row."""
    return row["algorithm"], row["framework"]


def command_of(combo: Combo) -> list[str]:
    """Return the training command without the seed."""
    framework = [] if combo[1] == "pytorch" else ["--framework", combo[1]]
    return ["train.py", "--algo", combo[0], *framework]


def run(combo: Combo, seed: int) -> Row:
    """Run once and return the row; a failed run is a row with its error."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*command_of(combo), "--seed", str(seed), "--logdir", folder]
        start = time.perf_counter()
        done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
        seconds = round(time.perf_counter() - start, 1)
        row: Row = {"algorithm": combo[0], "framework": combo[1], "seed": seed, "seconds": seconds}
        if done.returncode:
            return {**row, "error": done.stderr.strip()[-500:]}
        path = done.stdout.rstrip().rpartition("\n")[2].removeprefix("run: ")
        result = json.loads((ROOT / path / "result.json").read_text(encoding="utf-8"))
    keys = ("steps", "success_rate", "mean_return", "steps_per_second", "config_hash")
    return {**row, **{key: result[key] for key in keys}}


def table(rows: list[Row]) -> list[str]:
    """Return the Markdown table, sorted by success (best first), then by steps."""
    lines = [
        "| algorithm | framework | command | steps, median | seconds, median | success of 100: median | range | each |",
        "|---|---|---|---|---|---|---|---|",
    ]
    ranked = []
    for combo in sorted({combo_of(row) for row in rows}):
        runs = sorted((row for row in rows if combo_of(row) == combo), key=lambda row: row["seed"])
        good = [row for row in runs if "error" not in row]
        each = ", ".join(f"{row['seed']}: " + (f"{100 * row['success_rate']:.0f}" if row in good else "failed")
                         for row in runs)  # fmt: skip
        begin = f"| {' | '.join(combo)} | `python {' '.join(command_of(combo))} --seed S` |"
        if not good:
            ranked.append((0.0, 0.0, f"{begin} | | | | {each} |"))
            continue
        steps, seconds, success = (
            statistics.median(row[key] for row in good) for key in ("steps", "seconds", "success_rate")
        )
        rates = [100 * row["success_rate"] for row in good]
        line = (
            f"{begin} {steps:,.0f} | {seconds:.0f} | **{100 * success:.0f}** "
            f"| {min(rates):.0f}–{max(rates):.0f} | {each} |"
        )
        ranked.append((-success, steps, line))
    return lines + [line for *_, line in sorted(ranked)]


def main() -> None:
    """Run missing combinations and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME[/FRAMEWORK]", help="algorithms (default: all)")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds, from 0 (default: %(default)s)")
    parser.add_argument("--rows", type=Path, help="JSON file of finished runs (default: algorithms.json in results/)")
    parser.add_argument("--fresh", action="store_true", help="repeat finished runs")
    arguments = parser.parse_args()

    try:
        wanted = [(combo, seed) for combo in selected(arguments.only, built_in()) for seed in range(arguments.seeds)]
    except ValueError as error:
        parser.error(str(error))
    path: Path = arguments.rows or RESULTS / "algorithms.json"
    rows: list[Row] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    hashes = {combo: default_hash(combo) for combo in built_in()}
    rows = [row for row in rows if "error" not in row and row["config_hash"] == hashes.get(combo_of(row))]
    if arguments.fresh:
        rows = [row for row in rows if (combo_of(row), row["seed"]) not in wanted]
    finished = {(combo_of(row), row["seed"]) for row in rows}
    for combo, seed in wanted:
        if (combo, seed) in finished:
            continue
        row = run(combo, seed)
        print(json.dumps(row), file=sys.stderr)
        rows.append(row)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    versions = ", ".join(
        f"{name} {version(name)}" for name in ("stable-baselines3", "sb3-contrib", "sbx-rl", "torch", "jax")
    )
    lines = [
        "# Every algorithm on reach, with default settings",
        "",
        f"`python benchmarks/algorithms.py`; Python {platform.python_version()}, {platform.machine()}, {versions}, "
        "a shared machine.",
        "The docstring of the program explains the columns.",
        "",
        *table(rows),
    ]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
