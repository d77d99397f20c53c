"""Time of a rendering, steps per second with images, and policies from pixels: `--algo dagger` on pixels.

    python benchmarks/vision.py speed > benchmarks/results/vision.md
    python benchmarks/vision.py learn reach --seeds 1

`speed` measures the Panda scene at 64 x 64: colours, depth and segmentation of one rendering, and env steps/s of
`reach` with images, medians over rounds. `learn` trains `--algo dagger` and prints the success of 100 fresh episodes,
env steps and wall time of each seed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

OBSERVATIONS: dict[str, list[str]] = {
    "`image`": ["image"],
    "`image`, `depth`, `segmentation`": ["image", "depth", "segmentation"],
    "`rgbd:close`": ["rgbd:close"],
    "`image`, `image:wrist`": ["image", "image:wrist"],
}
"""Observations of `reach`, each with the end effector's position."""

SEEN = {
    "reach": ["rgbd:close", "ee_position"],
    "push": ["rgbd:close", "ee_position", "ee_velocity", "command_offset"],
    "pick_and_place": ["rgbd:close", "rgbd:wrist", "ee_position", "ee_velocity", "command_offset", "gripper_width"],
}
"""Observations from which `learn` learns each task."""

LEARNING = {"batch_size": 64, "learning_rate": {"schedule": "linear", "from": 2e-3, "to": 1e-5}}
STEPS = {"reach": 12_000, "push": 28_000, "pick_and_place": 26_000}


def seconds(call: Callable[[], Any], count: int, rounds: int) -> float:
    """Return the median time of a call."""
    call()
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        times.append((time.perf_counter() - begin) / count)
    return statistics.median(times)


def speed(count: int, rounds: int) -> None:
    """Print the tables of times."""
    import mygym

    print("# Images: time of a rendering, and policies from pixels\n")
    print("`python benchmarks/vision.py speed > benchmarks/results/vision.md` wrote these tables.\n")
    print(f"{platform.machine()}, {os.cpu_count()} cores shared with other programs, one process, one thread.\n")
    print("| camera, 64 x 64, colours + depth + segmentation | ms |\n|---|---:|")
    with mygym.make_env({"task": "pick_and_place"}) as env:
        env.reset(seed=0)
        for camera in sorted(env.world.cameras):
            print(f"| `{camera}` | {1e3 * seconds(partial(env.capture, camera=camera), count, rounds):.2f} |")
    print("\n| observations of `reach`, with `ee_position` | env steps/s |\n|---|---:|")
    for name, images in OBSERVATIONS.items():
        with mygym.make_env({"task": "reach", "observations": [*images, "ee_position"]}) as env:
            env.reset(seed=0)
            env.set_horizon(10**9)
            action = np.zeros(env.action_space.shape, dtype=np.float32)
            print(f"| {name} | {1 / seconds(partial(env.step, action), count, rounds):.0f} |")


def learn(task: str, seeds: int) -> None:
    """Train a policy from pixels for each seed, and print its success."""
    import mygym

    print("| task | seed | success of 100 fresh episodes | env steps | wall time, s |\n|---|---:|---:|---:|---:|")
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as logdir, contextlib.redirect_stderr(io.StringIO()):
            result = mygym.train(
                {
                    "algo": "dagger",
                    "task": task,
                    "observations": SEEN[task],
                    "algo_params": LEARNING,
                    "steps": STEPS[task],
                    "eval": {"every": STEPS[task] // 4, "episodes": 20},
                    "video": {"episodes": 0},
                    "seed": seed,
                    "logdir": logdir,
                }
            )
        success = f"{100 * (result.success_rate or 0.0):.0f} %"
        print(f"| `{task}` | {seed} | {success} | {result.steps:,} | {result.wall_time_s:.0f} |", flush=True)


def main() -> None:
    """Measure speed, or train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    of_speed = kinds.add_parser("speed", help="time of renderings and steps")
    of_speed.add_argument("--count", type=int, default=200, metavar="N", help="calls in a round (default 200)")
    of_speed.add_argument("--rounds", type=int, default=7, metavar="N", help="rounds (default 7)")
    of_learning = kinds.add_parser("learn", help="policies from pixels")
    of_learning.add_argument("task", choices=sorted(SEEN))
    of_learning.add_argument("--seeds", type=int, default=1, metavar="N", help="seeds (default 1)")
    arguments = parser.parse_args()
    if arguments.kind == "speed":
        speed(arguments.count, arguments.rounds)
    else:
        learn(arguments.task, arguments.seeds)


if __name__ == "__main__":
    main()
