"""`Keypoints`: the network that finds learned keypoints in an image."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

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
