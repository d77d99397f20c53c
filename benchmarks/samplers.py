"""Samplers of sweeps: TPE against random search, over the hyperparameters of `ppo` on `reach`.

    python benchmarks/samplers.py > benchmarks/results/samplers.md

Each repetition is a sweep of 30 trials by random search and one by TPE, with the same seed of the sampler; each has a
new seed of the runs. The score of a trial is the mean return of the final policy in PyBullet after a budget of steps in
the fused engine; the ranges are those of a person without experience. The best config of each sweep is then trained
with five other seeds, because the best of 30 noisy scores is too good.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import platform
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from mygym.errors import print_message
from mygym.training.result import versions_in_words

MARKS = (10, 15, 20, 25, 30)
"""Numbers of trials after which the best score is printed."""

FIRST = 100
"""Seed of the first repetition; the settings of TPE were chosen on sweeps with the seeds 0 to 3."""

FRESH = range(1000, 1005)
"""Seeds of the runs that judge the best configs."""

CONFIG: dict[str, Any] = {
    "task": "reach",
    "algo": "ppo",
    "engine": "fused",
    "n_envs": 64,
    "steps": 10_240,
    "eval": {"every": 10_240, "episodes": 1, "final_episodes": 50},
    "video": {"episodes": 0},
    "tensorboard": False,
    "algo_params": {
        "learning_rate": {"loguniform": [1e-6, 1e-1]},
        "gamma": {"uniform": [0.5, 0.999]},
        "gae_lambda": {"uniform": [0.5, 1.0]},
        "clip_range": {"loguniform": [0.01, 1.0]},
        "ent_coef": {"loguniform": [1e-6, 1.0]},
        "vf_coef": {"loguniform": [0.01, 10.0]},
        "max_grad_norm": {"loguniform": [0.01, 10.0]},
        "n_steps": {"choice": [8, 16, 32, 64]},
        "batch_size": {"choice": [64, 128, 256, 512]},
        "n_epochs": {"int": [1, 20]},
    },
}


class ThisProcess:
    """Executor that trains each run in this process, which saves the imports."""

    jobs = 1

    def limit(self, memory: int) -> None:
        """Do nothing: one run at a time fits."""

    def submit(self, job: Any) -> int:
        """Train a run, or the rest of it; return its exit code."""
        import mygym
        from mygym.config import load_file
        from mygym.errors import MygymError

        with job.log.open("a") as log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            try:
                words = job.words()
                if words[0] == "--resume":
                    mygym.train(resume=words[1])
                else:
                    _, file, _, seed, _, logdir = words
                    mygym.train({**load_file(file), "seed": int(seed), "logdir": logdir})
            except MygymError as error:
                print(f"error: {error}")
                return 1
        return 0

    def poll(self, handle: int) -> int:
        """Return the exit code: the run has ended."""
        return handle

    def stop(self, handle: int) -> None:
        """Do nothing: the run has ended."""


def sweep(folder: Path, sampler: str, repetition: int, trials: int) -> tuple[list[float], Path]:
    """Return the scores in the order of the trials, and the best config; a sweep that exists goes on."""
    from mygym.sweeps.run import new_sweep, resume_sweep

    settings = {"sampler": sampler, "sampler_seed": repetition, "trials": trials, "seeds": [repetition]}
    file = {**CONFIG, "sweep": {**settings, "objective": {"maximize": "mean_return"}}}
    work = resume_sweep if folder.exists() else new_sweep
    report = work(folder, file, {}, ThisProcess(), print_message)
    rows = sorted(report.rows, key=lambda row: int(row["trial"]))
    return [float("-inf") if row["score"] is None else float(row["score"]) for row in rows], report.best


def judge(best: Path) -> list[float]:
    """Return the mean return and the success rate of a config, means over fresh seeds; they are stored beside it."""
    import mygym
    from mygym.config import load_file

    stored = best.with_name("judged.json")
    if stored.exists():
        return list(json.loads(stored.read_text(encoding="utf-8")))
    with tempfile.TemporaryDirectory() as logdir, contextlib.redirect_stderr(io.StringIO()):
        results = [mygym.train({**load_file(best), "seed": seed, "logdir": logdir}) for seed in FRESH]
    judged = np.mean([[each.mean_return, each.success_rate] for each in results], axis=0).tolist()
    stored.write_text(json.dumps(judged), encoding="utf-8")
    return list(judged)


def main() -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=30, help="trials of each sweep (default 30)")
    parser.add_argument("--repetitions", type=int, default=5, help="sweeps of each sampler (default 5)")
    parser.add_argument("--folder", default="", help="folder of the sweeps, which go on if they exist")
    options = parser.parse_args()
    folder = Path(options.folder or tempfile.mkdtemp())
    marks = [mark for mark in MARKS if mark < options.trials] + [options.trials]
    print("# TPE against random search\n")
    print(f"Best mean return of the trials so far; the budget of a trial is {CONFIG['steps']:,} env steps.\n")
    print(f"| sampler | repetition | {' | '.join(f'{mark} trials' for mark in marks)} | best: fresh seeds | success |")
    print(f"|---|---|{'---|' * len(marks)}---|---|")
    figures: dict[str, list[list[float]]] = {"random": [], "tpe": []}
    for repetition in range(FIRST, FIRST + options.repetitions):
        for sampler in figures:
            scores, best = sweep(folder / f"{sampler}_{repetition}", sampler, repetition, options.trials)
            row = [*(max(scores[:mark]) for mark in marks), *judge(best)]
            figures[sampler].append(row)
            print(_row(sampler, str(repetition), row), flush=True)
    for sampler, rows in figures.items():
        print(_row(f"**{sampler}**", "mean", np.mean(rows, axis=0).tolist()))
    better = [
        sum(tpe[index] > random[index] for random, tpe in zip(*figures.values(), strict=True)) for index in (-3, -2)
    ]
    print(
        f"\nTPE is better in {better[0]} of {options.repetitions} repetitions by the best score, "
        f"in {better[1]} by fresh seeds."
    )
    packages = versions_in_words("optuna", "torch", "pybullet")
    machine = f"{len(os.sched_getaffinity(0))} cores of a shared machine"
    print(f"\nMade by `python benchmarks/samplers.py`; Python {platform.python_version()}, {packages}, {machine}.")


def _row(sampler: str, repetition: str, row: list[float]) -> str:
    *returns, success = row
    return f"| {sampler} | {repetition} | {' | '.join(f'{value:.2f}' for value in returns)} | {success:.0%} |"


if __name__ == "__main__":
    main()
