"""Env steps per second of the fused engine and of one PyBullet environment, in turns, and their ratio.

    python benchmarks/fused.py

Random actions, each task with the reward that `ppo` prefers, one process and one thread; observations, rewards, resets
and infos included. Each figure is the median of five measurements, which alternate so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

from mygym.envs.fused_envs import FusedEnvs
from mygym.envs.fused_vec_env import FusedVecEnv
from mygym.envs.robot_env import RobotEnv

TIMES = 5
SECONDS = 1.0
"""Duration of a measurement, s."""

TASKS = {"reach": "dense", "push": "shaped", "pick_and_place": "shaped"}
"""Task → reward."""


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, default=4096, help="environments of the fused engine")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="duration of a measurement")
    options = parser.parse_args()
    print("| task | engine | env steps/s | ratio |\n|---|---|---|---|")
    for task, reward in TASKS.items():
        medians = measure({"task": task, "reward": reward}, options.envs, options.seconds)
        base = next(iter(medians.values()))
        for name, speed in medians.items():
            print(f"| `{task}` | {name} | {speed:,.0f} | {speed / base:,.0f} |")


def measure(arguments: dict[str, Any], count: int, seconds: float) -> dict[str, float]:
    """Return the median env steps per second of each engine, the PyBullet environment first."""
    vec_env, arrays = FusedVecEnv(arguments, count), FusedEnvs(arguments, count)
    vec_env.seed(0)
    vec_env.reset()
    arrays.reset(range(count))
    with closing(RobotEnv(**arguments)) as env:
        env.reset(seed=0)
        (width,) = env.action_space.sample().shape
        actions = np.random.default_rng(0).uniform(-1, 1, (count, width)).astype(np.float32)

        def step_bullet() -> None:
            _, _, terminated, truncated, _ = env.step(actions[0])
            if terminated or truncated:
                env.reset()

        kinds: dict[str, tuple[Callable[[], object], int]] = {
            "one PyBullet environment": (step_bullet, 1),
            f"fused, arrays of numpy, {count} environments": (lambda: arrays.step(actions), count),
            f"fused, SB3 vector environment, {count} environments": (lambda: vec_env.step(actions), count),
        }
        speeds: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(TIMES):
            for name, (step, number) in kinds.items():
                speeds[name].append(number * steps_per_second(step, seconds))
    return {name: float(np.median(values)) for name, values in speeds.items()}


def steps_per_second(step: Callable[[], object], seconds: float) -> float:
    """Return the calls per second of a function."""
    step()
    calls, begin = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        step()
        calls += 1
    return calls / elapsed


if __name__ == "__main__":
    main()
