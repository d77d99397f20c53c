"""Play an exported policy in PyBullet, with a window or without; ONNX files need only numpy and onnxruntime."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.demonstrations.teleoperation import Sliders
from mygym.engines.rendering.viewer import check_display
from mygym.errors import ConfigError, bad_value
from mygym.exporting.exported_policy import ExportedPolicy
from mygym.registry.user_files import is_imported
from mygym.training.env_factory import build_env
from mygym.training.evaluation import EXTRA, Evaluation, Predicts, episode_seeds, evaluate_or_fail
from mygym.types import FloatArray


class Timed:
    """Policy that measures the duration of each call."""

    def __init__(self, policy: Predicts) -> None:
        self.policy = policy
        self.durations: list[float] = []

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[NDArray[Any], Any]:
        """Return the actions and the state of the policy."""
        begin = perf_counter()
        result = self.policy.predict(observation, state, episode_start, deterministic)
        self.durations.append(perf_counter() - begin)
        return result


def play(
    file: str | Path, episodes: int = 100, seed: int = 0, gui: bool = False, *, trust: bool = False
) -> tuple[Evaluation, FloatArray]:
    """Play episodes, those of `mygym.evaluate` with the same seed; return them and the latencies, `(calls,)` s.

    `gui` opens a window, whose sliders move the goal; its key `q` ends the episodes. `trust` imports the modules that
    the file names, and opens a file of `torch.export`.

    Raises:
        ConfigError: The file is not an exported policy or needs `trust`, or a window is not possible.
        RegistryError: onnxruntime is missing, or a component of the environment is not registered.
        RunError: No episode was played to the end.
    """
    policy = ExportedPolicy(file, trust=trust)
    check_imports(policy, trust)
    description = policy.description["env"]
    if gui:
        check_display("gui", True, "no window")
        if len(description["labels"]) > 1:
            raise ConfigError(bad_value("gui", True, "a policy of one task", "shows one task"))
    timed = Timed(policy)
    with contextlib.closing(build_env(description, render_mode="human" if gui else None)) as env:
        policy.check_observations(env.observation_space)
        seeds = episode_seeds(seed, EXTRA, episodes, env=env)
        acting = Sliders(env, timed) if gui else timed
        evaluation = evaluate_or_fail(str(file), acting, [env], seeds)
    return evaluation, np.array(timed.durations)


def check_imports(policy: ExportedPolicy, trust: bool) -> None:
    """Refuse a policy whose environment imports modules that this process has not imported, unless `trust` is set."""
    unknown = [name for name in policy.description["env"]["imports"] if not is_imported(name)]
    if unknown and not trust:
        why = f"names modules that would be imported, and can execute any code: {', '.join(map(str, unknown))}"
        allowed = "--trust if you trust its author, or --import MODULE for each of them"
        raise ConfigError(bad_value("file", str(policy.path), allowed, why))


@dataclass(frozen=True)
class Timing:
    """Durations of the `N` periods of a closed loop."""

    period: float
    """s: the period at the control rate."""
    periods: FloatArray
    """`(M,)` s from an observation to the next, without those at the end of an episode."""
    policy: FloatArray
    """`(N,)` s: from an observation to its action."""
    simulator: FloatArray
    """`(N,)` s: from an action to the next observation."""

    @property
    def late(self) -> int:
        """Number of periods in which policy and simulator together took longer than the period."""
        return int((self.policy + self.simulator > self.period).sum())


def measure(file: str | Path, seconds: float = 10.0, *, trust: bool = False) -> Timing:
    """Play episodes at the control rate of a policy for some seconds, at least two periods; for `trust` see `play`.

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
