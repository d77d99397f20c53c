"""Losses of a strategy's own, on top of whatever an algorithm minimises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional


def actor_optimizer(model: Any) -> torch.optim.Optimizer | None:
    """The optimiser of the network that acts; None of a model without gradients, or of another framework."""
    policy = model.policy
    optimizer = getattr(getattr(policy, "actor", policy), "optimizer", None)
    return optimizer if isinstance(optimizer, torch.optim.Optimizer) else None


def add_loss(optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor | None]) -> None:
    """Add the gradient of `loss` to what `optimizer` is about to step along, in each of its steps from now on.

    So a model's own `train` minimises its loss plus this one, though it knows nothing of it. Gradients that a model
    clips are clipped before.

    Args:
        optimizer: As of `actor_optimizer`.
        loss: Computes a scalar from the parameters as they are; None: nothing is to be added.
    """

    def add(*_: Any) -> None:
        value = loss()
        if value is not None:
            value.backward()  # type: ignore[no-untyped-call]

    optimizer.register_step_pre_hook(add)


def imitation_loss(policy: Any, observations: Any, labels: torch.Tensor, *, deterministic: bool = True) -> torch.Tensor:
    """Mean absolute error of what the policy would do.

    The absolute one, as fingers close or open, and no mean of the two is right.

    Args:
        policy: One of SB3's.
        observations: `(n, …)`, or a dictionary of such, as the policy is trained on them.
        labels: `(n, A)` in [-1, 1], what it should do.
        deterministic: Without exploration. With it, it also learns to explore less; not for state-dependent
            exploration, whose noise is drawn before.

    Returns:
        `()`.
    """
    return functional.l1_loss(policy._predict(observations, deterministic), labels)
