"""Losses of a strategy's own, on top of whatever an algorithm minimises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


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
