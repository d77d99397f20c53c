"""Training of autoencoders on recorded images, and their errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from mygym.perception.encoder import EncoderErrors, scaled
from mygym.perception.fitting import BATCH, class_weights, fit, mean_over_batches
from mygym.perception.pictures import Pictures, batches, over_batches
from mygym.perception.vae import VAE
from mygym.types import FloatArray

HIGHEST_RATE = 3e-3
"""Highest learning rate."""

SMALL_CLASSES = 1.0
"""Exponent of the classes' inverse shares that weight the errors of pixels: each body has the same weight, however few
pixels it has. An autoencoder without weights ignores small bodies, which cost it little."""

NEIGHBOURHOOD = 5
"""Pixels: edge of the square around each pixel whose largest weight the pixel gets in the end. At first, only the
pixels of a body have its weight: painting the body roughly where it is lowers the loss, and the network learns to find
it. Then a body that is painted too large raises it, and its position becomes exact."""

SHARPENING = 0.4, 0.7
"""Shares of the steps between which the weights of the neighbours rise."""

RIDGE = 1e-3
"""Weight of the squared coefficients of a probe, for standardised latents."""


def train_vae(
    train: Pictures,
    validation: Pictures,
    classes: int,
    latents: int,
    *,
    steps: int,
    seed: int = 0,
    after_step: Callable[[int, float, float | None], None],
) -> VAE:
    """Return an autoencoder of the least validation loss.

    Args:
        train: Images to train on.
        validation: Images to choose by.
        classes: Number of classes of pixels, with the background.
        latents: Number of latents.
        steps: Minibatches.
        seed: Seed of weights and minibatches.
        after_step: See `fit`.
    """
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    _, channels, height, width = train.pixels.shape
    vae = VAE((channels, height, width), latents)
    for batch in batches(train.pixels):
        vae.encoder.standardizer.update(scaled(batch))
    weights = class_weights(train.images.classes, classes, SMALL_CLASSES)

    def loss_of(pictures: Pictures, rows: NDArray[np.int64], sharpness: float) -> torch.Tensor:
        of_pixels = weights[torch.from_numpy(pictures.images.classes[rows].astype(np.int64))]
        around = functional.max_pool2d(of_pixels, NEIGHBOURHOOD, stride=1, padding=NEIGHBOURHOOD // 2)
        of_pixels = torch.lerp(of_pixels, around, sharpness)
        return vae.loss(scaled(pictures.pixels[rows]), of_pixels / of_pixels.mean())

    sharpness = iter(np.interp(np.arange(steps) / steps, SHARPENING, (0.0, 1.0)))

    def loss() -> torch.Tensor:
        return loss_of(train, rng.integers(len(train.pixels), size=BATCH), float(next(sharpness)))

    def validation_loss() -> float:
        return mean_over_batches(len(validation.pixels), lambda rows: loss_of(validation, rows, 1.0))

    fit(vae, loss, validation_loss, steps=steps, highest_rate=HIGHEST_RATE, after_step=after_step)
    return vae


def measure_vae(vae: VAE, train: Pictures, test: Pictures, objects: Mapping[str, int]) -> list[EncoderErrors]:
    """Return the errors of an autoencoder on the images of a test, for each camera and object.

    Args:
        vae: The autoencoder.
        train: Images from which the positions are learned as linear functions of the latents.
        test: Images to measure.
        objects: Name of each object → its column in `Images.positions`.
    """
    rows = []
    latents, latents_of_test = (over_batches(vae.encoder, each.pixels) for each in (train, test))
    errors = scaled(test.pixels).numpy() - over_batches(vae.reconstructed, test.pixels)
    for camera in dict.fromkeys(test.images.cameras):
        here, here_in_test = (np.array([each == camera for each in of.images.cameras]) for of in (train, test))
        count, squares = int(here_in_test.sum()), errors[here_in_test] ** 2
        of_camera = EncoderErrors(camera, count, 255.0 * float(np.sqrt(squares.mean())))
        of_objects = []
        for name, column in objects.items():
            positions, true = (each.images.positions[:, column] for each in (train, test))
            fitted, measured = here & np.isfinite(positions[:, 0]), here_in_test & np.isfinite(true[:, 0])
            if fitted.any() and measured.any():
                estimates = _linear(latents[fitted], positions[fitted], latents_of_test[measured])
                distances = np.linalg.norm(estimates - true[measured], axis=1)
                mean, worst = float(distances.mean()), float(np.percentile(distances, 95))
                of_objects.append(replace(of_camera, name=name, mean=mean, worst=worst))
        rows += of_objects or [of_camera]
    return rows


def _linear(latents: NDArray[np.float32], positions: FloatArray, of_test: NDArray[np.float32]) -> FloatArray:
    """Return positions `(m, 3)` for latents `(m, Z)` of a test, by a ridge regression on latents and positions."""
    mean, std = latents.mean(0), np.maximum(latents.std(0), 1e-6)
    inputs, middle = (latents - mean) / std, positions.mean(0)
    penalty = RIDGE * len(inputs) * np.eye(inputs.shape[1])
    weights = np.linalg.solve(inputs.T @ inputs + penalty, inputs.T @ (positions - middle))
    estimates: FloatArray = ((of_test - mean) / std) @ weights + middle
    return estimates
