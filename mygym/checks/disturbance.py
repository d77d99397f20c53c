"""Training environments in which something happens at a certain step: to stop a run there, or to spoil it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from mygym.envs.robot_env import RobotEnv

Disturb = Callable[[Any], Any]
"""What `step` returns → what it shall return; or it raises."""

PATIENCE = 20_000
"""Steps that an algorithm may go on for: one that catches every error would train for ever."""


@contextlib.contextmanager
def disturbed(step: int, disturb: Disturb) -> Iterator[None]:
    """Let something happen in every step from the `step`-th on, counted over all training environments of this process.

    Environments that judge are left alone: they can be filmed, those for training cannot.
    """
    usual, taken = RobotEnv.step, 0

    def step_of_a_bad_day(self: RobotEnv, action: Any) -> Any:
        nonlocal taken
        returned = usual(self, action)
        if self.render_mode is not None:
            return returned
        taken += 1
        if taken >= step + PATIENCE:
            raise KeyboardInterrupt
        return disturb(returned) if taken >= step else returned

    RobotEnv.step = step_of_a_bad_day  # type: ignore[method-assign]
    try:
        yield
    finally:
        RobotEnv.step = usual  # type: ignore[method-assign]


def interrupt(returned: Any) -> Any:
    """End the run at once, as a second Ctrl-C would."""
    raise KeyboardInterrupt


def fail(returned: Any) -> Any:
    """An environment with a mistake in it."""
    raise ValueError("the environment's own mistake")


def with_reward(number: float) -> Disturb:
    """An environment whose rewards are this number."""
    return lambda returned: (returned[0], number, *returned[2:])


def with_observation(number: float) -> Disturb:
    """An environment whose observations are full of this number."""

    def spoil(returned: Any) -> Any:
        observation = returned[0]
        parts = observation.values() if isinstance(observation, dict) else [observation]
        for part in parts:
            part.fill(number)
        return returned

    return spoil
