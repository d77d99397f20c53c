"""`Encoder`: a few numbers for an image of a camera, by an autoencoder or a network of object positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from mygym.config.schema import ImageParams
from mygym.tasks.observations import CameraView, find_component
from mygym.types import FloatArray
from mygym.vision.networks import Keypoints, Standardizer, UNet, network_bytes, read_network

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
"""Weight of the last channel of images with depth. It alone shows the position along the optical axis; but, in standard
deviations, the depth of a small body differs less from the mean image than its colours do."""

LOG_VARIANCES = -10.0, 4.0
"""Range of the logarithms of the latents' variances."""


class EncoderNetwork(nn.Module):
    """Maps images `(C, H, W)` to latents: standardised image, keypoints, two layers."""

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
    """Variational autoencoder of images `(C, H, W)` (Kingma & Welling, 2014, https://arxiv.org/abs/1312.6114)."""

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


COLORS = 3
"""Channels of images without depth; the last channel of all others is the depth."""

MIN_VISIBLE_PIXELS = 2
"""Minimum number of pixels of a visible object."""


class ObjectEncoder(nn.Module):
    """Maps images to the positions of objects, which follow from the pixels that a U-Net assigns to them.

    The latents of an object are its mean position to the right, downwards and, if the images have depth, the mean
    depth, all in [-1, 1], then 1. They are 0 if the object is not visible.

    Args:
        shape: `(C, H, W)` of the images.
        classes: Number of classes of pixels; 0 is the background.
        objects: Class of each object.
    """

    columns: Tensor
    rows: Tensor
    of_objects: Tensor

    def __init__(self, shape: tuple[int, int, int], classes: int, objects: Sequence[int]) -> None:
        super().__init__()
        self.shape, self.classes, self.objects = shape, classes, tuple(objects)
        channels, height, width = shape
        self.has_depth = channels != COLORS
        self.latents = len(self.objects) * (4 if self.has_depth else 3)
        self.unet = UNet(channels, classes)
        columns, rows = ((2.0 * torch.arange(size) + 1.0) / size - 1.0 for size in (width, height))
        self.register_buffer("columns", columns.repeat(height), persistent=False)
        self.register_buffer("rows", rows.repeat_interleave(width), persistent=False)
        self.register_buffer("of_objects", torch.tensor(self.objects)[:, None, None], persistent=False)

    @property
    def arguments(self) -> dict[str, object]:
        """Arguments besides the shape."""
        return {"classes": self.classes, "objects": self.objects}

    def logits(self, images: Tensor) -> Tensor:
        """Return logits `(n, classes, H, W)` for images `(n, C, H, W)` in [0, 1]."""
        return self.unet(2.0 * images - 1.0)

    def forward(self, images: Tensor) -> Tensor:
        """Return the latents `(n, Z)` of images `(n, C, H, W)` in [0, 1]."""
        return self.positions(images, self.logits(images).argmax(1)).flatten(1)

    def positions(self, images: Tensor, classes: Tensor) -> Tensor:
        """Return latents `(n, objects, 3 or 4)` of images `(n, C, H, W)` with classes of their pixels `(n, H, W)`."""
        masks = (classes[:, None] == self.of_objects).flatten(2).float()  # (n, K, cells)
        coordinates = torch.stack([self.columns, self.rows], -1).expand(images.shape[0], -1, -1)
        if self.has_depth:
            depths = 2.0 * images[:, -1].flatten(1) - 1.0
            coordinates = torch.cat([coordinates, depths[..., None]], -1)
        pixels = masks.sum(-1, keepdim=True)
        visible = (pixels >= MIN_VISIBLE_PIXELS).float()
        means = masks @ coordinates / pixels.clamp(min=1.0)
        return torch.cat([means * visible, visible], -1)


KIND = "encoder"
"""Kind of the files, see `network_bytes`."""

NETWORKS = {"autoencoder": EncoderNetwork, "objects": ObjectEncoder}
"""Kind of the network → its class; the first argument is the shape of the images."""


@dataclass(frozen=True)
class Encoder:
    """A trained network with the conditions of its training."""

    network: EncoderNetwork | ObjectEncoder
    component: str
    """Observation component that gives its images, such as `rgbd`."""
    cameras: tuple[str, ...]
    """Cameras of its images."""
    images: ImageParams
    """Size, range of depths and goal of its images."""

    def encode(self, view: CameraView) -> FloatArray:
        """Return the latents `(Z,)` of a view of the size and the goal of `images`."""
        with torch.no_grad():
            latents: FloatArray = self.network(scaled(pixels_of(view, self.component)[None]))[0].double().numpy()
        return latents

    def to_bytes(self) -> bytes:
        """Return the content of a file."""
        kind = next(kind for kind, cls in NETWORKS.items() if isinstance(self.network, cls))
        conditions = {
            "network": kind,
            "arguments": self.network.arguments,
            "component": self.component,
            "cameras": self.cameras,
            "images": self.images.model_dump(mode="json"),
        }
        return network_bytes(KIND, self.network, conditions)


def pixels_of(view: CameraView, component: str) -> NDArray[Any]:
    """Return the image `(C, H, W)` uint8 of an observation component."""
    pixels: NDArray[Any] = find_component(component).function(view).transpose(2, 0, 1)
    return pixels


def scaled(images: NDArray[Any]) -> torch.Tensor:
    """Return images `(n, C, H, W)` uint8 as the network takes them, in [0, 1]."""
    return torch.from_numpy(images).float() / 255.0


def load_encoder(path: str | Path, key: str) -> Encoder:
    """Return the encoder in a file.

    Raises:
        ConfigError: The file is missing, or does not contain an encoder.
    """
    return read_network(path, key, KIND, _build)


def _build(conditions: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Encoder:
    images, component = ImageParams(**conditions["images"]), conditions["component"]
    shape = find_component(component).channels, images.height, images.width
    network = NETWORKS[conditions["network"]](shape, **conditions["arguments"])
    network.load_state_dict(tensors)
    return Encoder(network.eval(), component, tuple(conditions["cameras"]), images)
