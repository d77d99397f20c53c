"""Environment steps per second of mygym and panda-gym, measured in turn in one process, both at 25 Hz control.

    python benchmarks/env_speed.py > benchmarks/results/env_speed.md

Both are created by `gymnasium.make` with default wrappers. Actions are uniform in [-1, 1] in every component, the same
stream for both. Every episode has the same number of steps: success and horizon do not end it. A round is a number of
episodes of each environment; a ratio is mygym over panda-gym within a round, so that other load affects both.
Columns: steps/s by wall time, with and without resets (median over rounds); their ratio (median; smallest and largest
round); the same by processor time, which excludes waiting on a busy machine; and the median time of a reset.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.training.result import versions_in_words

PAIRS = {
    "reach": ("mygym/Reach-v0", "PandaReach-v3"),
    "push": ("mygym/Push-v0", "PandaPush-v3"),
    "pick_and_place": ("mygym/PickAndPlace-v0", "PandaPickAndPlace-v3"),
}
CONTROL_STEP = 0.04
"""s of simulated time in a control step of both."""


@dataclass(frozen=True)
class Timing:
    """One round of one environment, in seconds of wall time and of processor time."""

    steps: int
    stepping: float
    resets: tuple[float, ...]
    stepping_cpu: float
    resets_cpu: float

    @property
    def rate(self) -> float:
        """Steps/s with resets."""
        return self.steps / (self.stepping + sum(self.resets))

    @property
    def rate_cpu(self) -> float:
        """Steps per second of processor time, with resets."""
        return self.steps / (self.stepping_cpu + self.resets_cpu)

    @property
    def step_rate(self) -> float:
        """Steps/s without resets."""
        return self.steps / self.stepping

    @property
    def step_rate_cpu(self) -> float:
        """Steps per second of processor time, without resets."""
        return self.steps / self.stepping_cpu


def simulated_time(env: Any) -> tuple[float, float]:
    """Return the simulated time of a control step in s, and the physics rate in Hz."""
    inner = env.unwrapped
    if hasattr(inner, "world"):
        return inner.world.dt, inner.world.solver.substeps / inner.world.dt
    return inner.sim.dt, 1.0 / inner.sim.timestep


def measure(env: Any, episodes: int, steps: int, seed: int) -> Timing:
    """Time episodes of random actions."""
    rng = np.random.default_rng(seed)
    actions = rng.uniform(-1.0, 1.0, (episodes, steps, *env.action_space.shape)).astype(np.float32)
    stepping, stepping_cpu, resets, resets_cpu = 0.0, 0.0, [], 0.0
    for episode in range(episodes):
        start, start_cpu = time.perf_counter(), time.process_time()
        env.reset(seed=seed * episodes + episode)
        between, between_cpu = time.perf_counter(), time.process_time()
        for action in actions[episode]:
            env.step(action)
        stepping += time.perf_counter() - between
        stepping_cpu += time.process_time() - between_cpu
        resets.append(between - start)
        resets_cpu += between_cpu - start_cpu
    return Timing(episodes * steps, stepping, tuple(resets), stepping_cpu, resets_cpu)


def compare(mygym_env: Any, panda_gym_env: Any, rounds: int, episodes: int, steps: int) -> list[tuple[Timing, Timing]]:
    """Measure rounds of both in turn, after a warm-up round of each."""
    for env in (mygym_env, panda_gym_env):
        measure(env, 2, steps, seed=rounds)
    return [
        (measure(mygym_env, episodes, steps, seed), measure(panda_gym_env, episodes, steps, seed))
        for seed in range(rounds)
    ]


def rows(task: str, measured: list[tuple[Timing, Timing]]) -> list[str]:
    """Return the table rows of one task."""

    def pairs(attribute: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        both = np.array([[getattr(timing, attribute) for timing in pair] for pair in measured])
        return np.median(both, axis=0), both[:, 0] / both[:, 1]

    def cells(attribute: str) -> str:
        (mygym, panda_gym), ratio = pairs(attribute)
        _, cpu = pairs(f"{attribute}_cpu")
        return (
            f"{mygym:.0f} | {panda_gym:.0f} | **{np.median(ratio):.2f}** | {ratio.min():.2f}–{ratio.max():.2f} "
            f"| {np.median(cpu):.2f} | {cpu.min():.2f}–{cpu.max():.2f}"
        )

    mygym, panda_gym = (np.median([r for pair in measured for r in pair[side].resets]) * 1e3 for side in (0, 1))
    return [
        f"| {task} | with resets | {cells('rate')} | {mygym:.2f} | {panda_gym:.2f} |",
        f"| {task} | steps alone | {cells('step_rate')} | | |",
    ]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=list(PAIRS), default=list(PAIRS), help="default: all")
    parser.add_argument("--rounds", type=int, default=11, help="rounds of each environment (default: %(default)s)")
    parser.add_argument("--episodes", type=int, default=10, help="episodes in a round (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=50, help="steps in an episode (default: %(default)s)")
    arguments = parser.parse_args()
    sys.stdout = os.fdopen(os.dup(1), "w")  # only for the table: Bullet prints to the standard output of C
    os.dup2(2, 1)

    import gymnasium
    import panda_gym  # noqa: F401  (registers its ids)

    import mygym  # noqa: F401

    warnings.simplefilter("ignore")
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    table, notes = [], []
    for task in arguments.tasks:
        envs = [gymnasium.make(name) for name in PAIRS[task]]
        clocks = [simulated_time(env) for env in envs]
        assert all(abs(dt - CONTROL_STEP) < 1e-9 for dt, _ in clocks), clocks
        measured = compare(envs[0], envs[1], arguments.rounds, arguments.episodes, arguments.steps)
        table += rows(task, measured)
        print("\n".join(table[-2:]), file=sys.stderr)
        notes = [f"{rate:.0f} Hz" for _, rate in clocks]
        for env in envs:
            env.close()
    versions = versions_in_words("panda-gym", "pybullet", "gymnasium", "numpy")
    lines = [
        "# Environment steps per second, beside panda-gym",
        "",
        f"`python benchmarks/env_speed.py`; Python {platform.python_version()}, {platform.machine()}, {versions}, "
        "a shared machine.",
        "The docstring of the program explains the columns.",
        "",
        f"One process. A step is {CONTROL_STEP} s of simulated time in both; physics: mygym {notes[0]}, panda-gym "
        f"{notes[1]}.",
        f"{arguments.rounds} interleaved rounds of {arguments.episodes} episodes of {arguments.steps} steps each.",
        "",
        "| task | | mygym, steps/s | panda-gym, steps/s | ratio | range "
        "| ratio, processor time | range | mygym reset, ms | panda-gym reset, ms |",
        "|---" * 10 + "|",
        *table,
    ]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
