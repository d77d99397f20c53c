"""The two ways in which several processes train the same model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from mygym.runs.workers.gradient_mean import Exchange, average_gradients

Rollout = dict[str, NDArray[Any]]
"""Observations, actions, advantages, returns and log-probabilities of the actions by name, each `(n, …)`."""

GatherRollouts = Callable[[Rollout], Rollout | None]
"""Function of the rollout of a process. In the main process, it returns the rollouts of all processes as a single
rollout; in the other processes, it sends the rollout to the main process and returns None."""


def gathers_rollouts(cls: type[Any]) -> bool:
    """Return whether a class trains in the main process with all rollouts, rather than with mean gradients."""
    return hasattr(cls, "gather_rollouts")


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
