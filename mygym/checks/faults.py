"""Faults in training environments from a certain step on: to stop a run, or to make the environment misbehave."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from mygym.envs.robot_env import RobotEnv

Fault = Callable[[Any], Any]
"""Function of the tuple that `step` returns; returns another tuple, or raises."""

MAX_STEPS = 20_000
"""Steps after the first fault until training is interrupted: an algorithm that catches every error would not end."""


@contextlib.contextmanager
def faulty(step: int, fault: Fault) -> Iterator[None]:
    """Context manager that applies a fault from the `step`-th step on, counted over all training environments.

    Environments for evaluation are unaffected: they can render, training environments cannot.
    """
    original, steps = RobotEnv.step, 0

    def faulty_step(self: RobotEnv, action: Any) -> Any:
        nonlocal steps
        returned = original(self, action)
        if self.render_mode is not None:
            return returned
        steps += 1
        if steps >= step + MAX_STEPS:
            raise KeyboardInterrupt
        return fault(returned) if steps >= step else returned

    RobotEnv.step = faulty_step  # type: ignore[method-assign]
    try:
        yield
    finally:
        RobotEnv.step = original  # type: ignore[method-assign]


def interrupt(returned: Any) -> Any:
    """Interrupt the run immediately, as a second Ctrl-C does."""
    raise KeyboardInterrupt


def fail(returned: Any) -> Any:
    """Raise, as an environment with a bug does."""
    raise ValueError("the environment's own mistake")


def with_reward(value: float) -> Fault:
    """Return a fault that replaces the reward by `value`."""
    return lambda returned: (returned[0], value, *returned[2:])


def with_observation(value: float) -> Fault:
    """Return a fault that fills the observation with `value`."""

    def fill(returned: Any) -> Any:
        observation = returned[0]
        arrays = observation.values() if isinstance(observation, dict) else [observation]
        for array in arrays:
            array.fill(value)
        return returned

    return fill
