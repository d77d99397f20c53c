"""Parts of networks for images: U-Net, keypoints, standardisation, and their files."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional

from mygym.errors import ConfigError, bad_value

CHANNELS = (8, 16, 32, 48)
"""Channels at the full size, and at each half of it."""

UNET_DIVISOR = 2 ** (len(CHANNELS) - 1)
"""The width and the height of images are multiples of this number."""


class UNet(nn.Module):
    """A U-Net (Ronneberger et al., 2015, https://arxiv.org/abs/1505.04597), small enough for a processor."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(_block(first, second) for first, second in itertools.pairwise([inputs, *CHANNELS]))
        pairs = list(itertools.pairwise(CHANNELS))
        self.up = nn.ModuleList(_block(below + here, here) for here, below in reversed(pairs))
        self.head = nn.Conv2d(CHANNELS[0], outputs, 1)
        super().to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # 1.3 times faster

    def forward(self, images: Tensor) -> Tensor:
        """Return numbers `(n, outputs, H, W)` for images `(n, inputs, H, W)`; `UNET_DIVISOR` divides H and W."""
        features: list[Tensor] = []
        values = images.contiguous(memory_format=torch.channels_last)
        for level, block in enumerate(self.down):
            values = block(functional.max_pool2d(values, 2) if level else values)
            features.append(values)
        features.pop()
        for block in self.up:
            values = functional.interpolate(values, scale_factor=2.0, mode="nearest")
            values = block(torch.cat([values, features.pop()], dim=1))
        return cast(Tensor, self.head(values))

    def __call__(self, images: Tensor) -> Tensor:
        """See `forward`."""
        return cast(Tensor, super().__call__(images))


def _block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.GroupNorm(4, outputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.ReLU(inplace=True),
    )


FIRST_KERNEL, STRIDE = 5, 2
"""Pixels: edge of the first kernel, and stride of the first two convolutions."""

NEIGHBOURHOOD = 8
"""Pixels: edge of the squares whose means are the surroundings of a pixel."""


class Keypoints(nn.Module):
    """Learned keypoints of an image: their positions and its channels at them (Levine et al., 2016).

    A keypoint is the mean of a distribution over the image, the softmax of a channel of the last convolution.

    Args:
        shape: `(C, H, W)` of the image.
        count: Number of keypoints.
        channels: Channels of the first convolution; the second has twice as many.
        local_contrast: Whether keypoints are found in the difference between each pixel and its surroundings, which
            hardly depends on light and on the colours of large surfaces.
        color_jitter: In training, each channel of an image is multiplied by a random factor, which differs from 1 by at
            most this number.
    """

    columns: torch.Tensor
    rows: torch.Tensor

    def __init__(
        self,
        shape: tuple[int, ...],
        count: int,
        channels: int,
        *,
        local_contrast: bool = False,
        color_jitter: float = 0.0,
    ) -> None:
        super().__init__()
        self.local_contrast, self.color_jitter = local_contrast, color_jitter
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
        if self.training and self.color_jitter:
            factors = torch.rand(*image.shape[:2], 1, 1, device=image.device)
            image = image * (1.0 + self.color_jitter * (2.0 * factors - 1.0))
        if self.local_contrast:
            image = image - surroundings(image)
        attention = self.convolutions(image).flatten(2).softmax(-1)  # (n, K, cells)
        cells = self.pool(image).flatten(2)
        count = image.shape[0]  # of `len` an exported graph would keep the value
        positions = torch.stack([self.columns, self.rows], -1).expand(count, -1, -1)
        features: torch.Tensor = attention @ torch.cat([positions, cells.transpose(1, 2)], -1)
        return features.flatten(1)


def surroundings(image: torch.Tensor) -> torch.Tensor:
    """Return the smoothed images `(n, C, H, W)`: interpolated between the means of squares."""
    height, width = image.shape[2:]
    squares = max(1, height // NEIGHBOURHOOD), max(1, width // NEIGHBOURHOOD)
    means = functional.adaptive_avg_pool2d(image, squares)
    return functional.interpolate(means, size=(height, width), mode="bilinear", align_corners=False)


MIN_STD = 0.01
"""Lower bound of standard deviations, so that nearly constant numbers (noise) are not amplified."""

NEGLIGIBLE = 1e-8
"""Variance below which a number is masked: no data show its effect, and it may vary elsewhere, as in another engine."""

CLIP = 10.0
"""Bound of standardised numbers, in standard deviations."""


class Standardizer(nn.Module):
    """Standardises an array of the observation by the running mean and variance of all data so far.

    Numbers that do not vary become 0. Of an image, the mean image is subtracted, and a channel has a single variance:
    then small things that move stand out, and a network learns in hundreds of gradient steps to see them.

    Args:
        shape: Shape of the array.
        image: Whether it is an image `(C, H, W)`.
    """

    count: torch.Tensor
    mean: torch.Tensor
    variance: torch.Tensor

    def __init__(self, shape: tuple[int, ...], image: bool = False) -> None:
        super().__init__()
        self.image = image
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("variance", torch.ones(shape))

    def update(self, values: torch.Tensor) -> None:
        """Update mean and variance with values `(n, …)` (Chan et al., 1979)."""
        n, variance, mean = len(values), *torch.var_mean(values, dim=0, correction=0)
        difference, share = mean - self.mean, n / (self.count + n)
        self.variance += share * (variance - self.variance + (1 - share) * difference**2)
        self.mean += share * difference
        self.count += n

    def std(self) -> torch.Tensor:
        """Return the standard deviations by which values are divided."""
        return self._variance().sqrt().clamp(min=MIN_STD)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Standardise values `(n, …)`."""
        return ((values - self.mean) / self.std()).clamp(-CLIP, CLIP) * (self._variance() > NEGLIGIBLE)

    def _variance(self) -> torch.Tensor:
        return self.variance.mean((1, 2), keepdim=True) if self.image else self.variance


Built = TypeVar("Built")


def network_bytes(kind: str, network: nn.Module, conditions: Mapping[str, Any]) -> bytes:
    """Return the content of a file for `mygym KIND`; `conditions` is plain data, which `read_network` gives back."""
    tensors = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
    return save(tensors, {"kind": f"mygym {kind}", kind: json.dumps(conditions)})


def read_network(
    path: str | Path, key: str, kind: str, build: Callable[[dict[str, Any], dict[str, Tensor]], Built]
) -> Built:
    """Return the network in a file of `network_bytes`, which `build` makes of the conditions and the weights.

    Raises:
        ConfigError: The file is missing, or does not contain such a network.
    """
    allowed = f"a file of `mygym {kind} train`"
    try:
        with safe_open(Path(path).expanduser(), framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("kind") != f"mygym {kind}":
                why = f"does not contain {'an' if kind[0] in 'aeiou' else 'a'} {kind}"
                raise ConfigError(bad_value(key, str(path), allowed, why))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a mapping)
        return build(json.loads(metadata[kind]), tensors)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        missing = isinstance(error, FileNotFoundError)
        why = "does not exist" if missing else "cannot be read: it is damaged, or of another version"
        raise ConfigError(bad_value(key, str(path), allowed, why)) from None
