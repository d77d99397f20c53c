"""The two ways in which several processes train the same model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from mygym.runs.workers.gradient_mean import Exchange, average_gradients

Gather = Callable[[Mapping[str, NDArray[Any]]], Mapping[str, NDArray[Any]] | None]
"""Function that joins the rollouts of all processes in the main process; in each of the other processes, it sends the
rollout and returns None."""


def gathers_rollouts(cls: type[Any]) -> bool:
    """Return whether a class trains in the main process with all rollouts, rather than with mean gradients."""
    return hasattr(cls, "gather")


def train_jointly(model: Any, exchange: Exchange, gather: Gather) -> None:
    """Let a model train together with those of the other processes.

    Args:
        model: An SB3 algorithm, or one with an attribute `gather`.
        exchange: Called with the gradients before each step of the optimisers; or
        gather: Called with each rollout.
    """
    if gathers_rollouts(type(model)):
        model.gather = gather
    else:
        average_gradients(model, exchange)


def set_noise_seed(model: Any, seed: int) -> None:
    """Set the seed of the exploration noise of a model in JAX; PyTorch has a seed for all."""
    if gathers_rollouts(type(model)):
        import jax

        model.policy.key = jax.random.PRNGKey(seed)
