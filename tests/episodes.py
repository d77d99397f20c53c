"""Episodes for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def play(env: Any, seed: int, act: Callable[[Any], Any] | None = None) -> list[Any]:
    """Return the results of the steps of a whole episode, of the expert by default; the first is that of the reset."""
    observation, info = env.reset(seed=seed)
    results = [(observation, 0.0, False, False, info)]
    while not (results[-1][2] or results[-1][3]):
        results.append(env.step(env.expert_action() if act is None else act(results[-1][0])))
    return results


def roll(env: Any, seed: int | None, steps: int = 25, actions: int = 0, expert: float = 0.6) -> list[Any]:
    """Return the results of steps under random actions, with the expert for a share of each 20; observations as bytes.

    The first is observation and info of the reset.
    """
    rng = np.random.default_rng(actions)
    observation, info = env.reset(seed=seed)
    results: list[Any] = [(as_bytes(observation), info)]
    for step in range(steps):
        action = rng.uniform(-1, 1, env.action_space.shape).astype(np.float32)
        if step % 20 < 20 * expert:
            action = env.expert_action()
        observation, *rest = env.step(action)
        results.append((as_bytes(observation), *rest))
    return results


def as_bytes(observation: Any) -> bytes:
    """Return the arrays of a dictionary."""
    return b"".join(observation[key].tobytes() for key in sorted(observation))
