"""Gaussian policies: parameters of their action distributions, and the divergence of two distributions."""

from __future__ import annotations

from typing import Any

import torch
from stable_baselines3.common.distributions import DiagGaussianDistribution, SquashedDiagGaussianDistribution
from stable_baselines3.common.policies import ActorCriticPolicy
from torch.distributions import Normal, kl_divergence


def family(policy: Any) -> str | None:
    """Return the kind of Gaussian of a policy: `plain` (as PPO's), `squashed` by tanh (as SAC's), or None.

    State-dependent exploration is neither kind: its noise stays constant over several steps.
    """
    if isinstance(policy, ActorCriticPolicy):
        return "plain" if type(policy.action_dist) is DiagGaussianDistribution else None
    distribution = getattr(getattr(policy, "actor", None), "action_dist", None)
    return "squashed" if isinstance(distribution, SquashedDiagGaussianDistribution) else None


def gaussian(policy: Any, observations: Any) -> torch.Tensor:
    """Return mean and logarithm of the standard deviation of each action, before squashing.

    Args:
        policy: Policy with a `family`.
        observations: `(n, …)`, or a dictionary of such tensors, preprocessed as in training.

    Returns:
        `(n, 2A)`: the means, then the logarithms.
    """
    if isinstance(policy, ActorCriticPolicy):
        normal: Any = policy.get_distribution(observations).distribution
        return torch.cat([normal.mean, normal.stddev.log()], dim=-1)
    mean, log_std, _ = policy.actor.get_action_dist_params(observations)
    return torch.cat([mean, log_std], dim=-1)


def divergence(teacher: torch.Tensor, student: torch.Tensor) -> torch.Tensor:
    """Return KL(teacher ‖ student), averaged over states; squashing both by the same function does not change it.

    Args:
        teacher: `(n, 2A)`, see `gaussian`.
        student: `(n, 2A)`.

    Returns:
        `()`.
    """
    p, q = (Normal(mean, log_std.exp()) for mean, log_std in (t.chunk(2, dim=-1) for t in (teacher, student)))
    return kl_divergence(p, q).sum(dim=-1).mean()
