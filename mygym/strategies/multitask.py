"""Strategy `multitask`: several tasks in one run with one network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Gt, Le
from numpy.typing import NDArray

from mygym.errors import ConfigError, bad_value
from mygym.strategies.strategy import Strategy
from mygym.types import FloatArray

if TYPE_CHECKING:
    from mygym.config import RunConfig


INVERSE_TEMPERATURE = 100.0
"""Inverse temperature of the task sampler; at average progress sampling is uniform."""


class SeveralTasks(Strategy):
    """Base class of strategies with several tasks in one run with one network; results are reported for each task.

    Args:
        tasks: Names or compositions; or partial configs, such as `{task: push, robot: kuka}`. null: reach and push.
        identify: Task code appended to the observation: `none`; a `one_hot` vector; or `stages`, an embedding of the
            task's stages, which also encodes tasks that were not trained.
    """

    def __init__(
        self, *, tasks: list[Any] | None = None, identify: Literal["none", "one_hot", "stages"] = "none"
    ) -> None:
        self.tasks = ["reach", "push"] if tasks is None else tasks
        self.identify: Literal["none", "one_hot", "stages"] = identify
        if len(self.tasks) < 2:
            raise ConfigError(bad_value("strategy_params.tasks", tasks, "two tasks or more", "is not several tasks"))
        for number, task in enumerate(self.tasks):
            if task in self.tasks[:number]:
                key = f"strategy_params.tasks.{number}"
                raise ConfigError(bad_value(key, task, "each task once", "is repeated"))

    def run_defaults(self) -> Mapping[str, Any]:
        """Return the first task, the values that all tasks have in common, and shared spaces."""
        first, *remaining = self.variants(self.config)
        common = {
            key: value
            for key, value in first.items()
            if key == "task" or all(other.get(key) == value for other in remaining)
        }
        return {**common, "spaces": "shared"}

    def complete_params(self) -> Mapping[str, Any]:
        """Return the tasks; refuse tasks without the run's task."""
        task = self.config.task
        tasks = [variant.get("task", task) for variant in self.variants(self.config)]
        if task not in tasks:
            raise ConfigError(bad_value("task", task, tasks, "is not one of strategy_params.tasks"))
        return {"tasks": self.tasks}

    def variants(self, config: RunConfig) -> Sequence[Mapping[str, Any]]:
        """Return the tasks."""
        return tuple(task if isinstance(task, Mapping) else {"task": task} for task in self.tasks)

    def evaluation_variants(self, config: RunConfig) -> Sequence[Mapping[str, Any]]:
        """Return the tasks."""
        return self.variants(config)

    def prepare_env(self) -> None:
        """Read the labels of the tasks for the log."""
        self.labels = [variant.label for variant in self.plan.variants]


class OneTaskAtATime(SeveralTasks):
    """Base class of strategies that train the tasks in turn."""

    index = 0
    """Index of the task in training."""

    def play_only(self, index: int) -> None:
        """Play a single task from the next episodes on."""
        self.index = index
        self.training_env.env_method("set_weights", [float(task == index) for task in range(len(self.tasks))])

    def outcome(self) -> Mapping[str, Any]:
        """Return the label of the task in training."""
        return {"task": self.labels[self.index]}


