"""Losses that a strategy adds to the loss of an algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional

from mygym.config.parameter_checks import Range
from mygym.config.schedules import Schedule, parse
from mygym.training.pretrained import is_critic


def actor_optimizer(model: Any) -> torch.optim.Optimizer | None:
    """Return the optimiser of the actor; None for models without gradients or of another framework."""
    policy = model.policy
    optimizer = getattr(getattr(policy, "actor", policy), "optimizer", None)
    return optimizer if isinstance(optimizer, torch.optim.Optimizer) else None


def trains_actor(model: Any) -> bool:
    """Return whether a layer of the actor is trained, so that a loss of its actions alone has a gradient."""
    parameters = getattr(model.policy, "actor", model.policy).named_parameters()
    return any(each.requires_grad and name != "log_std" and not is_critic(name) for name, each in parameters)


def add_loss(optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor | None]) -> None:
    """Add the gradient of `loss` to the gradients in every step of `optimizer` from now on.

    A model's `train` then minimises the sum of both losses without changes to its code. Models that clip gradients
    clip them before this gradient is added.
    """

    def add(*_: Any) -> None:
        value = loss()
        if value is not None:
            value.backward()  # type: ignore[no-untyped-call]

    optimizer.register_step_pre_hook(add)


def weight_schedule(weight: float | Mapping[str, Any], total_steps: int | None = None) -> Schedule:
    """Return the weight of an added loss, a number or a schedule, as a schedule.

    Raises:
        ConfigError: It is not a schedule, or it falls below 0.
    """
    schedule = weight if isinstance(weight, Mapping) else {"schedule": "constant", "value": weight}
    return parse("strategy_params.weight", schedule, Range(0), total_steps)


def imitation_loss(policy: Any, observations: Any, labels: torch.Tensor, *, deterministic: bool = True) -> torch.Tensor:
    """Return the mean absolute error `()` of the policy's actions.

    Absolute rather than squared: a gripper is closed or open, and the mean of the two is wrong.

    Args:
        policy: SB3 policy.
        observations: `(n, …)`, or a dictionary of such tensors, preprocessed as in training.
        labels: `(n, A)` in [-1, 1], the target actions.
        deterministic: Without exploration. With exploration the policy also learns to explore less; not possible with
            state-dependent exploration, whose noise is drawn earlier.
    """
    return functional.l1_loss(policy._predict(observations, deterministic), labels)
