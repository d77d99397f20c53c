"""`ObjectEncoder`: positions of objects in an image."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mygym.perception.unet import UNet

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
        """Return the latents `(n, objects, 3 or 4)` of images whose pixels have known classes.

        Args:
            images: `(n, C, H, W)` in [0, 1].
            classes: `(n, H, W)` int64.
        """
        masks = (classes[:, None] == self.of_objects).flatten(2).float()  # (n, K, cells)
        coordinates = torch.stack([self.columns, self.rows], -1).expand(images.shape[0], -1, -1)
        if self.has_depth:
            depths = 2.0 * images[:, -1].flatten(1) - 1.0
            coordinates = torch.cat([coordinates, depths[..., None]], -1)
        pixels = masks.sum(-1, keepdim=True)
        visible = (pixels >= MIN_VISIBLE_PIXELS).float()
        means = masks @ coordinates / pixels.clamp(min=1.0)
        return torch.cat([means * visible, visible], -1)
