"""Time of an exact reset, relative to rebuilding the scene with the robot's stock model, and growth of memory.

    python benchmarks/resets.py > benchmarks/results/resets.md

Stock: `resetSimulation`, `franka_panda/panda.urdf`, `table/table.urdf` and `cube_small.urdf` of `pybullet_data`, with
their meshes. mygym: `World.reset` with `panda`, `table` and `cube`. Both in turn; medians of 50 (smallest to largest).
Then the reset of every workspace with `panda`, the construction of an environment, and the memory of a process before
and after 10,000 resets.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np
import psutil
import pybullet
import pybullet_data

import mygym
from mygym.engines.world import World
from mygym.robotics.assets import asset_names

REPEATS, RESETS = 50, 10_000


def stock() -> Callable[[], None]:
    """Return a function that rebuilds the stock scene."""
    client = pybullet.connect(pybullet.DIRECT)
    pybullet.setAdditionalSearchPath(pybullet_data.getDataPath(), physicsClientId=client)

    def rebuild() -> None:
        pybullet.resetSimulation(physicsClientId=client)
        pybullet.loadURDF("franka_panda/panda.urdf", (-0.6, 0, 0), useFixedBase=True, physicsClientId=client)
        pybullet.loadURDF("table/table.urdf", (0, 0, -0.65), useFixedBase=True, physicsClientId=client)
        pybullet.loadURDF("cube_small.urdf", (0, 0, 0.05), physicsClientId=client)

    return rebuild


def exact(workspace: str = "table") -> tuple[World, Callable[[], None]]:
    """Return a mygym world, which the caller closes, and a function that resets it."""
    task = "push" if workspace == "table" else "reach"
    world = mygym.make_env({"task": task, "workspace": workspace}).world
    poses = np.tile((0.1, 0.1, 0.02, 0.0, 0.0, 0.0, 1.0), (len(world.objects), 1))
    return world, lambda: world.reset(poses)


def milliseconds(function: Callable[[], None]) -> float:
    """Return the time of one call."""
    start = time.perf_counter()
    function()
    return 1000 * (time.perf_counter() - start)


def spread(values: list[float]) -> str:
    """Format median and range."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    """Print the tables."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    usual, (world, reset) = stock(), exact()
    pairs = [(milliseconds(usual), milliseconds(reset)) for _ in range(REPEATS)][5:]
    ratios = [before / after for before, after in pairs]
    print("# Resets\n")
    print("| scene | stock meshes, ms | exact reset, ms | stock / mygym |")
    print("|---|---|---|---|")
    columns = [spread([pair[side] for pair in pairs]) for side in (0, 1)]
    print(f"| panda, table, cube | {' | '.join(columns)} | {spread(ratios)} |")
    world.close()

    print("\n| workspace, with panda | exact reset, ms |")
    print("|---|---|")
    for name in asset_names("workspaces"):
        world, reset = exact(name)
        print(f"| {name} | {spread([milliseconds(reset) for _ in range(REPEATS)][5:])} |")
        world.close()

    def build() -> None:
        mygym.make_env({"task": "reach"}).close()

    print(
        f"\nConstruction of an environment, panda + table: {spread([milliseconds(build) for _ in range(12)][2:])} ms."
    )

    world, reset = exact()
    process = psutil.Process()
    for _ in range(500):
        reset()
    before = process.memory_info().rss
    for _ in range(RESETS):
        reset()
    grown = (process.memory_info().rss - before) / 2**20
    print(f"\nMemory after {RESETS:,} resets: {grown:+.1f} MiB.")
    machine = f"{os.cpu_count()} cores of a shared machine, load {os.getloadavg()[0]:.1f}"
    print(f"\nMade by `python benchmarks/resets.py`; Python {platform.python_version()}, {machine}.")


if __name__ == "__main__":
    main()
