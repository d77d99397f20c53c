"""Asymmetric actor-critic: the critic observes the state, the actor images (Pinto et al., 2018).

Training needs the critic, acting does not: the critic may observe what no sensor measures.
"""

from __future__ import annotations

from typing import Any

import sb3_contrib.tqc.policies as tqc
import stable_baselines3.sac.policies as sac
import stable_baselines3.td3.policies as td3
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, CombinedExtractor

from mygym.tasks.observations import CRITIC


class AsymmetricActorCritic:
    """Mixin of policies with an actor and critics, for observations with a vector for the critic.

    The actor observes everything else; the critic observes all numbers and no images. Without this vector, nothing
    changes.
    """

    takes_critic_observations = True
    """Whether runs with this policy may have `critic_observations`."""
    observation_space: spaces.Space[Any]
    features_extractor_class: type[BaseFeaturesExtractor]
    features_extractor_kwargs: dict[str, Any]

    def make_actor(self, features_extractor: BaseFeaturesExtractor | None = None) -> Any:
        """Return an actor."""
        if features_extractor is None and (observed := _split(self.observation_space)):
            features_extractor = self.features_extractor_class(observed[0], **self.features_extractor_kwargs)
        return super().make_actor(features_extractor)  # type: ignore[misc]

    def make_critic(self, features_extractor: BaseFeaturesExtractor | None = None) -> Any:
        """Return critics."""
        if features_extractor is None and (observed := _split(self.observation_space)):
            features_extractor = CombinedExtractor(observed[1])
        return super().make_critic(features_extractor)  # type: ignore[misc]


def _split(space: spaces.Space[Any]) -> tuple[spaces.Dict, spaces.Dict] | None:
    """Return the spaces of the actor and of the critic; None if both observe everything."""
    if not isinstance(space, spaces.Dict) or CRITIC not in space.spaces:
        return None
    of_actor = {key: subspace for key, subspace in space.spaces.items() if key != CRITIC}
    of_critic = {key: subspace for key, subspace in space.spaces.items() if not is_image_space(subspace)}
    return spaces.Dict(of_actor), spaces.Dict(of_critic)


class SACPolicy(AsymmetricActorCritic, sac.MultiInputPolicy):
    """Policy of SAC for dictionary observations."""


class TD3Policy(AsymmetricActorCritic, td3.MultiInputPolicy):
    """Policy of TD3 and DDPG for dictionary observations."""


class TQCPolicy(AsymmetricActorCritic, tqc.MultiInputPolicy):
    """Policy of TQC for dictionary observations."""
