"""Training of detectors on recorded images, and their errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from mygym.perception.detector import DECIMETRES, MIN_VISIBLE_PIXELS, Detector, network_input
from mygym.perception.detector_network import DetectorNetwork
from mygym.perception.fitting import BATCH, SEGMENTATION_EXPONENT, class_weights, fit, mean_over_batches, recolored
from mygym.perception.recorded import Images

HIGHEST_RATE = 5e-3
"""Highest learning rate."""

OFFSET_WEIGHT = 2.0
"""Weight of the mean error of the votes, in decimetres."""


@dataclass(frozen=True)
class Errors:
    """Errors of a detector for the images of a camera that show an object."""

    camera: str
    name: str
    images: int
    seen: float
    """Share of the images in which the detector sees the object."""
    mean: float | None
    """m: mean distance between estimated and true position where the object is seen; None: it is seen nowhere."""
    worst: float | None
    """m: 95th percentile of this distance."""
    overlap: float | None
    """Mean intersection over union of the estimated and the true mask."""


def train_network(
    images: Images,
    validation: Images,
    classes: int,
    *,
    steps: int,
    seed: int = 0,
    after_step: Callable[[int, float, float | None], None],
) -> DetectorNetwork:
    """Return a network of the least validation loss.

    Args:
        images: Images to train on.
        validation: Images to choose by.
        classes: Number of classes, with the background.
        steps: Minibatches.
        seed: Seed of weights and minibatches.
        after_step: See `fit`.
    """
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    network = DetectorNetwork(classes)
    weight = class_weights(images.classes, classes, SEGMENTATION_EXPONENT)

    def loss() -> torch.Tensor:
        rows = rng.integers(len(images.frames), size=BATCH)
        return _loss(network, *_batch(images, rows, rng), weight)

    def validation_loss() -> float:
        return mean_over_batches(
            len(validation.frames), lambda rows: _loss(network, *_batch(validation, rows, None), weight)
        )

    fit(network, loss, validation_loss, steps=steps, highest_rate=HIGHEST_RATE, after_step=after_step)
    return network


def _batch(
    images: Images, rows: NDArray[np.int64], rng: np.random.Generator | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return inputs `(n, 6, H, W)`, classes `(n, H, W)`, and offsets `(n, 3, H, W)` in decimetres, NaN without one."""
    inputs, offsets = [], []
    for row in rows.tolist():
        frame = images.frames[row]
        points = frame.points()
        rgb = frame.rgb if rng is None else recolored(frame.rgb, rng)
        inputs.append(network_input(rgb, points))
        centres = np.concatenate([np.full((1, 3), np.nan), images.positions[row]])[images.classes[row]]
        offsets.append((DECIMETRES * (centres - points)).transpose(2, 0, 1).astype(np.float32))
    classes = torch.from_numpy(images.classes[rows].astype(np.int64))
    return torch.from_numpy(np.stack(inputs)), classes, torch.from_numpy(np.stack(offsets))


def _loss(
    network: DetectorNetwork, inputs: torch.Tensor, classes: torch.Tensor, offsets: torch.Tensor, weight: torch.Tensor
) -> torch.Tensor:
    logits, votes = network.bodies_and_votes(inputs)
    loss = functional.cross_entropy(logits, classes, weight)
    known = torch.isfinite(offsets)
    if known.any():
        loss = loss + OFFSET_WEIGHT * functional.l1_loss(votes[known], offsets[known])
    return loss


def measure(detector: Detector, images: Images) -> list[Errors]:
    """Return the errors of a detector, for each camera and object.

    Args:
        detector: The detector.
        images: Images of the detector's size and categories.
    """
    detections = [detector.detect(frame) for frame in images.frames]
    rows = []
    for camera in detector.cameras:
        for name in detector.objects:
            number = detector.categories.index(name)
            distances, overlaps, shown = [], [], 0
            for row, detection in enumerate(detections):
                mask = images.classes[row] == 1 + number
                if images.cameras[row] != camera or mask.sum() < MIN_VISIBLE_PIXELS:
                    continue
                shown += 1
                if name in detection.positions:
                    estimate = detection.classes == 1 + number
                    difference = detection.positions[name] - images.positions[row, number]
                    distances.append(float(np.linalg.norm(difference)))
                    overlaps.append(float((estimate & mask).sum() / (estimate | mask).sum()))
            if distances:
                mean, worst = float(np.mean(distances)), float(np.percentile(distances, 95))
                seen = len(distances) / shown
                rows.append(Errors(camera, name, shown, seen, mean, worst, float(np.mean(overlaps))))
            elif shown:
                rows.append(Errors(camera, name, shown, 0.0, None, None, None))
    return rows
