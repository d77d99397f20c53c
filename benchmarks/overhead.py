"""Time of a run relative to a call of `model.learn` by hand.

    python benchmarks/overhead.py > benchmarks/results/overhead.md

Both sides train the same class with the same arguments on the same environments for the same env steps, in turn, each
in a separate process. By hand: an SB3 vector environment of `gymnasium.make("mygym/Reach-v0")` with SB3's monitor, the
class, and `model.learn(steps)`. A run: `mygym.train` with logs, TensorBoard and checkpoints, without its evaluations
(before the first step and at the end). The seconds are the time of `learn`. Both sides have the same seeds and must
have the same episodes, because a policy that learns faster is reset more often.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from mygym.training.result import versions_in_words

ROOT = Path(__file__).resolve().parents[1]

ALGORITHMS = {"ppo": 40_000, "sac": 10_000}
"""Algorithm → env steps."""


def settings(algo: str, logdir: str) -> dict[str, Any]:
    """Return the run's config: defaults without normalisation, which would need an additional wrapper by hand."""
    quiet = {"every": 10**9, "episodes": 1, "final_episodes": 1}
    shape = {"algo": algo, "steps": ALGORITHMS[algo], "normalize": False, "her": False, "reward": "dense"}
    return {**shape, "stop_at_success": None, "eval": quiet, "video": {"episodes": 0}, "logdir": logdir}


Measurement = tuple[float, list[float]]
"""Seconds of `learn`, and the returns of the last 100 training episodes."""


def by_run(algo: str) -> Measurement:
    """Measure a run without its evaluations."""
    import mygym

    with tempfile.TemporaryDirectory() as logdir:
        result = mygym.train(settings(algo, logdir))
        rows = (result.path / "monitor.csv").read_text(encoding="utf-8").splitlines()[2:]
    return result.steps / result.steps_per_second, [float(row.split(",")[0]) for row in rows][-100:]


def by_hand(algo: str) -> Measurement:
    """Measure Stable-Baselines3 alone."""
    import gymnasium
    import torch
    from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

    from mygym.config.hyperparameters import Schema
    from mygym.planning.resolve import resolve_config
    from mygym.registry import algorithm
    from mygym.training.evaluation import TRAINING, episode_seeds

    torch.set_num_threads(1)
    config = resolve_config(overrides=settings(algo, "unused")).config
    schema = Schema(algorithm(algo), config.algo_params)
    policy, kwargs = schema.arguments(config.algo_params)
    env = VecMonitor(DummyVecEnv([lambda: gymnasium.make("mygym/Reach-v0", reward="dense")] * config.n_envs))
    model = schema.cls(policy, env, seed=config.seed, device="cpu", **kwargs)
    env.seed(episode_seeds(config.seed, TRAINING, 1)[0])
    start = time.perf_counter()
    model.learn(config.steps)
    seconds = time.perf_counter() - start
    env.close()
    return seconds, [float(episode["r"]) for episode in model.ep_info_buffer]


def measured(side: str, algo: str) -> Measurement:
    """Measure one side in a separate process."""
    command = [sys.executable, str(Path(__file__)), "--side", side, "--algo", algo]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    seconds, returns = json.loads(done.stdout.splitlines()[-1])
    return seconds, returns


def have_same_episodes(first: Measurement, second: Measurement) -> bool:
    """Return whether two measurements have the same returns, which monitor.csv rounds to six decimals."""
    return len(first[1]) == len(second[1]) and bool(np.allclose(first[1], second[1], rtol=0, atol=1e-5))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7, help="pairs for each algorithm (default 7)")
    parser.add_argument("--side", choices=["run", "hand"], help="measure one side once and print its seconds")
    parser.add_argument("--algo", choices=sorted(ALGORITHMS), help="with --side")
    options = parser.parse_args()
    if options.side:
        print(json.dumps((by_run if options.side == "run" else by_hand)(options.algo or "ppo")))
        return
    print("# Time of a run relative to `model.learn`\n")
    print(f"Seconds of `learn`, medians of {options.repeats} pairs (smallest to largest); ratios are of pairs.\n")
    print("| algorithm | env steps | by hand | a run | a run / by hand |")
    print("|---|---|---|---|---|")
    for algo, steps in ALGORITHMS.items():
        pairs = []
        for number in range(options.repeats):
            sides = ("hand", "run") if number % 2 else ("run", "hand")
            pair = {side: measured(side, algo) for side in sides}
            if not have_same_episodes(pair["run"], pair["hand"]):
                raise SystemExit(f"{algo}: the two sides had different episodes")
            pairs.append({side: seconds for side, (seconds, _) in pair.items()})
        hand, run, ratio = (
            f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"
            for values, digits in (
                ([pair["hand"] for pair in pairs], 2),
                ([pair["run"] for pair in pairs], 2),
                ([pair["run"] / pair["hand"] for pair in pairs], 3),
            )
        )
        print(f"| `{algo}` | {steps:,} | {hand} s | {run} s | {ratio} |", flush=True)
    packages = versions_in_words("torch", "stable-baselines3", "pybullet")
    print(f"\nMade by `python benchmarks/overhead.py`; Python {platform.python_version()}, {packages}, ", end="")
    print(f"{os.cpu_count()} cores of a shared machine, load {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    main()
