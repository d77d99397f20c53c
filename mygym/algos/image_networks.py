"""Networks for images: positions of learned keypoints, and random shifts as augmentation."""

from __future__ import annotations

from typing import Any, cast

import torch
from gymnasium import spaces
from stable_baselines3.common.preprocessing import get_flattened_obs_dim, is_image_space
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import TensorDict
from torch import nn

FIRST_KERNEL, STRIDE = 5, 2
"""Pixels: edge of the first kernel, and stride of the first two convolutions."""


class Keypoints(nn.Module):
    """Learned keypoints of an image: their positions and its channels at them (Levine et al., 2016).

    A keypoint is the mean of a distribution over the image, the softmax of a channel of the last convolution.

    Args:
        shape: `(C, H, W)` of the image.
        count: Number of keypoints.
        channels: Channels of the first convolution; the second has twice as many.
    """

    columns: torch.Tensor
    rows: torch.Tensor

    def __init__(self, shape: tuple[int, ...], count: int, channels: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(shape[0], channels, FIRST_KERNEL, STRIDE, padding=FIRST_KERNEL // 2),
            nn.ReLU(),
            nn.Conv2d(channels, 2 * channels, 3, STRIDE, padding=1),
            nn.ReLU(),
            nn.Conv2d(2 * channels, count, 3, padding=1),
        )
        with torch.no_grad():
            rows, columns = self.convolutions(torch.zeros(1, *shape)).shape[2:]
        self.pool = nn.AdaptiveAvgPool2d((rows, columns))
        self.register_buffer("columns", torch.linspace(-1, 1, columns).repeat(rows), persistent=False)
        self.register_buffer("rows", torch.linspace(-1, 1, rows).repeat_interleave(columns), persistent=False)
        self.features = count * (2 + shape[0])

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return the features `(n, F)` of images `(n, C, H, W)`, standardised or in [0, 1]."""
        attention = self.convolutions(image).flatten(2).softmax(-1)  # (n, K, cells)
        cells = self.pool(image).flatten(2)
        count = image.shape[0]  # of `len` an exported graph would keep the value
        positions = torch.stack([self.columns, self.rows], -1).expand(count, -1, -1)
        features: torch.Tensor = attention @ torch.cat([positions, cells.transpose(1, 2)], -1)
        return features.flatten(1)


class KeypointExtractor(BaseFeaturesExtractor):
    """Features extractor: keypoints of each image, and all numbers of a dictionary observation.

    Args:
        observation_space: Dictionary of images `(C, H, W)` and vectors.
        keypoints: Number of keypoints in each image.
        channels: Channels of the first convolution.
    """

    def __init__(self, observation_space: spaces.Dict, keypoints: int = 32, channels: int = 16) -> None:
        super().__init__(observation_space, features_dim=1)
        self.images = nn.ModuleDict()
        size = 0
        for name, space in observation_space.spaces.items():
            if is_image_space(space):
                assert space.shape is not None
                self.images[name] = network = Keypoints(space.shape, keypoints, channels)
                size += network.features
            else:
                size += get_flattened_obs_dim(space)
        self._features_dim = size

    def forward(self, observations: TensorDict) -> torch.Tensor:
        """Return features `(n, F)`."""
        features = [
            self.images[name](observations[name]) if name in self.images else observations[name].flatten(1)
            for name in cast(spaces.Dict, self._observation_space).spaces  # an environment has another order of keys
        ]
        return torch.cat(features, dim=1)


def random_shift(images: torch.Tensor, pixels: int) -> torch.Tensor:
    """Return images `(n, C, H, W)`, each moved by up to `pixels`; its border is repeated (Yarats et al., 2021)."""
    count, _, height, width = images.shape
    shifts = torch.randint(-pixels, pixels + 1, (2, count, 1), device=images.device)
    rows = (torch.arange(height, device=images.device) + shifts[0]).clamp(0, height - 1)
    columns = (torch.arange(width, device=images.device) + shifts[1]).clamp(0, width - 1)
    batch = torch.arange(count, device=images.device)
    moved = images[batch[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    return moved.contiguous()  # with the channels last, gradients have another layout, and resumed runs differ in bits


def shifted(observations: Any, pixels: int) -> Any:
    """Return a dictionary observation with randomly shifted images `(n, C, H, W)` uint8."""
    if not pixels or not isinstance(observations, dict):
        return observations
    return {name: random_shift(values, pixels) if values.ndim == 4 else values for name, values in observations.items()}
