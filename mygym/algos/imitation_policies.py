"""Policy of `mygym.algos.imitation`: a deterministic network on standardised observations and images."""

from __future__ import annotations

from typing import Any, cast

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import is_image_space, preprocess_obs
from stable_baselines3.common.torch_layers import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
    create_mlp,
)
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from torch import nn

from mygym.algos.image_networks import KeypointExtractor
from mygym.perception.standardizer import Standardizer


class ImitationPolicy(BasePolicy):
    """Deterministic policy: standardised observation, features, layers, action in [-1, 1].

    Args:
        observation_space: Observation space; all arrays are standardised.
        action_space: Box action space.
        lr_schedule: Learning rate of the optimiser.
        net_arch: Sizes of the hidden layers; None: three layers of 128.
        activation_fn: Activation after each hidden layer.
        features_extractor_class: Maps the observation to one vector; None: concatenates its arrays, and keypoints of
            images.
        features_extractor_kwargs: Arguments of the features extractor.
        normalize_images: Whether byte images are divided by 255.
        optimizer_class: Class of the optimiser.
        optimizer_kwargs: Arguments of the optimiser.
    """

    optimizer: torch.optim.Optimizer
    image_extractor = KeypointExtractor
    """Default features extractor for images."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Box,
        lr_schedule: Schedule,
        net_arch: list[int] | None = None,
        activation_fn: type[nn.Module] = nn.ReLU,
        features_extractor_class: type[BaseFeaturesExtractor] | None = None,
        features_extractor_kwargs: dict[str, Any] | None = None,
        normalize_images: bool = True,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
    ) -> None:
        is_dict = isinstance(observation_space, spaces.Dict)
        subspaces = (
            observation_space.spaces if isinstance(observation_space, spaces.Dict) else {"flat": observation_space}
        )
        images = {
            name
            for name, subspace in subspaces.items()
            if is_image_space(subspace, normalized_image=not normalize_images)
        }
        default = self.image_extractor if is_dict and images else CombinedExtractor if is_dict else FlattenExtractor
        extractor = features_extractor_class or default
        super().__init__(
            observation_space,
            action_space,
            extractor,
            features_extractor_kwargs,
            normalize_images=normalize_images,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
            squash_output=True,
        )
        self.net_arch = [128, 128, 128] if net_arch is None else net_arch
        self.activation_fn = activation_fn
        as_they_are = getattr(extractor, "takes_encoder", False)
        self.standardizers = nn.ModuleDict(
            {
                name: Standardizer(subspace.shape, name in images)
                for name, subspace in subspaces.items()
                if isinstance(subspace, spaces.Box) and not (name in images and as_they_are)
            }
        )
        self.features_extractor = self.make_features_extractor()
        self._build(lr_schedule)

    def _build(self, lr_schedule: Schedule) -> None:
        """Build the network and its optimiser."""
        assert self.features_extractor is not None
        layers = create_mlp(
            self.features_extractor.features_dim,
            cast(spaces.Box, self.action_space).shape[0],
            self.net_arch,
            self.activation_fn,
            squash_output=True,
        )
        self.network = nn.Sequential(*layers)
        optimizer_class: Any = self.optimizer_class
        self.optimizer = optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)

    def standardize(self, observations: PyTorchObs) -> None:
        """Update means and variances with observations `(n, …)`."""
        inputs = preprocess_obs(observations, self.observation_space, normalize_images=self.normalize_images)
        for name, standardizer in self.standardizers.items():
            cast(Standardizer, standardizer).update(inputs[name] if isinstance(inputs, dict) else inputs)

    def forward(self, observations: PyTorchObs) -> torch.Tensor:
        """Return actions `(n, A)` in [-1, 1] for observations `(n, …)`."""
        inputs = preprocess_obs(observations, self.observation_space, normalize_images=self.normalize_images)
        if isinstance(inputs, dict):
            inputs = {name: self._standardized(name, values) for name, values in inputs.items()}
        else:
            inputs = self._standardized("flat", inputs)
        return cast(torch.Tensor, self.network(self.features_extractor(inputs)))

    def _standardized(self, name: str, values: torch.Tensor) -> torch.Tensor:
        return cast(torch.Tensor, self.standardizers[name](values)) if name in self.standardizers else values

    def _predict(self, observation: PyTorchObs, deterministic: bool = True) -> torch.Tensor:
        return self.forward(observation)
