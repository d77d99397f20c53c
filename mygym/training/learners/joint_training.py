"""The two ways in which several processes train the same model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.save_util import recursive_getattr

from mygym.planning.checks import gathers_rollouts

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


Rollout = dict[str, NDArray[Any]]
"""Observations, actions, advantages, returns and log-probabilities of the actions by name, each `(n, …)`."""

GatherRollouts = Callable[[Rollout], Rollout | None]
"""Function of the rollout of a process. In the main process, it returns the rollouts of all processes as a single
rollout; in the other processes, it sends the rollout to the main process and returns None."""


def train_jointly(model: Any, exchange: Exchange, gather_rollouts: GatherRollouts) -> None:
    """Let a model train together with the models of the other processes.

    Args:
        model: An SB3 algorithm.
        exchange: Called before each step of the optimisers, if the model does not gather rollouts.
        gather_rollouts: Called after each rollout, if it does.
    """
    if gathers_rollouts(type(model)):
        model.gather_rollouts = gather_rollouts
    else:
        average_gradients(model, exchange)


def set_noise_seed(model: Any, seed: int) -> None:
    """Set the seed of the exploration noise of a model in JAX; PyTorch has a seed for all."""
    if gathers_rollouts(type(model)):
        import jax

        model.policy.key = jax.random.PRNGKey(seed)


class StepCountCallback(BaseCallback):
    """Adds the env steps of the other processes to those of this process; it must be the first callback.

    Args:
        count: Number of processes.
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def _on_step(self) -> bool:
        self.model.num_timesteps += (self.count - 1) * self.training_env.num_envs
        return True
