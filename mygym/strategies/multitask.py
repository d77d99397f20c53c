"""Several tasks in one run, with one network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from mygym.errors import ConfigError, bad_value
from mygym.strategies.mixture.path_sampling import LEAST, followed, shares
from mygym.strategies.strategy import Strategy

if TYPE_CHECKING:
    from mygym.config import RunConfig

SHARPNESS = 100.0
"""How far learned weights go for learning progress; where it is the usual one, they come back to all alike."""


class MultiTask(Strategy):
    """Several tasks, or robots with equal spaces, in one run with one network; results say how each is done.

    Args:
        tasks: Names or compositions; or parts of a config, such as `{task: push, robot: kuka}`. None: reach and push.
        sampler: What the next episode of an environment plays. `fair`: each task once before any twice. `uniform`:
            drawn, all alike. `adaptive`: drawn by learning progress, the change of the success rate (Matiisen et al.,
            2017). `differentiable`: drawn by weights that gradient ascent learns, for learning progress too (the
            gradient bandit of Sutton and Barto, 2018, section 2.8), and forgets.
        rate: How fast the measured success rates, or the learned weights, follow; in (0, 1].
        identify: What the observation has appended of the task: `none`; a `one_hot` vector; or `stages`, an embedding
            by what the task is composed of, where one that was never trained has its place too.
    """

    kept = ("fast", "slow", "logits", "baseline", "is_told")

    def __init__(
        self,
        *,
        tasks: list[Any] | None = None,
        sampler: Literal["fair", "uniform", "adaptive", "differentiable"] = "fair",
        rate: float = 0.1,
        identify: Literal["none", "one_hot", "stages"] = "none",
    ) -> None:
        self.tasks = ["reach", "push"] if tasks is None else tasks
        self.sampler, self.rate = sampler, rate
        self.identify: Literal["none", "one_hot", "stages"] = identify
        if len(self.tasks) < 2:
            raise ConfigError(bad_value("strategy_params.tasks", tasks, "two tasks or more", "is not several tasks"))
        if not 0.0 < rate <= 1.0:
            raise ConfigError(bad_value("strategy_params.rate", rate, "above 0, up to 1"))
        self.fast, self.slow = np.zeros(len(self.tasks)), np.zeros(len(self.tasks))
        """Running success rates, of which one follows quickly."""
        self.logits = np.zeros(len(self.tasks))
        self.baseline = 0.0
        """Running learning progress of whatever is played."""
        self.is_told = False
        """Whether the environments know the weights."""
        self.labels: list[str] = []

    def run_defaults(self) -> Mapping[str, Any]:
        """The first task stands for the run, with what all say alike; spaces that all share."""
        first, *others = self.variants(self.config)
        alike = {
            key: value for key, value in first.items() if key == "task" or all(o.get(key) == value for o in others)
        }
        return {**alike, "spaces": "shared"}

    def settled(self) -> Mapping[str, Any]:
        """The tasks.

        Raises:
            ConfigError: The run's own is none of them.
        """
        own, played = self.config.task, [one.get("task", self.config.task) for one in self.variants(self.config)]
        if own not in played:
            why = "would not be played, as it is none of strategy_params.tasks"
            raise ConfigError(bad_value("task", own, played, why))
        return {"tasks": self.tasks}

    def variants(self, config: RunConfig) -> Sequence[Mapping[str, Any]]:
        """The tasks."""
        return tuple(one if isinstance(one, Mapping) else {"task": one} for one in self.tasks)

    def judged(self, config: RunConfig) -> Sequence[Mapping[str, Any]]:
        """The tasks."""
        return self.variants(config)

    def prepare_env(self) -> None:
        """Learn what the tasks are called."""
        self.labels = [variant.label for variant in self.plan.variants]

    def on_episode(self, variant: int, success: bool, total_reward: float) -> None:
        """Measure success and, by it, learning progress."""
        self.fast[variant] += self.rate * (success - self.fast[variant])
        self.slow[variant] += self.rate / 5 * (success - self.slow[variant])
        self.is_told = False
        if self.sampler == "differentiable":
            progress = self._progress()[variant]
            advantage, step = np.array([progress - self.baseline]), self.rate * SHARPNESS
            learned = followed(self.logits[None], np.array([[variant]]), advantage, step)[0]
            self.logits = (1.0 - self.rate) * learned  # forgets: what is learned next is another task
            self.baseline += self.rate * (progress - self.baseline)

    def step(self) -> None:
        """Say how often each task is played."""
        if self.sampler == "fair" or self.is_told:  # environments take turns by themselves
            return
        self.is_told = True
        weights = self.weights()
        self.training_env.env_method("set_weights", weights.tolist())
        for label, weight in zip(self.labels, weights, strict=True):
            self.logger.record(f"strategy/weight_{label}", weight)

    def weights(self) -> NDArray[np.float64]:
        """`(tasks,)`: share of the episodes that each is played in."""
        count = len(self.tasks)
        even = np.full(count, 1.0 / count)
        if self.sampler == "uniform":
            return even
        if self.sampler == "differentiable":
            return shares(self.logits)
        progress = self._progress()
        total = progress.sum()
        return LEAST * even + (1.0 - LEAST) * progress / total if total > 0 else even

    def _progress(self) -> NDArray[np.float64]:
        """`(tasks,)`: by how much success has changed of late, for the worse as well: what is forgotten is played."""
        return np.abs(self.fast - self.slow)
