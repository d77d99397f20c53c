"""Training of encoders of objects on recorded images, and their errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from mygym.perception.encoder import EncoderErrors, scaled
from mygym.perception.fitting import BATCH, SEGMENTATION_EXPONENT, class_weights, fit, mean_over_batches, recolored
from mygym.perception.object_encoder import COLORS, ObjectEncoder
from mygym.perception.pictures import Pictures, Pixels, over_batches
from mygym.types import FloatArray

HIGHEST_RATE = 5e-3
"""Highest learning rate."""


def train_object_encoder(
    train: Pictures,
    validation: Pictures,
    categories: int,
    objects: Mapping[str, int],
    *,
    steps: int,
    seed: int = 0,
    after_step: Callable[[int, float, float | None], None],
) -> ObjectEncoder:
    """Return an encoder of objects of the least validation loss.

    Args:
        train: Images to train on.
        validation: Images to choose by.
        categories: Number of categories of bodies.
        objects: Name of each object → index of its category.
        steps: Minibatches.
        seed: Seed of weights and minibatches.
        after_step: See `fit`.
    """
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    _, channels, height, width = train.pixels.shape
    encoder = ObjectEncoder((channels, height, width), 1 + categories, [1 + index for index in objects.values()])
    weights = class_weights(train.images.classes, 1 + categories, SEGMENTATION_EXPONENT)

    def loss_of(pixels: Pixels, classes: NDArray[np.uint8]) -> torch.Tensor:
        return functional.cross_entropy(encoder.logits(scaled(pixels)), _as_classes(classes), weights)

    def loss() -> torch.Tensor:
        rows = rng.integers(len(train.pixels), size=BATCH)
        pixels = train.pixels[rows]
        if channels >= COLORS:
            for image in pixels:
                image[:COLORS] = recolored(image[:COLORS], rng)
        return loss_of(pixels, train.images.classes[rows])

    def validation_loss() -> float:
        return mean_over_batches(
            len(validation.pixels), lambda rows: loss_of(validation.pixels[rows], validation.images.classes[rows])
        )

    fit(encoder, loss, validation_loss, steps=steps, highest_rate=HIGHEST_RATE, after_step=after_step)
    return encoder


def estimated_classes(encoder: ObjectEncoder, images: Pixels) -> NDArray[np.int64]:
    """Return the class of each pixel `(n, H, W)` of images."""
    return over_batches(lambda batch: encoder.logits(batch).argmax(1), images)


def measure_object_encoder(encoder: ObjectEncoder, test: Pictures, objects: Mapping[str, int]) -> list[EncoderErrors]:
    """Return the errors of an encoder of objects on the images of a test, for each camera and object.

    Args:
        encoder: The encoder.
        test: Images to measure.
        objects: See `train_object_encoder`.
    """
    images, true_classes = scaled(test.pixels), _as_classes(test.images.classes)
    true, estimated = (
        encoder.positions(images, classes).numpy()
        for classes in (true_classes, torch.from_numpy(estimated_classes(encoder, test.pixels)))
    )
    rows = []
    for camera in dict.fromkeys(test.images.cameras):
        of_camera = np.array([each == camera for each in test.images.cameras])
        for number, (name, category) in enumerate(objects.items()):
            shown = of_camera & (true[:, number, -1] > 0)
            if not shown.any():
                continue
            seen = shown & (estimated[:, number, -1] > 0)
            masks = test.images.classes == 1 + category
            distances = [
                _distance(test, row, masks[row], true[row, number], estimated[row, number])
                for row in np.flatnonzero(seen).tolist()
            ]
            mean, worst = (
                (float(np.mean(distances)), float(np.percentile(distances, 95))) if distances else (None, None)
            )
            count, share = int(shown.sum()), float(seen.sum() / shown.sum())
            rows.append(EncoderErrors(camera, count, name=name, seen=share, mean=mean, worst=worst))
    return rows


def _distance(test: Pictures, row: int, mask: NDArray[np.bool_], true: FloatArray, estimated: FloatArray) -> float:
    """Return the distance between two positions in an image, m; without depth, that across the optical axis.

    Args:
        test: The images.
        row: Number of the image.
        mask: `(H, W)`: pixels of the object.
        true: Latents of the object by these pixels.
        estimated: Latents of the object.
    """
    frame, (near, far) = test.images.frames[row], test.images.depth_ranges[row]
    tangents = np.array(frame.depth.shape[::-1]) / 2 / frame.focal
    depth = float(np.clip(frame.depth[mask], near, far).mean())
    has_depth = len(true) > COLORS
    estimated_depth = depth + (estimated[2] - true[2]) / 2 * (far - near) if has_depth else depth
    across = tangents * (estimated[:2] * estimated_depth - true[:2] * depth)
    return float(np.hypot(np.linalg.norm(across), estimated_depth - depth))


def _as_classes(classes: NDArray[np.uint8]) -> torch.Tensor:
    return torch.from_numpy(classes.astype(np.int64))
