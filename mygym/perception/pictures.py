"""`Pictures`: recorded images as an encoder takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from mygym.perception.encoder import pixels_of, scaled
from mygym.perception.fitting import BATCH
from mygym.perception.recorded import Images
from mygym.tasks.camera_view import CameraView

Pixels = NDArray[np.uint8]
"""`(n, C, H, W)`."""


class Pictures(NamedTuple):
    """Recorded images as an encoder takes them."""

    pixels: Pixels
    images: Images


def pictures(images: Images, component: str) -> Pictures:
    """Return recorded images with the pixels of an observation component."""
    pairs = zip(images.frames, images.depth_ranges, strict=True)
    pixels = [pixels_of(CameraView(frame, depth_range, ()), component) for frame, depth_range in pairs]
    return Pictures(np.stack(pixels), images)


def batches(images: Pixels) -> list[Pixels]:
    """Return images in minibatches."""
    return np.array_split(images, -(-len(images) // BATCH))


def over_batches(function: Callable[[torch.Tensor], torch.Tensor], images: Pixels) -> NDArray[Any]:
    """Return the results of a network for images, computed for one minibatch after another."""
    with torch.no_grad():
        results: NDArray[Any] = np.concatenate([function(scaled(batch)).numpy() for batch in batches(images)])
    return results
