"""`UNet`: numbers for each pixel of an image, from the pixel and its surroundings."""

from __future__ import annotations

import itertools
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

CHANNELS = (8, 16, 32, 48)
"""Channels at the full size, and at each half of it."""

DIVISOR = 2 ** (len(CHANNELS) - 1)
"""The width and the height of images are multiples of this number."""


class UNet(nn.Module):
    """A U-Net (Ronneberger et al., 2015, https://arxiv.org/abs/1505.04597), small enough for a processor.

    Args:
        inputs: Channels of the images.
        outputs: Count of numbers for each pixel.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(_block(first, second) for first, second in itertools.pairwise([inputs, *CHANNELS]))
        pairs = list(itertools.pairwise(CHANNELS))
        self.up = nn.ModuleList(_block(below + here, here) for here, below in reversed(pairs))
        self.head = nn.Conv2d(CHANNELS[0], outputs, 1)
        super().to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # 1.3 times faster

    def forward(self, images: Tensor) -> Tensor:
        """Return numbers `(n, outputs, H, W)` for images `(n, inputs, H, W)`; H and W are multiples of `DIVISOR`."""
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
