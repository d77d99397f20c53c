"""Custom algorithm in one file: copy it, rename it, train it with `--algo myalgo`."""

from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.policies import MultiInputActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import Schedule
from torch import nn

from mygym.registry import register_algorithm


class GoalDifference(BaseFeaturesExtractor):
    """Features extractor: the observation and the remaining distance vector to the goal.

    Args:
        observation_space: Space of goal dictionaries.
        gain: Factor of the distance vector, which is in metres.
    """

    def __init__(self, observation_space: spaces.Dict, gain: float = 10.0) -> None:
        subspaces = (observation_space["observation"], observation_space["desired_goal"])
        super().__init__(observation_space, features_dim=sum(spaces.flatdim(subspace) for subspace in subspaces))
        self.gain = gain

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        """Map goal dictionaries of `(batch, …)` to `(batch, features_dim)`."""
        difference = observations["desired_goal"] - observations["achieved_goal"]
        return torch.cat([observations["observation"], self.gain * difference], dim=1)


class MyPolicy(MultiInputActorCriticPolicy):
    """SB3's actor-critic policy for dictionary observations, with ELU units and the extractor above."""

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        activation_fn: type[nn.Module] = nn.ELU,
        features_extractor_class: type[BaseFeaturesExtractor] = GoalDifference,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            activation_fn=activation_fn,
            features_extractor_class=features_extractor_class,
            **kwargs,
        )


@register_algorithm(
    "myalgo",
    policy=MyPolicy,
    run_defaults={"normalize": False},  # the extractor needs both goals in metres; all other values come from ppo
)
class MyAlgo(PPO):
    """PPO with an entropy bonus that decreases to 0 by the end of training.

    Args:
        initial_entropy: Initial weight of the entropy bonus.
    """

    def __init__(self, policy: Any, env: Any, initial_entropy: float = 0.003, **kwargs: Any) -> None:
        super().__init__(policy, env, **kwargs)
        self.initial_entropy = initial_entropy

    def train(self) -> None:
        """Update the networks with the current entropy bonus."""
        self.ent_coef = self.initial_entropy * self._current_progress_remaining
        super().train()
