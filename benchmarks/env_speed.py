"""Environment steps per second of mygym and panda-gym, one process each in turn, both at 25 Hz control.

    python benchmarks/env_speed.py > benchmarks/results/env_speed.md

Both are made by `gymnasium.make` as users make them, default wrappers on. Actions are uniform in [-1, 1] on every
component, the same stream for both. Every episode has the same number of steps for both: neither is cut short by
success or a horizon. A round is some episodes of one, then as many of the other; a ratio is ours over theirs within a
round, so that what else the machine does falls on both. Columns: steps/s by the clock, with the resets in the time and
without them (median over rounds); ratio of these (median; smallest and largest round); the same by processor time,
which leaves out the waiting for a busy machine; and the median time of a reset.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PAIRS = {
    "reach": ("mygym/Reach-v0", "PandaReach-v3"),
    "push": ("mygym/Push-v0", "PandaPush-v3"),
    "pick_and_place": ("mygym/PickAndPlace-v0", "PandaPickAndPlace-v3"),
}
CONTROL_STEP = 0.04
"""s of simulated time in a step of either."""


@dataclass(frozen=True)
class Timing:
    """One round of one environment, seconds by the clock, and by processor time."""

    steps: int
    stepping: float
    resets: tuple[float, ...]
    stepping_cpu: float
    resets_cpu: float

    @property
    def rate(self) -> float:
        """Steps/s, resets included."""
        return self.steps / (self.stepping + sum(self.resets))

    @property
    def rate_cpu(self) -> float:
        """Steps per second of processor time, resets included."""
        return self.steps / (self.stepping_cpu + self.resets_cpu)

    @property
    def step_rate(self) -> float:
        """Steps/s, resets left out."""
        return self.steps / self.stepping

    @property
    def step_rate_cpu(self) -> float:
        """Steps per second of processor time, resets left out."""
        return self.steps / self.stepping_cpu


def simulated_time(env: Any) -> tuple[float, float]:
    """Seconds of simulated time in a control step, and the physics rate in Hz."""
    inner = env.unwrapped
    if hasattr(inner, "world"):
        return inner.world.dt, inner.world.solver.substeps / inner.world.dt
    return inner.sim.dt, 1.0 / inner.sim.timestep


def measure(env: Any, episodes: int, steps: int, seed: int) -> Timing:
    """Time episodes of random actions."""
    import numpy as np

    rng = np.random.default_rng(seed)
    actions = rng.uniform(-1.0, 1.0, (episodes, steps, *env.action_space.shape)).astype(np.float32)
    stepping, stepping_cpu, resets, resets_cpu = 0.0, 0.0, [], 0.0
    for episode in range(episodes):
        begin, begin_cpu = time.perf_counter(), time.process_time()
        env.reset(seed=seed * episodes + episode)
        between, between_cpu = time.perf_counter(), time.process_time()
        for action in actions[episode]:
            env.step(action)
        stepping += time.perf_counter() - between
        stepping_cpu += time.process_time() - between_cpu
        resets.append(between - begin)
        resets_cpu += between_cpu - begin_cpu
    return Timing(episodes * steps, stepping, tuple(resets), stepping_cpu, resets_cpu)


def compare(ours: Any, theirs: Any, rounds: int, episodes: int, steps: int) -> list[tuple[Timing, Timing]]:
    """Rounds of both, one after the other; a first round of each warms up and does not count."""
    for env in (ours, theirs):
        measure(env, 2, steps, seed=rounds)
    return [(measure(ours, episodes, steps, seed), measure(theirs, episodes, steps, seed)) for seed in range(rounds)]


def rows(task: str, measured: list[tuple[Timing, Timing]]) -> list[str]:
    """Lines of the table for one task."""
    import numpy as np

    def pairs(attribute: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        both = np.array([[getattr(timing, attribute) for timing in pair] for pair in measured])
        return np.median(both, axis=0), both[:, 0] / both[:, 1]

    def cells(attribute: str) -> str:
        (ours, theirs), ratio = pairs(attribute)
        _, cpu = pairs(f"{attribute}_cpu")
        return (
            f"{ours:.0f} | {theirs:.0f} | **{np.median(ratio):.2f}** | {ratio.min():.2f}–{ratio.max():.2f} "
            f"| {np.median(cpu):.2f} | {cpu.min():.2f}–{cpu.max():.2f}"
        )

    ours, theirs = (np.median([r for pair in measured for r in pair[side].resets]) * 1e3 for side in (0, 1))
    return [
        f"| {task} | with resets | {cells('rate')} | {ours:.2f} | {theirs:.2f} |",
        f"| {task} | steps alone | {cells('step_rate')} | | |",
    ]


def main() -> None:
    """Measure and print; write to a file if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=list(PAIRS), default=list(PAIRS), help="default: all")
    parser.add_argument("--rounds", type=int, default=11, help="of each environment (default: %(default)s)")
    parser.add_argument("--episodes", type=int, default=10, help="in a round (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=50, help="in an episode (default: %(default)s)")
    arguments = parser.parse_args()
    sys.stdout = os.fdopen(os.dup(1), "w")  # the table's alone: Bullet, given colours, talks on C's standard output
    os.dup2(2, 1)

    import gymnasium
    import panda_gym  # noqa: F401  (registers its ids)

    import mygym  # noqa: F401

    warnings.simplefilter("ignore")
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    table, notes = [], []
    for task in arguments.tasks:
        ours, theirs = (gymnasium.make(name) for name in PAIRS[task])
        clocks = [simulated_time(env) for env in (ours, theirs)]
        assert all(abs(dt - CONTROL_STEP) < 1e-9 for dt, _ in clocks), clocks
        measured = compare(ours, theirs, arguments.rounds, arguments.episodes, arguments.steps)
        table += rows(task, measured)
        print("\n".join(table[-2:]), file=sys.stderr)
        notes = [f"{rate:.0f} Hz" for _, rate in clocks]
        ours.close()
        theirs.close()
    versions = ", ".join(f"{name} {version(name)}" for name in ("panda-gym", "pybullet", "gymnasium", "numpy"))
    lines = [
        "# Environment steps per second, beside panda-gym",
        "",
        f"`python benchmarks/env_speed.py`; Python {platform.python_version()}, {platform.machine()}, {versions}, "
        "a shared machine.",
        "What the columns mean: the docstring of the program.",
        "",
        f"One process. A step is {CONTROL_STEP} s of simulated time in both; physics: ours {notes[0]}, panda-gym "
        f"{notes[1]}.",
        f"{arguments.rounds} interleaved rounds of {arguments.episodes} episodes of {arguments.steps} steps each.",
        "",
        "| task | | mygym, steps/s | panda-gym, steps/s | ratio | range "
        "| ratio, processor time | range | our reset, ms | its reset, ms |",
        "|---" * 10 + "|",
        *table,
    ]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