class MultiTask(SeveralTasks):
    """Several tasks, or robots with equal spaces, in one run with one network; results are reported for each task.

    Args:
        sampler: Task of an environment's next episode. `fair`: each task once before any twice. `uniform`: drawn with
            equal probability. `adaptive`: drawn in proportion to learning progress, the change of the success rate
            (Matiisen et al., 2017). `differentiable`: drawn with weights that gradient ascent learns from learning
            progress (the gradient bandit of Sutton and Barto, 2018, section 2.8), with forgetting.
        rate: Step size of the running success rates and of the learned weights; in (0, 1].
        **kwargs: Arguments of `SeveralTasks`.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("fast", "slow", "logits", "baseline", "has_sent_weights")

    def __init__(
        self,
        *,
        sampler: Literal["fair", "uniform", "adaptive", "differentiable"] = "fair",
        rate: Annotated[float, Gt(0), Le(1)] = 0.1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sampler, self.rate = sampler, rate
        self.fast, self.slow = np.zeros(len(self.tasks)), np.zeros(len(self.tasks))
        """`(tasks,)`: fast and slow running success rates."""
        self.logits = np.zeros(len(self.tasks))
        """`(tasks,)`: learned weights of `differentiable`."""
        self.baseline = 0.0
        """Running mean of the learning progress over all tasks."""
        self.has_sent_weights = False
        """Whether the environments have the current weights."""

    def on_episode(self, variant: int, success: bool, total_reward: float) -> None:
        """Update the success rates, and the learned weights from learning progress."""
        self.fast[variant] += self.rate * (success - self.fast[variant])
        self.slow[variant] += self.rate / 5 * (success - self.slow[variant])
        self.has_sent_weights = False
        if self.sampler == "differentiable":
            progress = self._progress()[variant]
            advantage, step_size = np.array([progress - self.baseline]), self.rate * INVERSE_TEMPERATURE
            logits = bandit_step(self.logits[None], np.array([[variant]]), advantage, step_size)[0]
            self.logits = (1.0 - self.rate) * logits  # forget: the progress of tasks changes over time
            self.baseline += self.rate * (progress - self.baseline)

    def begin_iteration(self) -> None:
        """Set the share of episodes of each task."""
        if self.sampler == "fair" or self.has_sent_weights:  # fair: the environments alternate tasks without weights
            return
        self.has_sent_weights = True
        weights = self.weights()
        self.training_env.env_method("set_weights", weights.tolist())
        for label, weight in zip(self.labels, weights, strict=True):
            self.logger.record(f"strategy/weight_{label}", weight)

    def weights(self) -> FloatArray:
        """Return the share of episodes of each task, `(tasks,)`."""
        count = len(self.tasks)
        uniform = np.full(count, 1.0 / count)
        if self.sampler == "uniform":
            return uniform
        if self.sampler == "differentiable":
            return probabilities(self.logits)
        progress = self._progress()
        total = progress.sum()
        return MIN_SHARE * uniform + (1.0 - MIN_SHARE) * progress / total if total > 0 else uniform

    def _progress(self) -> FloatArray:
        """Return the absolute recent change of each success rate, `(tasks,)`: forgotten tasks are played again."""
        return np.abs(self.fast - self.slow)


MIN_SHARE = 0.1
"""Share of draws with uniform probability; it keeps every choice in use."""


def probabilities(logits: FloatArray) -> FloatArray:
    """Return the sampling probabilities `(…, n)` of logits `(…, n)`: softmax mixed with `MIN_SHARE` of uniform."""
    mixed: FloatArray = MIN_SHARE / logits.shape[-1] + (1.0 - MIN_SHARE) * softmax(logits)
    return mixed


def bandit_step(logits: FloatArray, drawn: NDArray[np.int64], advantages: FloatArray, rate: float) -> FloatArray:
    """Return the logits after one step of the gradient bandit (Sutton and Barto, 2018, equation 2.12).

    Args:
        logits: `(layers, candidates)`.
        drawn: `(n, layers)`, the candidates that were drawn.
        advantages: `(n,)`, reward of each draw minus the baseline.
        rate: Step size.
    """
    one_hot = np.eye(logits.shape[-1])[drawn]
    return logits + rate * np.tensordot(advantages, one_hot - softmax(logits), axes=1)


def softmax(logits: FloatArray) -> FloatArray:
    """Return the softmax `(…, n)` of logits `(…, n)` over the last axis."""
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    normalized: FloatArray = powers / powers.sum(-1, keepdims=True)
    return normalized
