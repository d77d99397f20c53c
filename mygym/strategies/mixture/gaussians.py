"""Policies that draw their actions from a Gaussian, and how far one is from another."""

from __future__ import annotations

from typing import Any

import torch
from stable_baselines3.common.distributions import DiagGaussianDistribution, SquashedDiagGaussianDistribution
from stable_baselines3.common.policies import ActorCriticPolicy
from torch.distributions import Normal, kl_divergence


def family(policy: Any) -> str | None:
    """`plain`, as ppo's, or `squashed` by tanh, as sac's: what a policy draws actions from; None: from neither.

    State-dependent exploration is neither: its noise stays the same for a while.
    """
    if isinstance(policy, ActorCriticPolicy):
        return "plain" if type(policy.action_dist) is DiagGaussianDistribution else None
    drawn_from = getattr(getattr(policy, "actor", None), "action_dist", None)
    return "squashed" if isinstance(drawn_from, SquashedDiagGaussianDistribution) else None


def gaussian(policy: Any, observations: Any) -> torch.Tensor:
    """Mean and logarithm of the standard deviation of each action, before any squashing.

    Args:
        policy: One that is of a `family`.
        observations: `(n, …)`, or a dictionary of such, as the policy is trained on them.

    Returns:
        `(n, 2A)`: the means, then the logarithms.
    """
    if isinstance(policy, ActorCriticPolicy):
        normal: Any = policy.get_distribution(observations).distribution
        return torch.cat([normal.mean, normal.stddev.log()], dim=-1)
    mean, log_std, _ = policy.actor.get_action_dist_params(observations)
    return torch.cat([mean, log_std], dim=-1)


def divergence(teacher: torch.Tensor, student: torch.Tensor) -> torch.Tensor:
    """KL(teacher ‖ student), the mean over states; squashing both by the same function does not change it.

    Args:
        teacher: `(n, 2A)`, as of `gaussian`.
        student: The same.

    Returns:
        `()`.
    """
    one, other = (Normal(mean, log_std.exp()) for mean, log_std in (t.chunk(2, dim=-1) for t in (teacher, student)))
    return kl_divergence(one, other).sum(dim=-1).mean()
