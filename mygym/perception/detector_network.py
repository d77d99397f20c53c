"""`DetectorNetwork`: for each pixel, the body that it shows, and the offset to the centre of that body."""

from __future__ import annotations

from torch import Tensor

from mygym.perception.unet import UNet

INPUTS = 6
"""Red, green, blue; x, y, z of the point that the pixel shows."""


class DetectorNetwork(UNet):
    """A U-Net whose offsets are votes for the centre of a body, as in PVN3D (https://arxiv.org/abs/1911.04231).

    Args:
        classes: Number of classes; 0 is the background.
    """

    def __init__(self, classes: int) -> None:
        super().__init__(INPUTS, classes + 3)
        self.classes = classes

    def bodies_and_votes(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and offsets of images.

        Args:
            inputs: `(n, 6, H, W)`; H and W are multiples of `mygym.perception.unet.DIVISOR`.

        Returns:
            Logits `(n, classes, H, W)`, and offsets `(n, 3, H, W)` in decimetres, world axes.
        """
        values = self(inputs)
        return values[:, : self.classes], values[:, self.classes :]
