"""Networks for images: keypoints, the encoder of DrQ, a small residual network, frozen encoders; random shifts."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import torch
from gymnasium import spaces
from stable_baselines3.common.preprocessing import get_flattened_obs_dim, is_image_space
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import TensorDict
from torch import nn

from mygym.vision.encoder import Encoder, load_encoder
from mygym.vision.networks import Keypoints

STRIDE = 2
"""Pixels: stride of the first convolution."""


class DrQEncoder(nn.Sequential):
    """Encoder of DrQ: four convolutions, the first with stride 2, then a small vector in [-1, 1] (Yarats et al., 2021).

    Args:
        shape: `(C, H, W)` of the image.
        channels: Channels of each convolution.
        features: Size of the vector.
    """

    def __init__(self, shape: tuple[int, ...], channels: int, features: int) -> None:
        layers: list[nn.Module] = [nn.Conv2d(shape[0], channels, 3, STRIDE), nn.ReLU()]
        for _ in range(3):
            layers += [nn.Conv2d(channels, channels, 3), nn.ReLU()]
        super().__init__(*layers, *flat(layers, shape, features), nn.LayerNorm(features), nn.Tanh())
        self.features = features


class Block(nn.Module):
    """Residual block of two convolutions, for `channels` channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        convolutions = [nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2)]
        self.residual = nn.Sequential(nn.ReLU(), convolutions[0], nn.ReLU(), convolutions[1])

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Return values `(n, C, H, W)` plus their residual."""
        return values + cast(torch.Tensor, self.residual(values))


class ResNet(nn.Sequential):
    """Residual network of IMPALA: three sections that halve the image, with two blocks each (Espeholt et al., 2018).

    Args:
        shape: `(C, H, W)` of the image.
        channels: Channels of the first section; the others have twice as many.
        features: Size of the vector.
    """

    def __init__(self, shape: tuple[int, ...], channels: int, features: int) -> None:
        layers: list[nn.Module] = []
        sizes = (shape[0], channels, 2 * channels, 2 * channels)
        for before, after in itertools.pairwise(sizes):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.MaxPool2d(3, STRIDE, padding=1)]
            layers += [Block(after), Block(after)]
        layers.append(nn.ReLU())
        super().__init__(*layers, *flat(layers, shape, features), nn.ReLU())
        self.features = features


class Frozen(nn.Module):
    """Network of a trained encoder, with buffers in place of parameters: nothing trains them, and models store them.

    Args:
        shape: `(C, H, W)` of the image.
        encoder: The encoder.

    Raises:
        ValueError: The encoder takes images of another shape.
    """

    def __init__(self, shape: tuple[int, ...], encoder: Encoder) -> None:
        super().__init__()
        if shape != encoder.network.shape:
            raise ValueError(f"the encoder takes images of the shape {encoder.network.shape}, not {shape}")
        self.network = copy.deepcopy(encoder.network)
        for module in self.network.modules():
            for name, parameter in list(module.named_parameters(recurse=False)):
                delattr(module, name)
                module.register_buffer(name, parameter.detach())
        self.features = encoder.network.latents

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return the latents `(n, F)` of images `(n, C, H, W)` in [0, 1]."""
        return cast(torch.Tensor, self.network(image))


def flat(layers: list[nn.Module], shape: tuple[int, ...], features: int) -> tuple[nn.Module, nn.Module]:
    """Return the layers that map the result of `layers` for an image `(C, H, W)` to `features` numbers."""
    with torch.no_grad():
        size = nn.Sequential(*layers)(torch.zeros(1, *shape)).numel()
    return nn.Flatten(), nn.Linear(size, features)


class ImageExtractor(BaseFeaturesExtractor):
    """Features extractor: a network for each image, and all numbers of a dictionary observation.

    Args:
        observation_space: Dictionary of images `(C, H, W)` and vectors.
        network: Constructs the network of an image from its shape; its attribute `features` is the size of its result.
    """

    smallest_image: ClassVar[int] = 1
    """Pixels: smallest width and height."""
    takes_encoder: ClassVar[bool] = False
    """Whether its network is a trained encoder, its argument `encoder`, which takes images in [0, 1]."""

    def __init__(self, observation_space: spaces.Dict, network: Callable[[tuple[int, ...]], nn.Module]) -> None:
        super().__init__(observation_space, features_dim=1)
        self.images = nn.ModuleDict()
        size = 0
        for name, space in observation_space.spaces.items():
            if is_image_space(space):
                assert space.shape is not None
                self.images[name] = image_network = network(space.shape)
                size += cast(int, image_network.features)
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


