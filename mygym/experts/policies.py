"""Policies that need no training: `oracle`, `random`, `zero`, `hover`. Each has SB3's `predict`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.experts.oracle import make_expert
from mygym.registry import registry
from mygym.tasks.stages.motions import lifted, limited
from mygym.tasks.view import View

Prediction = tuple[NDArray[np.float32], None]


class OraclePolicy:
    """The scripted expert of each environment."""

    def __init__(self, envs: Sequence[Any], seed: int) -> None:
        self.experts = [make_expert(env) for env in envs]

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> Prediction:
        """Actions `(n, A)`."""
        return np.stack([expert.act(None) for expert in self.experts]), None


class RandomPolicy:
    """Uniform actions, seeded."""

    def __init__(self, envs: Sequence[Any], seed: int) -> None:
        self.shape = (len(envs), *envs[0].action_space.shape)
        self.rng = np.random.default_rng(seed)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> Prediction:
        """Actions `(n, A)` in [−1, 1]."""
        return self.rng.uniform(-1.0, 1.0, self.shape).astype(np.float32), None


class ZeroPolicy:
    """Does nothing."""

    def __init__(self, envs: Sequence[Any], seed: int) -> None:
        self.shape = (len(envs), *envs[0].action_space.shape)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> Prediction:
        """Zeros `(n, A)`."""
        return np.zeros(self.shape, dtype=np.float32), None


ABOVE = 0.07
"""m over an object or a handle, which is near enough to have approached it, and too far to touch it."""

BESIDE = 1.5
"""Times the tolerance: how far from a goal without an object it stays."""


class HoverPolicy:
    """Flies to what is to be acted on first and stays there: a reward that pays it is a mistake."""

    def __init__(self, envs: Sequence[Any], seed: int) -> None:
        self.envs = [env.unwrapped for env in envs]

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> Prediction:
        """Actions `(n, A)`."""
        return np.stack([env.world.action_towards(_beside(env)) for env in self.envs]).astype(np.float32), None


def _beside(env: Any) -> NDArray[np.float64]:
    """`(3,)` m: where to hover."""
    view = View(env.world.state, env.progress, env.goals, env.task.steps[0])
    there = lifted(view.target, ABOVE)
    if not view.has_target:
        there = limited(view.target, view.start_ee_position, BESIDE * view.thresholds.tolerance)
    beside: NDArray[np.float64] = there[0]
    return beside


registry("policy").register("oracle", OraclePolicy, "the scripted expert of every stage, joined")
registry("policy").register("random", RandomPolicy, "uniform random actions")
registry("policy").register("zero", ZeroPolicy, "does nothing")
registry("policy").register("hover", HoverPolicy, "stays near what is to be acted on")
