"""`Detector`: bodies in frames of a camera, and positions of objects."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mygym.tasks.observations import Frame, Image
from mygym.types import FloatArray
from mygym.vision.networks import UNet, network_bytes, read_network

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
        """Return logits `(n, classes, H, W)` and offsets `(n, 3, H, W)` in dm, world axes, of images `(n, 6, H, W)`."""
        values = self(inputs)
        return values[:, : self.classes], values[:, self.classes :]


KIND = "detector"
"""Kind of the files, see `network_bytes`."""

MAX_COORDINATE = 1.5
"""m: coordinates of points are clipped to ± this; pixels that show nothing have the largest."""

DECIMETRES = 10.0
"""The network's offsets are in decimetres, so that they are of the order of 1."""

MIN_VISIBLE_PIXELS = 3
"""Minimum number of pixels of a visible object."""

Pixels = NDArray[np.int64]
"""`(H, W)`: number of a class for each pixel."""


@dataclass(frozen=True)
class Detection:
    """Bodies in a frame."""

    classes: Pixels
    """`(H, W)`: 0 for the background, else 1 + the index in `Detector.categories`."""
    positions: dict[str, FloatArray]
    """Visible object → estimate of its centre of mass, `(3,)` m, world frame."""
    pixels: dict[str, int]
    """Visible object → number of its pixels."""


@dataclass(frozen=True)
class Detector:
    """A trained network with the conditions of its training.

    It needs the depth and the pose of the camera, as a calibrated depth camera gives them.
    """

    network: DetectorNetwork
    categories: tuple[str, ...]
    """Names of the bodies that it knows."""
    objects: tuple[str, ...]
    """Categories whose positions it estimates."""
    cameras: tuple[str, ...]
    """Cameras of its images."""
    width: int
    """Pixels."""
    height: int
    """Pixels."""

    def detect(self, frame: Frame) -> Detection:
        """Return the bodies in a frame of the detector's size.

        The position of an object is the median of the votes of its pixels.
        """
        points = frame.points()
        with torch.no_grad():
            logits, offsets = self.network.bodies_and_votes(torch.from_numpy(network_input(frame.rgb, points)[None]))
        classes: Pixels = logits[0].argmax(0).numpy()
        votes = points + offsets[0].numpy().transpose(1, 2, 0) / DECIMETRES
        positions, pixels = {}, {}
        for name in self.objects:
            of_object = votes[classes == 1 + self.categories.index(name)]
            of_object = of_object[np.isfinite(of_object).all(-1)]
            if len(of_object) >= MIN_VISIBLE_PIXELS:
                positions[name], pixels[name] = np.median(of_object, axis=0), len(of_object)
        return Detection(classes, positions, pixels)

    def to_bytes(self) -> bytes:
        """Return the content of a file: safetensors, with the conditions in its metadata."""
        conditions = {
            "categories": self.categories,
            "objects": self.objects,
            "cameras": self.cameras,
            "width": self.width,
            "height": self.height,
        }
        return network_bytes(KIND, self.network, conditions)


def network_input(rgb: Image, points: FloatArray) -> NDArray[np.float32]:
    """Return `(6, H, W)`: colours from -1 to 1, and points in m.

    Args:
        rgb: `(H, W, 3)` uint8.
        points: `(H, W, 3)` m, world frame, see `Frame.points`.
    """
    values = np.empty((INPUTS, *rgb.shape[:2]), dtype=np.float32)
    values[:3] = rgb.transpose(2, 0, 1) / 127.5 - 1.0
    values[3:] = np.clip(np.nan_to_num(points, nan=MAX_COORDINATE), -MAX_COORDINATE, MAX_COORDINATE).transpose(2, 0, 1)
    return values


def load_detector(path: str | Path, key: str) -> Detector:
    """Return the detector in a file.

    Raises:
        ConfigError: The file is missing, or does not contain a detector.
    """
    return read_network(path, key, KIND, _build)


def _build(conditions: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Detector:
    network = DetectorNetwork(1 + len(conditions["categories"]))
    network.load_state_dict(tensors)
    names = {name: tuple(conditions[name]) for name in ("categories", "objects", "cameras")}
    return Detector(network.eval(), **names, width=conditions["width"], height=conditions["height"])
