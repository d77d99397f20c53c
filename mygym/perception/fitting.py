"""Training of a network by minibatches; keeps the weights with the lowest validation loss."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

BATCH = 16
"""Images in a minibatch."""

RISING = 0.1
"""Share of the steps in which the learning rate rises; then it falls."""

REPORTS = 20
"""Number of reports during a training."""

SEGMENTATION_EXPONENT = 0.5
"""Exponent of the classes' inverse shares that weight the cross-entropy of pixels: without weights, an object of a few
pixels costs little."""

COLOR_CHANGE = 0.15
"""Contrast and brightness of each image change by up to this share."""


def fit(
    network: nn.Module,
    loss: Callable[[], Tensor],
    validation_loss: Callable[[], float],
    *,
    steps: int,
    highest_rate: float,
    after_step: Callable[[int, float, float | None], None],
) -> None:
    """Train a network, and give it the weights that had the least validation loss; it is then in evaluation mode.

    Args:
        network: The network.
        loss: Returns the loss of a new minibatch.
        validation_loss: Returns the loss of the validation images, by which the weights are chosen; called without
            gradients, in evaluation mode.
        steps: Minibatches.
        highest_rate: Highest learning rate.
        after_step: Called after each step with the number of the step, its loss, and the validation loss, which is
            measured about `REPORTS` times, else None.
    """
    optimizer = torch.optim.Adam(network.parameters(), highest_rate)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, highest_rate, total_steps=max(steps, 2), pct_start=RISING
    )
    every = math.ceil(steps / REPORTS)
    best, least = copy.deepcopy(network.state_dict()), math.inf
    for step in range(1, steps + 1):
        value = loss()
        optimizer.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        scheduler.step()
        error = None
        if step % every == 0 or step == steps:
            network.eval()
            with torch.no_grad():
                error = validation_loss()
            network.train()
            if error < least:
                best, least = copy.deepcopy(network.state_dict()), error
        after_step(step, float(value.detach()), error)
    network.load_state_dict(best)
    network.eval()


def mean_over_batches(count: int, loss: Callable[[NDArray[np.int64]], Tensor]) -> float:
    """Return the mean of a loss over `count` images, computed for the rows of one minibatch after another."""
    batches = np.array_split(np.arange(count), math.ceil(count / BATCH))
    return sum(float(loss(rows)) * len(rows) for rows in batches) / count


def class_weights(classes: NDArray[np.uint8], count: int, exponent: float) -> Tensor:
    """Return weights of the classes of pixels, with a mean of 1 for the pixels.

    Args:
        classes: `(n, H, W)`: class of each pixel.
        count: Number of classes.
        exponent: 0: each pixel has the same weight; 1: each class has the same weight.

    Returns:
        `(count,)`.
    """
    shares = np.bincount(classes.ravel(), minlength=count) / classes.size
    weights = np.maximum(shares, 1.0 / classes[0].size) ** -exponent
    return torch.tensor(weights / (weights * shares).sum(), dtype=torch.float32)


def recolored(colors: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return colours with another contrast and brightness."""
    contrast, brightness = 1.0 + rng.uniform(-COLOR_CHANGE, COLOR_CHANGE, 2)
    changed: NDArray[np.uint8] = np.clip((colors - 127.5) * contrast + 127.5 * brightness, 0, 255).astype(np.uint8)
    return changed
