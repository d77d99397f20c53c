"""Policies that need no training: `oracle`, `random`, `zero`. Each has SB3's `predict`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.experts.oracle import make_expert
from mygym.registry import registry

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


registry("policy").register("oracle", OraclePolicy, "the scripted expert of every stage, joined")
registry("policy").register("random", RandomPolicy, "uniform random actions")
registry("policy").register("zero", ZeroPolicy, "does nothing")
