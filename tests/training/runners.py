"""Runners for tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import mygym
from mygym.config import merged
from mygym.registry import algorithm, register_algorithm
from mygym.training.result import Curves, Result
from mygym.training.runner import Loop, Runner
from tests.components import known

STEPS = 240


def config(algo: str, logdir: Path, **more: Any) -> dict[str, Any]:
    in_pytorch = more.get("framework", "pytorch") == "pytorch"
    updates = {"gradient_steps": 1} if in_pytorch and "gradient_steps" in known(algorithm(algo).combo()[0]) else {}
    quick = {
        "algo": algo,
        "algo_params": {"policy_kwargs": {"net_arch": [8]}, **updates},
        "task_params": {"horizon": 20},
        "steps": STEPS,
        "n_envs": 2,
        "stop_at_success": None,
        "eval": {"every": 100, "episodes": 1, "final_episodes": 1},
        "checkpoint": {"every": 70, "keep": 2},
        "video": {"episodes": 0},
        "tensorboard": False,
        "logdir": str(logdir),
    }
    return merged(quick, more)


class Climber(Runner):
    """Random search that perturbs the weights and keeps improvements; counts its iterations."""

    def __init__(self, policy: Any, env: Any, *, noise: float = 0.1, **kwargs: Any) -> None:
        self.noise = noise
        self.best = -1e9
        self.tries = 0
        self.scores: list[float] = []
        super().__init__(policy, env, **kwargs)

    def training(self, loop: Loop, *, length: int = 20, greedy: bool = True) -> Curves:
        while loop.next_iteration():
            before = self.policy.parameters_to_vector()
            self.policy.load_from_vector(before + self.noise * np.random.standard_normal(before.shape))  # noqa: NPY002
            total = 0.0
            for _ in range(length):
                actions, _ = self.policy.predict(loop.observations, deterministic=True)
                _, rewards, _, _ = loop.step(actions)
                total += float(rewards.mean())
            self.tries += 1
            self.scores.append(total)
            if total < self.best and greedy:
                self.policy.load_from_vector(before)
            self.best = max(self.best, total)
            self.logger.record("train/best", self.best)
        return loop.curves()


def registered(cls: type[Runner], name: str = "custom", **options: Any) -> str:
    register_algorithm(name, policy="MultiInputPolicy", **options)(cls)
    return name


def train(cls: type[Runner], logdir: Path, **more: Any) -> Result:
    return mygym.train(config(registered(cls), logdir, **more))


def with_training(training: Callable[[Runner, Loop], Any]) -> type[Runner]:
    """Return a runner class with this training loop."""
    return type("Custom", (Runner,), {"training": training})
