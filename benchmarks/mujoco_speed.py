"""The engine MuJoCo against Bullet: steps per second, memory, resets, and the tool's way for the same actions.

    python benchmarks/mujoco_speed.py > benchmarks/results/mujoco_speed.md

Actions are uniform in [-1, 1], episodes end and begin as in training, with their observations and rewards. A round runs
each column in turn, by processor time, so that other load affects all; figures are medians over rounds. Columns of many
worlds run on one thread; the ratio of two threads to one is by wall time, and needs two free cores.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from contextlib import closing
from statistics import median
from typing import Any

import numpy as np
import psutil

from mygym.checks.parity import compare_engines
from mygym.engines.engine import BULLET, MUJOCO
from mygym.engines.mujoco.world import MujocoWorlds
from mygym.envs.batch_env import BatchEnv
from mygym.envs.robot_env import RobotEnv
from mygym.training.result import versions_in_words

TASKS = ("reach", "push", "pick_and_place")
COUNTS = (32, 64, 256)
COARSE = f"{MUJOCO}_10ms"


def single(engine: str, task: str) -> Callable[[int], float]:
    """Return a function that plays steps in one environment, and returns seconds per step of processor time."""
    env, rng = RobotEnv(task=task, engine=engine), np.random.default_rng(0)
    env.reset(seed=0)

    def play(steps: int) -> float:
        begin = time.process_time()
        for _ in range(steps):
            _, _, terminated, truncated, _ = env.step(rng.uniform(-1.0, 1.0, env.action_space.shape))
            if terminated or truncated:
                env.reset()
        return (time.process_time() - begin) / steps

    return play


def batch(engine: str, task: str, count: int, threads: int = 1, clock: Any = time.process_time) -> Any:
    """Return a function that plays steps in `count` environments, and returns seconds per step and environment."""
    before = MujocoWorlds.threads
    MujocoWorlds.threads = threads
    try:
        env = BatchEnv({"task": task, "engine": engine}, count)
    finally:
        MujocoWorlds.threads = before
    env.reset(range(count))
    rng = np.random.default_rng(0)

    def play(steps: int) -> float:
        actions = rng.uniform(-1.0, 1.0, (steps, count, env.worlds.action_size)).astype(np.float32)
        begin = clock()
        for action in actions:
            env.step(action)
        return float(clock() - begin) / steps / count

    return play


def rounds(columns: dict[str, Any], steps: dict[str, int], count: int) -> dict[str, float]:
    """Return the median of each column over rounds."""
    times: dict[str, list[float]] = {name: [] for name in columns}
    for number in range(count + 1):
        for name, play in columns.items():
            seconds = play(steps[name])
            if number:  # the first round warms up
                times[name].append(seconds)
    return {name: median(values) for name, values in times.items()}


def speeds(task: str, count: int) -> None:
    """Print the row of a task."""
    columns: dict[str, Any] = {"Bullet, 1": single(BULLET, task), "1": single(MUJOCO, task)}
    steps = {"Bullet, 1": 300, "1": 300}
    for engine, words in ((MUJOCO, ""), (COARSE, ", 10 ms")):
        for worlds in COUNTS:
            columns[f"{worlds}{words}"] = batch(engine, task, worlds)
            steps[f"{worlds}{words}"] = max(20, 3000 // worlds)
    times = rounds(columns, steps, count)
    base = times["Bullet, 1"]
    cells = [f"{1 / base:,.0f}"] + [f"{1 / times[name]:,.0f} ({base / times[name]:.1f} ×)" for name in list(times)[1:]]
    print(f"| {task} | {' | '.join(cells)} |", flush=True)


def threads(task: str, count: int) -> None:
    """Print how much quicker two threads are than one."""
    columns = {str(number): batch(MUJOCO, task, 256, number, time.perf_counter) for number in (1, 2)}
    times = rounds(columns, {"1": 20, "2": 20}, count)
    print(f"| {task} | {times['1'] / times['2']:.2f} × |", flush=True)


def tool_distance(task: str, episodes: int) -> None:
    """Print the distance of the tool from Bullet's, for the actions of the expert in Bullet, see `mygym parity`."""
    (expert,) = (kind for kind in compare_engines({"task": task}, episodes, 0, MUJOCO) if kind.actions == "expert")
    print(f"| {task} | {expert.mean:.1f} | {expert.percentile:.1f} |", flush=True)


def memory_and_resets() -> str:
    """Return the memory of 4,096 worlds, and the time of a reset with the placement of objects, in words."""
    with closing(RobotEnv(task="pick_and_place", engine=MUJOCO)) as env:
        process = psutil.Process()
        before = process.memory_info().rss
        worlds = env.world.batch(4096)
        grown = (process.memory_info().rss - before) / 1e6
        del worlds
    batches = BatchEnv({"task": "pick_and_place", "engine": MUJOCO}, 256)
    batches.reset(range(256))
    times = []
    for _ in range(20):
        begin = time.process_time()
        batches.reset()
        times.append((time.process_time() - begin) / 256)
    reset = 1e3 * median(times)
    return f"4,096 worlds of `pick_and_place`: {grown:.0f} MB; a reset in a batch of 256: {reset:.2f} ms.\n"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each comparison (default: %(default)s)")
    parser.add_argument("--episodes", type=int, default=20, help="episodes of the tool's way (default: %(default)s)")
    options = parser.parse_args()
    load, memory = os.getloadavg()[0], memory_and_resets()  # the memory first, while none is left from other worlds
    versions = versions_in_words("mujoco-core", "pybullet", "numpy")
    print("# The engine MuJoCo\n")
    print("Made by `python benchmarks/mujoco_speed.py`; the docstring of the program explains the tables.\n")
    print(f"Panda, physics at 5 ms where no other is named; {versions}; load {load:.1f} at the start.\n")
    names = ["Bullet, 1", "1", *map(str, COUNTS), *(f"{count}, 10 ms" for count in COUNTS)]
    print("Environment steps per second and core, resets included; worlds, and how often one environment of Bullet:\n")
    print(f"| task | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for task in TASKS:
        speeds(task, options.rounds)
    print("\nTwo threads against one, 256 worlds, by wall time:\n\n| task | |\n|---|---|")
    for task in TASKS:
        threads(task, options.rounds)
    print("\nThe tool's distance from Bullet's for the same actions, mm:\n\n| task | mean | 95 % |\n|---|---|---|")
    for task in TASKS:
        tool_distance(task, options.episodes)
    print()
    print(memory)
    print(f"load {os.getloadavg()[0]:.1f} at the end", file=sys.stderr)


if __name__ == "__main__":
    main()
