"""Optimiser steps with the mean gradients of several processes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from numpy.typing import NDArray
from stable_baselines3.common.save_util import recursive_getattr

Exchange = Callable[[NDArray[Any]], NDArray[Any]]
"""Function that sends the gradients of this process, `(n,)`, and returns the mean of those of all processes."""


def average_gradients(model: Any, exchange: Exchange) -> None:
    """Let the optimisers of a model take each step with the mean gradients of all processes.

    SB3 has clipped the gradients of each process before.

    Args:
        model: An SB3 algorithm.
        exchange: Called before each step.
    """
    for name in model._get_torch_save_params()[0]:
        optimizer = recursive_getattr(model, name)
        if isinstance(optimizer, torch.optim.Optimizer):
            optimizer.register_step_pre_hook(partial(_set_mean, exchange))


def _set_mean(exchange: Exchange, optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """Replace the gradients of an optimiser's parameters by their means."""
    parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    mean = torch.from_numpy(exchange(flat.cpu().numpy()))
    for gradient, part in zip(gradients, torch.split(mean, [each.numel() for each in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))
