"""Sweeps: time of the search per trial, TPE against random search, and a sabotaged default.

    python benchmarks/sweeps.py > benchmarks/results/sweeps.md

Search: sweeps of 100 trials over six hyperparameters whose runs end at once (a run directory is copied); the seconds of
the copies are subtracted. Samplers: sweeps of `ppo` on `reach` with one seed per trial, which minimize the env steps to
90 % success within a budget; random search and TPE have the same seed. Sabotage: a grid over the learning rate with
the value 1e-6, which must be the worst.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

SEARCHED = {"random": "none", "tpe": "none", "cmaes": "none", "tpe, median": "median"}
"""Sampler → pruner of the sweeps whose runs end at once."""

PARTS = ("search", "samplers", "sabotage")

BUDGET = 24_000
"""Env steps of a trial."""

PARAMETERS: dict[str, Any] = {
    "learning_rate": {"loguniform": [1e-5, 1e-2]},
    "gamma": {"choice": [0.9, 0.95, 0.98]},
    "n_steps": {"choice": [32, 64, 128, 256]},
    "batch_size": {"choice": [64, 128, 256]},
    "n_epochs": {"int": [3, 20]},
    "ent_coef": {"loguniform": [1e-6, 1e-2]},
}
CONFIG: dict[str, Any] = {
    "task": "reach",
    "algo": "ppo",
    "steps": BUDGET,
    "stop_at_success": 0.9,
    "eval": {"every": 2_000, "episodes": 20, "final_episodes": 20},
}


class Copies:
    """Executor whose runs are copies of a run, with a success that follows from the learning rate.

    Args:
        template: A run directory.
    """

    workers = 1

    def __init__(self, template: Path) -> None:
        self.template, self.seconds = template, 0.0

    def limit(self, memory: int) -> None:
        """Do nothing: a copy takes no memory."""

    def submit(self, job: Any) -> float:
        """Copy the run; return its end."""
        began = time.perf_counter()
        from mygym.config import load_file

        _, config, _, seed, _, logdir = job.words()
        run = Path(logdir, "reach", "panda", "ppo", "copy", f"seed_{seed}")
        shutil.copytree(self.template, run)
        result = json.loads((run / "result.json").read_text(encoding="utf-8"))
        rate = load_file(config)["algo_params"]["learning_rate"]
        result["success_rate"] = 1 / (1 + abs(math.log10(rate) + 3))
        (run / "result.json").write_text(json.dumps(result), encoding="utf-8")
        self.seconds += time.perf_counter() - began
        return began

    def poll(self, handle: float) -> int:
        """Return 0: the run has ended."""
        return 0

    def stop(self, handle: float) -> None:
        """Do nothing: every run has ended."""


def search_time(sampler: str, pruner: str, template: Path, trials: int) -> tuple[float, float]:
    """Return ms of the search per trial, and of the last ten trials."""
    from mygym.sweeps.run import new_sweep

    executor, ends = Copies(template), []
    file = {**CONFIG, "algo_params": PARAMETERS, "sweep": {"trials": trials, "sampler": sampler, "pruner": pruner}}

    def note(line: str) -> None:
        ends.append(time.perf_counter() - executor.seconds)

    with tempfile.TemporaryDirectory() as folder:
        new_sweep(Path(folder) / "sweep", file, {}, executor, note)
    waited = 50.0  # ms until the next look at a run
    each = 1000 * (ends[-1] - ends[0]) / (len(ends) - 1) - waited
    return each, 1000 * (ends[-1] - ends[-11]) / 10 - waited


def sweep(folder: Path, parameters: dict[str, Any], workers: int, **settings: Any) -> list[dict[str, Any]]:
    """Return the rows of a sweep of `ppo` on `reach`, in the order of the trials; a sweep that exists goes on."""
    from mygym.sweeps.executors import LocalExecutor
    from mygym.sweeps.run import new_sweep, resume_sweep

    def note(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    file = {**CONFIG, "algo_params": parameters, "sweep": {"objective": "steps_to_0.9", **settings}}
    executor = LocalExecutor(workers)
    if folder.exists():
        report = resume_sweep(folder, file, {}, executor, note)
    else:
        report = new_sweep(folder, file, {}, executor, note)
    return sorted(report.rows, key=lambda row: int(row["trial"]))


def best_after(rows: list[dict[str, Any]], trials: int) -> float:
    """Return the lowest score of the first trials."""
    return min(float(row["score"]) for row in rows[:trials] if row["score"] is not None)


def print_search_time() -> None:
    """Measure the time of the search, and print a table."""
    import mygym

    print("\n## Time of the search\n\n100 trials over six hyperparameters.\n")
    print("| sampler | ms per trial | ms per trial, the last ten |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as logdir:
        short = {"steps": 64, "n_envs": 1, "eval": {"episodes": 1, "final_episodes": 1}, "video": {"episodes": 0}}
        template = mygym.train({**CONFIG, **short, "algo_params": {"n_steps": 64}, "logdir": logdir}).path
        for name, pruner in SEARCHED.items():
            each, last = search_time(name.partition(",")[0], pruner, template, 100)
            print(f"| {name} | {each:.0f} | {last:.0f} |", flush=True)


def print_samplers(options: argparse.Namespace, folder: Path) -> None:
    """Compare TPE with random search, and print a table."""
    print(f"\n## Samplers\n\nFewest env steps to 90 % success of the trials so far; the budget is {BUDGET:,}.\n")
    marks = [count for count in (10, 15, 20, 25, 30, 40, 50) if count <= options.trials]
    print(f"| sampler | seed | {' | '.join(f'{count} trials' for count in marks)} |\n|---|---|{'---|' * len(marks)}")
    for seed in range(options.repetitions):
        for sampler in ("random", "tpe"):
            settings = {"sampler": sampler, "sampler_seed": seed, "trials": options.trials}
            rows = sweep(folder / f"{sampler}_{seed}", PARAMETERS, options.workers, **settings)
            cells = " | ".join(f"{best_after(rows, count):,.0f}" for count in marks)
            print(f"| {sampler} | {seed} | {cells} |", flush=True)


def print_sabotage(options: argparse.Namespace, folder: Path) -> None:
    """Search the learning rate with a bad value among the good values, and print a table."""
    print("\n## A sabotaged default\n\nA grid over the learning rate; 1e-6 stands for a mistake in the defaults.\n")
    print("| learning rate | reached 90 % | score: env steps to 90 %, or up to twice the budget |\n|---|---|---|")
    rates = {"learning_rate": {"grid": [1e-6, 1e-5, 1e-4, 1e-3, 3e-3]}}
    for row in sweep(folder / "sabotage", rates, options.workers):
        score = row["score"]
        print(f"| {row['algo_params.learning_rate']:g} | {'yes' if score <= BUDGET else 'no'} | {score:,.0f} |")


def main() -> None:
    """Measure and print tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="measurements (default: all)")
    parser.add_argument("--trials", type=int, default=30, help="trials of each sampler (default 30)")
    parser.add_argument("--repetitions", type=int, default=1, help="sweeps of each sampler (default 1)")
    parser.add_argument("--workers", type=int, default=1, help="runs at the same time (default 1)")
    parser.add_argument("--folder", default="", help="folder of the sweeps that train, which go on if they exist")
    options = parser.parse_args()
    folder = Path(options.folder or tempfile.mkdtemp())
    print("# Sweeps")
    if "search" in options.parts:
        print_search_time()
    if "samplers" in options.parts:
        print_samplers(options, folder)
    if "sabotage" in options.parts:
        print_sabotage(options, folder)
    machine = f"{len(os.sched_getaffinity(0))} cores of a shared machine, load {os.getloadavg()[0]:.1f}"
    packages = ", ".join(f"{name} {version(name)}" for name in ("optuna", "cmaes", "torch", "pybullet"))
    words = "" if set(options.parts) == set(PARTS) else f" --parts {' '.join(options.parts)}"
    print(f"\nMade by `python benchmarks/sweeps.py{words}`; Python {platform.python_version()}, {packages}, {machine}.")


if __name__ == "__main__":
    main()
