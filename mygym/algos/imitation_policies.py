"""The policy of `mygym.algos.imitation`: a deterministic network on standardised observations."""

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

LEAST_STD = 0.01
"""Below which a standard deviation counts as this: what hardly varies is noise, and shall not be blown up."""

CLIP = 10.0
"""Standard deviations from the mean at which a number is cut off."""


class Standardizer(nn.Module):
    """A part of the observation with mean 0 and standard deviation 1 over all that was shown to it."""

    count: torch.Tensor
    mean: torch.Tensor
    variance: torch.Tensor

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("variance", torch.ones(shape))

    def show(self, values: torch.Tensor) -> None:
        """Take `(n, …)` into account (Chan et al., 1979)."""
        n, variance, mean = len(values), *torch.var_mean(values, dim=0, correction=0)
        away, share = mean - self.mean, n / (self.count + n)
        self.variance += share * (variance - self.variance + (1 - share) * away**2)
        self.mean += share * away
        self.count += n

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """`(n, …)` → the same shape."""
        std = self.variance.sqrt().clamp(min=LEAST_STD)
        return ((values - self.mean) / std).clamp(-CLIP, CLIP)


class ImitationPolicy(BasePolicy):
    """A deterministic policy: standardised observation → features → layers → action within its bounds.

    Args:
        observation_space: What it sees; images are seen as they are, all else is standardised.
        action_space: A box.
        lr_schedule: Learning rate of the optimiser.
        net_arch: Sizes of the hidden layers; three of 128 by default.
        activation_fn: After each of them.
        features_extractor_class: Makes one vector of the observation; by default it puts its parts in a row.
        features_extractor_kwargs: Further arguments of it.
        normalize_images: Whether images of bytes are divided by 255.
        optimizer_class: Of the weights.
        optimizer_kwargs: Further arguments of it.
    """

    optimizer: torch.optim.Optimizer

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
        super().__init__(
            observation_space,
            action_space,
            features_extractor_class or (CombinedExtractor if is_dict else FlattenExtractor),
            features_extractor_kwargs,
            normalize_images=normalize_images,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
            squash_output=True,
        )
        self.net_arch = [128, 128, 128] if net_arch is None else net_arch
        self.activation_fn = activation_fn
        parts = observation_space.spaces if isinstance(observation_space, spaces.Dict) else {"flat": observation_space}
        self.standardizers = nn.ModuleDict(
            {
                name: Standardizer(part.shape)
                for name, part in parts.items()
                if isinstance(part, spaces.Box) and not is_image_space(part, normalized_image=not normalize_images)
            }
        )
        self.features_extractor = self.make_features_extractor()
        self._build(lr_schedule)

    def _build(self, lr_schedule: Schedule) -> None:
        """Make the network and its optimiser."""
        assert self.features_extractor is not None
        layers = create_mlp(
            self.features_extractor.features_dim,
            cast(spaces.Box, self.action_space).shape[0],
            self.net_arch,
            self.activation_fn,
            squash_output=True,
        )
        self.network = nn.Sequential(*layers)
        make: Any = self.optimizer_class
        self.optimizer = make(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)

    def standardize(self, observations: PyTorchObs) -> None:
        """Take observations `(n, …)` into account for means and standard deviations."""
        for name, standardizer in self.standardizers.items():
            cast(Standardizer, standardizer).show(
                observations[name] if isinstance(observations, dict) else observations
            )

    def forward(self, observations: PyTorchObs) -> torch.Tensor:
        """Actions `(n, A)` in [-1, 1] on observations `(n, …)`."""
        seen = preprocess_obs(observations, self.observation_space, normalize_images=self.normalize_images)
        if isinstance(seen, dict):
            seen = {name: self._standardized(name, part) for name, part in seen.items()}
        else:
            seen = self._standardized("flat", seen)
        return cast(torch.Tensor, self.network(self.features_extractor(seen)))

    def _standardized(self, name: str, part: torch.Tensor) -> torch.Tensor:
        return cast(torch.Tensor, self.standardizers[name](part)) if name in self.standardizers else part

    def _predict(self, observation: PyTorchObs, deterministic: bool = True) -> torch.Tensor:
        return self.forward(observation)
