"""Sweeps: time of the search per trial, two runs at a time against two processes started by hand, a sabotaged default.

    python benchmarks/sweeps.py > benchmarks/results/sweeps.md

Search: sweeps of 100 trials over six hyperparameters whose runs end at once (a run directory is copied); the seconds of
the copies are subtracted. Jobs: a grid of short runs by `mygym sweep --jobs 2`, and the same runs by
`xargs -P 2 mygym train`; both in turn, as wall time and as processor time of all processes, which other programs change
less. Sabotage: a grid over the learning rate with the value 1e-6, which must be the
worst.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mygym.errors import print_message
from mygym.training.result import versions_in_words

SEARCHED = {"random": "none", "tpe": "none", "cmaes": "none", "tpe, median": "median"}
"""Sampler → pruner of the sweeps whose runs end at once."""

PARTS = ("search", "jobs", "sabotage")

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


RATES = (1e-4, 4e-4, 1e-3, 2e-3, 4e-3, 1e-2)
STEPS = 16_384
SHORT = [
    word
    for pair in ("algo=ppo", f"steps={STEPS}", "n_envs=2", "video.episodes=0", "tensorboard=false", "eval.every=8192")
    for word in ("--set", pair)
]
MYGYM = [sys.executable, "-m", "mygym"]


class Copies:
    """Executor whose runs are copies of a run, with a success that follows from the learning rate.

    Args:
        template: A run directory.
    """

    jobs = 1

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


def sweep(folder: Path, parameters: dict[str, Any], jobs: int, **settings: Any) -> list[dict[str, Any]]:
    """Return the rows of a sweep of `ppo` on `reach`, in the order of the trials; a sweep that exists goes on."""
    from mygym.sweeps.executors import LocalExecutor
    from mygym.sweeps.run import new_sweep, resume_sweep

    file = {**CONFIG, "algo_params": parameters, "sweep": {"objective": "steps_to_0.9", **settings}}
    work = resume_sweep if folder.exists() else new_sweep
    report = work(folder, file, {}, LocalExecutor(jobs), print_message)
    return sorted(report.rows, key=lambda row: int(row["trial"]))


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


def by_sweep(folder: Path) -> tuple[float, float]:
    """Return wall and processor seconds of a sweep of the short runs two at a time."""
    names = ",".join(f"{rate:g}" for rate in RATES)
    space = f"algo_params.learning_rate={{grid: [{names}]}}"
    words = ["sweep", "--space", space, *SHORT, "--jobs", "2", "--out", str(folder)]
    return _seconds([*MYGYM, *words])


def by_hand(folder: Path) -> tuple[float, float]:
    """Return wall and processor seconds of the same runs, two processes at a time."""
    words = ["train", *SHORT, "--logdir", str(folder), "--set"]
    rates = " ".join(f"algo_params.learning_rate={rate:g}" for rate in RATES)
    quoted = " ".join(map(shlex.quote, [*MYGYM, *words]))
    return _seconds(["bash", "-c", f"printf '%s\\n' {rates} | xargs -P 2 -n 1 {quoted}"])


def _seconds(command: list[str]) -> tuple[float, float]:
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, processor


def print_jobs(options: argparse.Namespace) -> None:
    """Compare two runs at a time with two processes started by hand, in turn, and print a table."""
    print(f"\n## Two runs at a time\n\n{len(RATES)} runs of {STEPS:,} env steps of `ppo` each, from begin to end.\n")
    print(
        "| repetition | sweep: wall, processor (s) | by hand (s) "
        "| trials of the sweep per hour and per processor hour, relative |"
    )
    print("|---|---|---|---|")
    ratios = []
    for repetition in range(options.repetitions):
        with tempfile.TemporaryDirectory() as folder:
            sides = [by_sweep, by_hand] if repetition % 2 else [by_hand, by_sweep]
            seconds = {side.__name__: side(Path(folder) / side.__name__) for side in sides}
        pairs = [seconds["by_sweep"], seconds["by_hand"]]
        ratios.append([hand / sweep for sweep, hand in zip(*pairs, strict=True)])
        cells = [f"{wall:.0f}, {processor:.0f}" for wall, processor in pairs]
        print(f"| {repetition} | {' | '.join(cells)} | {', '.join(f'{each:.0%}' for each in ratios[-1])} |", flush=True)
    wall, processor = (statistics.median(each) for each in zip(*ratios, strict=True))
    print(f"\nMedian: {wall:.0%} per hour, {processor:.0%} per processor hour.")


def print_sabotage(options: argparse.Namespace, folder: Path) -> None:
    """Search the learning rate with a bad value among the good values, and print a table."""
    print("\n## A sabotaged default\n\nA grid over the learning rate; 1e-6 stands for a mistake in the defaults.\n")
    print("| learning rate | reached 90 % | score: env steps to 90 %, or up to twice the budget |\n|---|---|---|")
    rates = {"learning_rate": {"grid": [1e-6, 1e-5, 1e-4, 1e-3, 3e-3]}}
    for row in sweep(folder / "sabotage", rates, options.jobs):
        score = row["score"]
        print(f"| {row['algo_params.learning_rate']:g} | {'yes' if score <= BUDGET else 'no'} | {score:,.0f} |")


def main() -> None:
    """Measure and print tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="measurements (default: all)")
    parser.add_argument("--repetitions", type=int, default=5, help="measurements of the jobs (default 5)")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time (default 1)")
    parser.add_argument("--folder", default="", help="folder of the sweeps that train, which go on if they exist")
    options = parser.parse_args()
    folder = Path(options.folder or tempfile.mkdtemp())
    print("# Sweeps")
    if "search" in options.parts:
        print_search_time()
    if "jobs" in options.parts:
        print_jobs(options)
    if "sabotage" in options.parts:
        print_sabotage(options, folder)
    machine = f"{len(os.sched_getaffinity(0))} cores of a shared machine, load {os.getloadavg()[0]:.1f}"
    packages = versions_in_words("optuna", "cmaes", "torch", "pybullet")
    words = "" if set(options.parts) == set(PARTS) else f" --parts {' '.join(options.parts)}"
    print(f"\nMade by `python benchmarks/sweeps.py{words}`; Python {platform.python_version()}, {packages}, {machine}.")


if __name__ == "__main__":
    main()
