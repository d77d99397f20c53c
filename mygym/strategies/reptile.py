"""Strategy `reptile`: weights from which each of several tasks is learned in few steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import torch
from annotated_types import Ge, Gt, Le

from mygym.errors import ConfigError, bad_value
from mygym.strategies.multitask import OneTaskAtATime
from mygym.strategies.strategy import Requirement

if TYPE_CHECKING:
    from mygym.training.evaluation import Evaluation


class Reptile(OneTaskAtATime):
    """Learns weights from which each of several tasks is learned in few steps (Nichol et al., 2018, arXiv:1803.02999).

    It trains one task for `inner` rollouts from weights φ, which gives weights θ; then φ moves towards them,
    `φ ← φ + step (θ − φ)`, and the next task begins from φ (algorithm 1). The saved policy has the weights φ: train it
    on a task with `pretrained`. Evaluations during training play all tasks with the current θ.

    An episode that has begun ends in its task, so rollouts should be longer than episodes.

    Args:
        inner: Rollouts of a task, with their updates, before φ moves.
        step: Share ε of the way from φ to θ, above 0, up to 1.
        **kwargs: Arguments of `SeveralTasks`.
    """

    checkpointed = ("index", "rollouts", "start")

    def __init__(
        self, *, inner: Annotated[int, Ge(1)] = 4, step: Annotated[float, Gt(0), Le(1)] = 0.5, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.inner, self.step = inner, step
        self.rollouts = 0
        """Rollouts since φ moved."""

    def requires(self) -> Sequence[str | Requirement]:
        """Require updates from the rollouts of a single task."""
        return (
            "actor_optimizer",
            Requirement(
                "updates from the latest rollout alone",
                lambda self: hasattr(self.model, "rollout_buffer"),
                "an on-policy algorithm of framework pytorch, such as ppo",
            ),
        )

    def prepare_env(self) -> None:
        """Begin with the first task; refuse a run without the steps to train every task once."""
        super().prepare_env()
        model: Any = self.model
        least = len(self.tasks) * self.inner * model.n_steps * model.n_envs
        if self.config.steps < least:
            why = f"is too few for {self.inner} rollouts of each of {len(self.tasks)} tasks"
            raise ConfigError(bad_value("steps", self.config.steps, f"{least} or more, or shorter rollouts", why))
        self.play_only(0)

    def prepare_model(self) -> None:
        """Store the initial weights."""
        self.start = self._weights()
        """`(parameters,)`: φ."""

    def begin_iteration(self) -> None:
        """Move φ and begin the next task, if the rollouts of the task are over."""
        if self.rollouts == self.inner:
            self._move()
            self.play_only((self.index + 1) % len(self.tasks))
        self.rollouts += 1
        self.logger.record("strategy/task", self.index)

    def finish(self, judge: Callable[[], Evaluation]) -> None:
        """Move φ towards the weights of the last task; the policy has the weights φ."""
        self._move()

    def _move(self) -> None:
        """Move φ towards the weights of the policy, and set the policy's weights to φ."""
        self.start = self.start + self.step * (self._weights() - self.start)
        parameters = list(self.model.policy.parameters())
        values = torch.split(self.start, [parameter.numel() for parameter in parameters])
        with torch.no_grad():  # `vector_to_parameters` would make the parameters views of φ
            for parameter, value in zip(parameters, values, strict=True):
                parameter.copy_(value.view_as(parameter))
        self.rollouts = 0

    def _weights(self) -> torch.Tensor:
        """Return a copy of the policy's weights, in one vector."""
        return torch.nn.utils.parameters_to_vector(self.model.policy.parameters()).detach().clone()