class KeypointExtractor(ImageExtractor):
    """Features extractor: keypoints of each image, and all numbers of a dictionary observation.

    Args:
        observation_space: Dictionary of images `(C, H, W)` and vectors.
        keypoints: Number of keypoints in each image.
        channels: Channels of the first convolution.
        local_contrast: Whether keypoints are found in the difference between each pixel and its surroundings, which
            hardly depends on light and on the colours of large surfaces.
        color_jitter: In training, each channel of an image is multiplied by a random factor, which differs from 1 by at
            most this number.
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        keypoints: int = 32,
        channels: int = 16,
        local_contrast: bool = False,
        color_jitter: float = 0.0,
    ) -> None:

        def network(shape: tuple[int, ...]) -> Keypoints:
            return Keypoints(shape, keypoints, channels, local_contrast=local_contrast, color_jitter=color_jitter)

        super().__init__(observation_space, network)


class DrQExtractor(ImageExtractor):
    """Features extractor: the encoder of DrQ for each image, and all numbers of a dictionary observation.

    Args:
        observation_space: Dictionary of images `(C, H, W)` and vectors.
        features_dim: Features of each image.
        channels: Channels of each convolution.
    """

    smallest_image = 15

    def __init__(self, observation_space: spaces.Dict, features_dim: int = 50, channels: int = 32) -> None:
        super().__init__(observation_space, lambda shape: DrQEncoder(shape, channels, features_dim))


class ResNetExtractor(ImageExtractor):
    """Features extractor: a small residual network for each image, and all numbers of a dictionary observation.

    Args:
        observation_space: Dictionary of images `(C, H, W)` and vectors.
        features_dim: Features of each image.
        channels: Channels of the first section; the second and third have twice as many.
    """

    def __init__(self, observation_space: spaces.Dict, features_dim: int = 256, channels: int = 16) -> None:
        super().__init__(observation_space, lambda shape: ResNet(shape, channels, features_dim))


class FrozenExtractor(ImageExtractor):
    """Features extractor: the latents of a trained encoder for each image, and all numbers of a dictionary observation.

    Args:
        observation_space: Dictionary of images `(C, H, W)` and vectors.
        encoder: File of `mygym encoder train`, or the encoder. Its weights are not trained.
    """

    takes_encoder = True

    def __init__(self, observation_space: spaces.Dict, encoder: str | Encoder) -> None:
        loaded = load_encoder(encoder, "encoder") if isinstance(encoder, str) else encoder
        super().__init__(observation_space, lambda shape: Frozen(shape, loaded))


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


class ShiftedReplay:
    """Mixin of off-policy algorithms that shifts the images of each minibatch at random (DrQ: Yarats et al., 2021).

    Args:
        *args: Arguments of the algorithm.
        random_shift: Pixels by which images are shifted at random in every minibatch, at most, the observation and the
            next observation independently; 0: not at all.
        **kwargs: Arguments of the algorithm.
    """

    replay_buffer: Any

    def __init__(self, *args: Any, random_shift: int = 0, **kwargs: Any) -> None:
        self.random_shift = random_shift
        super().__init__(*args, **kwargs)

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        """Make gradient steps on minibatches with shifted images, also of demonstrations in them."""
        buffer = self.replay_buffer

        def sample(*args: Any, **kwargs: Any) -> Any:
            batch = buffer.sample(*args, **kwargs)
            observations, next_observations = (
                shifted(values, self.random_shift) for values in (batch.observations, batch.next_observations)
            )
            return batch._replace(observations=observations, next_observations=next_observations)

        if self.random_shift:
            self.replay_buffer = SimpleNamespace(sample=sample)
        try:
            super().train(gradient_steps, batch_size)  # type: ignore[misc]
        finally:
            self.replay_buffer = buffer
