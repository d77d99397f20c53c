"""`Standardizer`: mean and variance of the inputs of a network."""

from __future__ import annotations

import torch
from torch import nn

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
