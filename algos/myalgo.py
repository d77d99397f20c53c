"""An algorithm of your own in one file: copy it, rename it, train it with `--algo myalgo`."""

from typing import Any

from stable_baselines3 import PPO
from stable_baselines3.common.policies import MultiInputActorCriticPolicy
from torch import nn

from mygym.registry import register_algorithm


class MyPolicy(MultiInputActorCriticPolicy):
    """SB3's actor-critic for dictionary observations, with ELU units."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"activation_fn": nn.ELU, **kwargs})


@register_algorithm(
    "myalgo",
    policy=MyPolicy,
    defaults={"n_steps": 128, "batch_size": 128, "learning_rate": 1e-3, "gamma": 0.95},  # algo_params
    run_defaults={"reward": "dense", "n_envs": 8, "normalize": True},
)
class MyAlgo(PPO):
    """PPO with an entropy bonus that fades to nothing by the end of training."""

    def __init__(self, policy: Any, env: Any, initial_entropy: float = 0.003, **kwargs: Any) -> None:
        super().__init__(policy, env, **kwargs)
        self.initial_entropy = initial_entropy

    def train(self) -> None:
        """Update the networks, with the bonus of the moment."""
        self.ent_coef = self.initial_entropy * self._current_progress_remaining
        super().train()
