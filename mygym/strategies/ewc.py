"""Strategy `ewc`: tasks one after the other, with elastic weight consolidation against forgetting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import torch
from annotated_types import Ge
from torch import nn

from mygym.errors import ConfigError, bad_value
from mygym.strategies.losses import actor_optimizer
from mygym.strategies.multitask import OneTaskAtATime
from mygym.strategies.strategy import Requirement

VALUE_NETWORKS = ("value_net", "vf_features_extractor", "critic")
"""Words in the names of parameters that estimate values, if the actor's optimiser trains them too."""


class EWC(OneTaskAtATime):
    """Trains several tasks one after the other; elastic weight consolidation protects the earlier tasks.

    Every task has an equal share of the steps. When a task ends, the parameters θ* of the actor are kept, with their
    importance F: the mean squared gradient of the updates of that task, an estimate of the Fisher information,
    divided by its mean over the parameters. From then on every gradient step of the actor minimises
    `weight / 2 · Σ F (θ − θ*)²` too (Kirkpatrick et al., 2017). Importances of several tasks are added, and the latest
    θ* replaces the earlier (Schwarz et al., 2018). Networks of values are free: each task has other returns.

    A resumed run with more steps, and so longer shares, goes back to no task: it goes on with its task until the share
    of a later task begins, or until the end.

    Evaluations play all tasks, so `success_by_task` shows which are forgotten. Replay buffers still hold transitions
    of earlier tasks, which is a second protection.

    Args:
        weight: Weight of the penalty. 0: none.
        **kwargs: Arguments of `SeveralTasks`.
    """

    checkpointed = ("index", "updates", "squares", "importance", "anchors")

    def __init__(self, *, weight: Annotated[float, Ge(0)] = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.weight = weight
        self.updates = 0
        """Gradient steps of the actor since the task began."""

    def requires(self) -> Sequence[str | Requirement]:
        """Require an actor that its optimiser trains; the optimiser of TRPO trains the values alone."""
        return (
            "actor_optimizer",
            Requirement(
                "gradient steps of the actor",
                lambda self: not hasattr(self.model, "line_search_max_iter"),
                "an algorithm whose optimiser trains the actor, such as ppo or sac",
            ),
        )

    def prepare_env(self) -> None:
        """Begin with the first task; refuse a run without the steps for a rollout of every task."""
        super().prepare_env()
        model: Any = self.model
        rollout = getattr(model, "n_steps", 1) * model.n_envs
        if len({self._task_at(step) for step in range(0, self.config.steps, rollout)}) < len(self.tasks):
            least = len(self.tasks) * rollout
            why = f"is too few for {len(self.tasks)} tasks with rollouts of {rollout} steps"
            raise ConfigError(bad_value("steps", self.config.steps, f"{least} or more, or shorter rollouts", why))
        self.play_only(0)

    def prepare_model(self) -> None:
        """Add the gradient of the penalty to every step of the actor's optimiser."""
        policy: Any = self.model.policy
        optimizer = actor_optimizer(self.model)
        assert optimizer is not None  # see `requires`
        trained = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        self.parameters = nn.ParameterList(
            parameter
            for name, parameter in getattr(policy, "actor", policy).named_parameters()
            if id(parameter) in trained and not any(word in name for word in VALUE_NETWORKS)
        )
        self.anchors = self._values()
        """`(parameters,)`: parameters at the end of the latest completed task."""
        self.importance, self.squares = torch.zeros_like(self.anchors), torch.zeros_like(self.anchors)
        """`(parameters,)`: importance for the completed tasks; sum of the squared gradients of the current task."""
        optimizer.register_step_pre_hook(self._before_gradient_step)

    def begin_iteration(self) -> None:
        """Begin the next task if the share of the current task is over."""
        index = self._task_at(self.num_timesteps)
        if index > self.index:  # lower in a run that was extended
            self._consolidate()
            self.play_only(index)
        self.logger.record("strategy/task", self.index)
        self.logger.record("strategy/penalty", self.penalty())

    def penalty(self) -> float:
        """Return the current penalty, `weight / 2 · Σ F (θ − θ*)²`."""
        return 0.5 * self.weight * float((self.importance * (self._values() - self.anchors) ** 2).sum())

    def _task_at(self, step: int) -> int:
        """Return the index of the task whose share of the steps has an env step."""
        return min(step * len(self.tasks) // self.config.steps, len(self.tasks) - 1)

    def _consolidate(self) -> None:
        """Keep the parameters, and add their importance for the completed task."""
        if self.updates and (mean := self.squares.mean()) > 0:
            self.importance += self.squares / mean
        self.anchors, self.squares, self.updates = self._values(), torch.zeros_like(self.squares), 0

    def _before_gradient_step(self, *_: Any) -> None:
        """Record the squared gradients of the task, then add the gradient of the penalty."""
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        self.squares += torch.cat([gradient.flatten() for gradient in gradients]) ** 2
        self.updates += 1
        penalty = self.weight * self.importance * (self._values() - self.anchors)
        additions = torch.split(penalty, [parameter.numel() for parameter in self.parameters])
        for parameter, addition in zip(self.parameters, additions, strict=True):
            if parameter.grad is not None:
                parameter.grad += addition.view_as(parameter)

    def _values(self) -> torch.Tensor:
        """Return the protected parameters in one vector."""
        return torch.cat([parameter.detach().flatten() for parameter in self.parameters])
