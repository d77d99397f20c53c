"""`VAE`: a variational autoencoder of images, whose latents follow from learned keypoints."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from mygym.perception.keypoints import Keypoints
from mygym.perception.standardizer import Standardizer

KEYPOINTS, CHANNELS = 32, 16
"""Number of keypoints, and channels of their first convolution."""

HIDDEN = 256
"""Size of the hidden layers between keypoints and latents, and between latents and the decoder's first grid."""

WIDTH = 32
"""Channels of the decoder."""

DIVISOR = 8
"""The width and the height of images are multiples of this number: the decoder doubles its grid three times."""

KL_WEIGHT = 3e-4
"""Weight of the divergence from a normal distribution, in nats, relative to the mean squared error of a pixel."""

DEPTH_CHANNELS = 4
"""Channels of images whose last channel is the depth."""

DEPTH_WEIGHT = 10.0
"""Weight of the last channel of images with depth: of a small body, the depth differs less from the mean image than the
colours do, in deviations, and the position along the optical axis follows from it alone."""

LOG_VARIANCES = -10.0, 4.0
"""Range of the logarithms of the latents' variances."""


class EncoderNetwork(nn.Module):
    """Maps images to latents: standardised image, keypoints, two layers.

    Args:
        shape: `(C, H, W)` of the images.
        latents: Number of latents.
    """

    def __init__(self, shape: tuple[int, int, int], latents: int) -> None:
        super().__init__()
        self.shape, self.latents = shape, latents
        self.standardizer = Standardizer(shape, image=True)
        self.keypoints = Keypoints(shape, KEYPOINTS, CHANNELS)
        self.head = nn.Sequential(nn.Linear(self.keypoints.features, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2 * latents))

    @property
    def arguments(self) -> dict[str, object]:
        """Arguments besides the shape."""
        return {"latents": self.latents}

    def posterior(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return means and log variances `(n, Z)` of the latents of images `(n, C, H, W)` in [0, 1]."""
        mean, log_variance = self.head(self.keypoints(self.standardizer(images))).chunk(2, dim=1)
        return mean, log_variance.clamp(*LOG_VARIANCES)

    def forward(self, images: Tensor) -> Tensor:
        """Return the latents `(n, Z)` of images `(n, C, H, W)` in [0, 1]: the means of their distributions."""
        return self.posterior(images)[0]


class VAE(nn.Module):
    """Variational autoencoder (Kingma & Welling, 2014, https://arxiv.org/abs/1312.6114).

    Args:
        shape: `(C, H, W)` of the images.
        latents: Number of latents.
    """

    of_channels: Tensor
    """`(C,)`: weights of the errors of channels; their sum is 1."""

    def __init__(self, shape: tuple[int, int, int], latents: int) -> None:
        super().__init__()
        channels, height, width = shape
        grid = (WIDTH, height // DIVISOR, width // DIVISOR)
        self.encoder = EncoderNetwork(shape, latents)
        of_channels = torch.ones(channels)
        if channels == DEPTH_CHANNELS:
            of_channels[-1] = DEPTH_WEIGHT
        self.register_buffer("of_channels", of_channels / of_channels.sum(), persistent=False)
        self.decoder = nn.Sequential(
            nn.Linear(latents, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, grid[0] * grid[1] * grid[2]),
            nn.ReLU(),
            nn.Unflatten(1, grid),
            *_doubled(WIDTH, WIDTH),
            nn.ReLU(),
            *_doubled(WIDTH, WIDTH // 2),
            nn.ReLU(),
            *_doubled(WIDTH // 2, channels),
        )

    def reconstructed(self, images: Tensor) -> Tensor:
        """Return images `(n, C, H, W)` in [0, 1] as the decoder paints them from their latents."""
        standardizer = self.encoder.standardizer
        pixels: Tensor = self.decoder(self.encoder(images)) * standardizer.std() + standardizer.mean
        return pixels.clamp(0.0, 1.0)

    def loss(self, images: Tensor, weights: Tensor) -> Tensor:
        """Return the loss of images: weighted squared error of standardised pixels, and divergence.

        Args:
            images: `(n, C, H, W)` in [0, 1].
            weights: `(n, H, W)`, with a mean of about 1: weight of each pixel.
        """
        mean, log_variance = self.encoder.posterior(images)
        noise = torch.randn_like(mean) if self.training else torch.zeros_like(mean)
        painted = self.decoder(mean + noise * (log_variance / 2).exp())
        errors = functional.mse_loss(painted, self.encoder.standardizer(images), reduction="none")
        errors = torch.einsum("nchw,c->nhw", errors, self.of_channels)
        divergence = (mean**2 + log_variance.exp() - 1.0 - log_variance).sum(1).mean() / 2
        return (weights * errors).mean() + KL_WEIGHT * divergence


def _doubled(channels: int, outputs: int) -> tuple[nn.Module, nn.Module]:
    """Return layers that double the grid (Shi et al., 2016, https://arxiv.org/abs/1609.05158)."""
    return nn.Conv2d(channels, 4 * outputs, 3, padding=1), nn.PixelShuffle(2)
