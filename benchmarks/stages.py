"""Environment steps per second of tasks with several stages, relative to reach in the same scene.

    python benchmarks/stages.py > benchmarks/results/stages.md

The scene is a Panda on the table with a cube. Spaces are shared, so that physics, actions and observations are the
same; only the task differs. Actions are uniform in [-1, 1], the same stream for both, and episodes are cut to the same
number of steps. A round is the same number of episodes of both; the ratio is the task's steps/s over
reach's within a round, by processor time: median, smallest and largest round.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np

from mygym.envs.robot_env import RobotEnv

TASKS = ("AGMD", "AGMDW", "AGRTDW")
STEPS = 20
"""Steps of an episode, too few to solve the task by chance."""


def seconds(env: RobotEnv, episodes: int) -> float:
    """Return the processor time of the steps of `episodes` episodes, without resets."""
    rng, total = np.random.default_rng(0), 0.0
    for seed in range(episodes):
        env.reset(seed=seed)
        actions = rng.uniform(-1.0, 1.0, (STEPS, env.world.action_size)).astype(np.float32)
        start = time.process_time()
        for action in actions:
            env.step(action)
        total += time.process_time() - start
    return total


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="rounds of each task (default: %(default)s)")
    parser.add_argument(
        "--episodes", type=int, default=40, help="episodes of each side in a round (default: %(default)s)"
    )
    options = parser.parse_args()

    common: dict[str, Any] = {"spaces": "shared", "reward": "shaped"}
    print("# Cost of stages\n")
    print("Made by `python benchmarks/stages.py`; the docstring of the program explains the columns.\n")
    print("| task | stages | steps/s relative to reach |")
    print("|---|---|---|")
    with RobotEnv("reach", task_params={"distractors": ["cube"]}, **common) as reach:
        for name in TASKS:
            with RobotEnv(name, **common) as env:
                episodes = options.episodes
                ratios = [seconds(reach, episodes) / seconds(env, episodes) for _ in range(options.rounds)]
                low, high = min(ratios), max(ratios)
                stages = len(env.task.stage_names)
                print(f"| {name} | {stages} | {statistics.median(ratios):.2f} ({low:.2f}-{high:.2f}) |", flush=True)


if __name__ == "__main__":
    main()
