"""A closed loop of an exported policy and the simulator at the control rate: how punctual are its periods?"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mygym.exporting.exported_policy import ExportedPolicy
from mygym.exporting.playing import check_imports
from mygym.runs.env_factory import build_env
from mygym.types import FloatArray

Seconds = FloatArray


@dataclass(frozen=True)
class Timing:
    """Durations of the `N` periods of a closed loop."""

    period: float
    """s: the period at the control rate."""
    periods: Seconds
    """`(M,)` s from an observation to the next, without those at the end of an episode."""
    policy: Seconds
    """`(N,)` s: from an observation to its action."""
    simulator: Seconds
    """`(N,)` s: from an action to the next observation."""

    @property
    def late(self) -> int:
        """Number of periods in which policy and simulator together took longer than the period."""
        return int((self.policy + self.simulator > self.period).sum())


def measure(file: str | Path, seconds: float = 10.0, *, trust: bool = False) -> Timing:
    """Play episodes at the control rate of a policy.

    Args:
        file: A file that `mygym export` has written.
        seconds: Duration; at least two periods are measured.
        trust: See `play`.

    Raises:
        ConfigError: The file is not an exported policy, or needs `trust`.
        RegistryError: onnxruntime is missing, or a component of the environment is not registered.
    """
    policy = ExportedPolicy(file, trust=trust)
    check_imports(policy, trust)
    period = 1 / policy.description["control"]["rate_hz"]
    count = max(3, round(seconds / period))
    began, acted, ended = np.empty((3, count))
    resets = np.zeros(count, bool)
    with contextlib.closing(build_env(policy.description["env"])) as env:
        policy.check_observations(env.observation_space)
        observation, state, starts = env.reset(seed=0)[0], None, np.array([True])
        policy.predict(observation, state, starts)  # the first call prepares memory
        deadline = time.perf_counter()
        for step in range(count):
            began[step] = time.perf_counter()
            action, state = policy.predict(observation, state, starts)
            acted[step] = time.perf_counter()
            observation, _, terminated, truncated, _ = env.step(action)
            ended[step] = time.perf_counter()
            resets[step] = terminated or truncated
            starts = resets[step : step + 1]
            if resets[step]:  # takes longer than a period, and is no part of the loop
                observation, _ = env.reset()
                deadline = time.perf_counter()
            deadline = max(deadline + period, time.perf_counter())  # a late period does not shorten the next
            time.sleep(max(0.0, deadline - time.perf_counter()))
    return Timing(period, np.diff(began)[~resets[:-1]], acted - began, ended - acted)
