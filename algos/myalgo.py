"""An algorithm of your own in one file: copy it, rename it, train it with `--algo myalgo`."""

from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.policies import MultiInputActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import Schedule
from torch import nn

from mygym.registry import register_algorithm


class WayToGoal(BaseFeaturesExtractor):
    """The observation, and the way that is left to the goal.

    Args:
        observation_space: Of goal dictionaries.
        gain: What the way, in metres, is multiplied by.
    """

    def __init__(self, observation_space: spaces.Dict, gain: float = 10.0) -> None:
        parts = (observation_space["observation"], observation_space["desired_goal"])
        super().__init__(observation_space, features_dim=sum(spaces.flatdim(part) for part in parts))
        self.gain = gain

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        """`(batch, features_dim)` from goal dictionaries of `(batch, …)`."""
        way = observations["desired_goal"] - observations["achieved_goal"]
        return torch.cat([observations["observation"], self.gain * way], dim=1)


class MyPolicy(MultiInputActorCriticPolicy):
    """SB3's actor-critic for dictionary observations, with ELU units and the extractor above."""

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        activation_fn: type[nn.Module] = nn.ELU,
        features_extractor_class: type[BaseFeaturesExtractor] = WayToGoal,
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
    defaults={"n_steps": 128, "batch_size": 128, "learning_rate": 1e-3, "gamma": 0.95},  # algo_params
    run_defaults={"reward": "dense", "n_envs": 8},
)
class MyAlgo(PPO):
    """PPO with an entropy bonus that fades to nothing by the end of training.

    Args:
        initial_entropy: Weight of the bonus at the beginning.
    """

    def __init__(self, policy: Any, env: Any, initial_entropy: float = 0.003, **kwargs: Any) -> None:
        super().__init__(policy, env, **kwargs)
        self.initial_entropy = initial_entropy

    def train(self) -> None:
        """Update the networks, with the bonus of the moment."""
        self.ent_coef = self.initial_entropy * self._current_progress_remaining
        super().train()
