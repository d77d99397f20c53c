"""Choice of the number of processes (`env_processes: auto`): by a measurement, or the free cores (`overlap`)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import DummyVecEnv

from mygym.engines.arrays import cores
from mygym.engines.engine import has_batches
from mygym.errors import MygymError
from mygym.planning.plan import RunPlan
from mygym.training import env_factory
from mygym.training.env_processes.process_vec_env import process_vec_env

MIN_MEASURED_STEPS = 50_000
"""Env steps of a run below which their start and the measurement would take longer than the processes save."""

MIN_SPEEDUP = 1.1
"""Factor by which processes must be faster than a single process: each takes memory, and delays the start."""

PATIENCE = 2.5
"""Time limit for the start of the processes, s: a machine that takes longer has no core to spare."""

SAMPLE = 6
"""Largest number of environments of each process in the measurement."""

SECONDS = 0.6
"""Duration of a measurement, s."""


def with_process_count(plan: RunPlan, notify: Callable[[str], None]) -> RunPlan:
    """Return a plan whose `env_processes` is a number in place of `auto`; the results of the run do not depend on it.

    Args:
        plan: The plan.
        notify: Called with the number and its reason.
    """
    config = plan.config
    if config.env_processes != "auto":
        return plan
    count, reason = _choice(plan)
    if reason:
        notify(f"env_processes: {count}: {reason}")
    config = config.model_copy(update={"env_processes": count})
    return plan.with_resolved(replace(plan.resolved, config=config))


def _choice(plan: RunPlan) -> tuple[int, str]:
    """Return the number of processes of environments and the reason, empty where no measurement is worth its time."""
    config = plan.config
    available = cores()
    if config.overlap:
        count = min(max(available - config.threads, 0), config.n_envs)
        return count, f"{config.threads} of {available} cores for the gradient steps"
    processes = min(available, config.n_envs)
    if has_batches(config.engine) or config.learners > 1 or processes < 2 or config.steps < MIN_MEASURED_STEPS:
        return 0, ""
    envs = min(SAMPLE, config.n_envs // processes)
    makers = env_factory.env_makers(plan, processes * envs)
    alone = _steps_per_second(DummyVecEnv(list(makers[:envs])))  # raises if an environment cannot be built
    try:
        in_processes = _steps_per_second(process_vec_env(makers, processes, PATIENCE))
    except MygymError as error:
        return 0, f"in this process, because {error}"
    reason = f"{in_processes:,.0f} env steps/s in {processes} processes, {alone:,.0f} in this process"
    return processes if in_processes > MIN_SPEEDUP * alone else 0, reason


def _steps_per_second(envs: Any) -> float:
    """Return env steps per second of random actions; closes the environments."""
    with contextlib.closing(envs):
        envs.action_space.seed(0)
        envs.seed(0)
        envs.reset()
        actions = np.array([envs.action_space.sample() for _ in range(envs.num_envs)])
        envs.step(actions)
        steps, begin = 0, time.perf_counter()
        while time.perf_counter() < begin + SECONDS:
            envs.step(actions)
            steps += envs.num_envs
        return steps / (time.perf_counter() - begin)
