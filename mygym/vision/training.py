"""Training of detectors and encoders: minibatches, the fitting loop, losses and errors."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from mygym.tasks.observations import CameraView, Frame
from mygym.types import FloatArray
from mygym.vision.detector import DECIMETRES, MIN_VISIBLE_PIXELS, Detector, DetectorNetwork, network_input
from mygym.vision.encoder import COLORS, VAE, ObjectEncoder, pixels_of, scaled

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


Rows = NDArray[np.int64]
"""Numbers of the images of a minibatch."""

AfterStep = Callable[[int, float, float | None], None]
"""Called after each step with the number of the step, its loss, and the validation loss, which is measured about
`REPORTS` times, else None."""


Loss = Callable[[Rows, np.random.Generator | None], Tensor]
"""Function of a minibatch of images to train on, which the generator varies; without it, of validation images."""


def fit(
    network: nn.Module,
    loss: Loss,
    counts: tuple[int, int],
    *,
    seed: int,
    steps: int,
    highest_rate: float,
    after_step: AfterStep,
) -> None:
    """Train a network, and give it the weights that had the least validation loss; it is then in evaluation mode.

    Args:
        network: The network.
        loss: Returns the loss of a minibatch; the mean over the validation images, without gradients and in evaluation
            mode, chooses the weights.
        counts: Numbers of images to train on and of validation images.
        seed: Seed of the minibatches.
        steps: Minibatches.
        highest_rate: Highest learning rate.
        after_step: See `AfterStep`.
    """
    rng = np.random.default_rng(seed)
    optimizer = torch.optim.Adam(network.parameters(), highest_rate)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, highest_rate, total_steps=max(steps, 2), pct_start=RISING
    )
    every = math.ceil(steps / REPORTS)
    validation = np.array_split(np.arange(counts[1]), math.ceil(counts[1] / BATCH))
    best, least = copy.deepcopy(network.state_dict()), math.inf
    for step in range(1, steps + 1):
        value = loss(rng.integers(counts[0], size=BATCH), rng)
        optimizer.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        scheduler.step()
        error = None
        if step % every == 0 or step == steps:
            network.eval()
            with torch.no_grad():
                error = sum(float(loss(rows, None)) * len(rows) for rows in validation) / counts[1]
            network.train()
            if error < least:
                best, least = copy.deepcopy(network.state_dict()), error
        after_step(step, float(value.detach()), error)
    network.load_state_dict(best)
    network.eval()


def class_weights(classes: NDArray[np.uint8], count: int, exponent: float) -> Tensor:
    """Return weights `(count,)` of the classes of pixels, with a mean of 1 for the pixels.

    Args:
        classes: `(n, H, W)`: class of each pixel.
        count: Number of classes.
        exponent: 0: each pixel has the same weight; 1: each class has the same weight.
    """
    shares = np.bincount(classes.ravel(), minlength=count) / classes.size
    weights = np.maximum(shares, 1.0 / classes[0].size) ** -exponent
    return torch.tensor(weights / (weights * shares).sum(), dtype=torch.float32)


def recolored(colors: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return colours with another contrast and brightness."""
    contrast, brightness = 1.0 + rng.uniform(-COLOR_CHANGE, COLOR_CHANGE, 2)
    changed: NDArray[np.uint8] = np.clip((colors - 127.5) * contrast + 127.5 * brightness, 0, 255).astype(np.uint8)
    return changed


@dataclass(frozen=True)
class Images:
    """Recorded images of one size, with the bodies that they show."""

    frames: Sequence[Frame]
    """Segmentation and labels of the frames are not used."""
    classes: NDArray[np.uint8]
    """`(n, H, W)`: 0 for the background, else 1 + the index in the categories."""
    positions: FloatArray
    """`(n, categories, 3)` m, world frame: centres of the objects; NaN for other bodies and for objects that are not
    visible."""
    cameras: Sequence[str]
    """Camera of each image."""
    depth_ranges: Sequence[tuple[float, float]]
    """m: distances with the depths 0 and 255 in observations, of each image."""


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


VAE_HIGHEST_RATE = 3e-3
"""Highest learning rate."""

SMALL_CLASSES = 1.0
"""Exponent of the classes' inverse shares that weight the errors of pixels: each body has the same weight, however few
pixels it has. An autoencoder without weights ignores small bodies, which cost it little."""

NEIGHBOURHOOD = 5
"""Pixels: edge of the square around each pixel; in the end, the pixel gets the largest weight in it. At first, only the
pixels of a body have its weight: it lowers the loss to paint the body roughly where it is, so the network learns to
find it. Later, a body that is painted too large raises the loss, so its position becomes exact."""

SHARPENING = 0.4, 0.7
"""Shares of the steps between which the weights of the neighbours rise."""

RIDGE = 1e-3
"""Weight of the squared coefficients of a probe, for standardised latents."""


def train_vae(
    train: Pictures, validation: Pictures, classes: int, latents: int, *, steps: int, seed: int, after_step: AfterStep
) -> VAE:
    """Return an autoencoder of the least validation loss; `classes` of pixels include the background."""
    torch.manual_seed(seed)
    _, channels, height, width = train.pixels.shape
    vae = VAE((channels, height, width), latents)
    for batch in batches(train.pixels):
        vae.encoder.standardizer.update(scaled(batch))
    weights = class_weights(train.images.classes, classes, SMALL_CLASSES)
    sharpening = iter(np.interp(np.arange(steps) / steps, SHARPENING, (0.0, 1.0)))

    def loss(rows: Rows, rng: np.random.Generator | None) -> torch.Tensor:
        split, sharpness = (validation, 1.0) if rng is None else (train, float(next(sharpening)))
        of_pixels = weights[_as_classes(split.images.classes[rows])]
        around = functional.max_pool2d(of_pixels, NEIGHBOURHOOD, stride=1, padding=NEIGHBOURHOOD // 2)
        of_pixels = torch.lerp(of_pixels, around, sharpness)
        return vae.loss(scaled(split.pixels[rows]), of_pixels / of_pixels.mean())

    counts = len(train.pixels), len(validation.pixels)
    fit(vae, loss, counts, seed=seed, steps=steps, highest_rate=VAE_HIGHEST_RATE, after_step=after_step)
    return vae


@dataclass(frozen=True)
class EncoderErrors:
    """Errors of an encoder for the images of a camera that show an object, or for all its images."""

    camera: str
    images: int
    reconstruction: float | None = None
    """Root mean square error of an autoencoder's pixels, from 0 to 255."""
    name: str | None = None
    """The object, or `goal`; None: the images show none."""
    seen: float | None = None
    """Share of these images in which an encoder of objects sees the object."""
    mean: float | None = None
    """m: mean error of the position. Autoencoder: of the object, as a linear function of the latents; encoder of
    objects: of the middle of its visible surface, where the encoder sees it."""
    worst: float | None = None
    """m: 95th percentile of this error."""


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
                mean, worst = _mean_and_worst(distances)
                of_objects.append(replace(of_camera, name=name, mean=mean, worst=worst))
        rows += of_objects or [of_camera]
    return rows


def _mean_and_worst(distances: Sequence[float] | FloatArray) -> tuple[float | None, float | None]:
    """Return the mean of distances, and their 95th percentile; None without any."""
    if not len(distances):
        return None, None
    return float(np.mean(distances)), float(np.percentile(distances, 95))


def _linear(latents: NDArray[np.float32], positions: FloatArray, of_test: NDArray[np.float32]) -> FloatArray:
    """Return positions `(m, 3)` for latents `(m, Z)` of a test, by a ridge regression on latents and positions."""
    mean, std = latents.mean(0), np.maximum(latents.std(0), 1e-6)
    inputs, middle = (latents - mean) / std, positions.mean(0)
    penalty = RIDGE * len(inputs) * np.eye(inputs.shape[1])
    weights = np.linalg.solve(inputs.T @ inputs + penalty, inputs.T @ (positions - middle))
    estimates: FloatArray = ((of_test - mean) / std) @ weights + middle
    return estimates


HIGHEST_RATE = 5e-3
"""Highest learning rate."""


def train_object_encoder(
    train: Pictures,
    validation: Pictures,
    categories: int,
    objects: Mapping[str, int],
    *,
    steps: int,
    seed: int,
    after_step: AfterStep,
) -> ObjectEncoder:
    """Return an encoder of objects, name → index of the category, of the least validation loss."""
    torch.manual_seed(seed)
    _, channels, height, width = train.pixels.shape
    encoder = ObjectEncoder((channels, height, width), 1 + categories, [1 + index for index in objects.values()])
    weights = class_weights(train.images.classes, 1 + categories, SEGMENTATION_EXPONENT)

    def loss(rows: Rows, rng: np.random.Generator | None) -> torch.Tensor:
        split = validation if rng is None else train
        pixels = split.pixels[rows]
        if rng is not None and channels >= COLORS:
            for image in pixels:
                image[:COLORS] = recolored(image[:COLORS], rng)
        return functional.cross_entropy(
            encoder.logits(scaled(pixels)), _as_classes(split.images.classes[rows]), weights
        )

    counts = len(train.pixels), len(validation.pixels)
    fit(encoder, loss, counts, seed=seed, steps=steps, highest_rate=HIGHEST_RATE, after_step=after_step)
    return encoder


def estimated_classes(encoder: ObjectEncoder, images: Pixels) -> NDArray[np.int64]:
    """Return the class of each pixel `(n, H, W)` of images."""
    return over_batches(lambda batch: encoder.logits(batch).argmax(1), images)


def measure_object_encoder(encoder: ObjectEncoder, test: Pictures, objects: Mapping[str, int]) -> list[EncoderErrors]:
    """Return the errors of an encoder of objects on the images of a test, for each camera and object."""
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
            mean, worst = _mean_and_worst(distances)
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


OFFSET_WEIGHT = 2.0
"""Weight of the mean error of the votes, in decimetres."""


@dataclass(frozen=True)
class DetectorErrors:
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
    images: Images, validation: Images, classes: int, *, steps: int, seed: int, after_step: AfterStep
) -> DetectorNetwork:
    """Return a network of the least validation loss; `classes` of pixels include the background."""
    torch.manual_seed(seed)
    network = DetectorNetwork(classes)
    weight = class_weights(images.classes, classes, SEGMENTATION_EXPONENT)

    def loss(rows: Rows, rng: np.random.Generator | None) -> torch.Tensor:
        return _loss(network, *_batch(validation if rng is None else images, rows, rng), weight)

    counts = len(images.frames), len(validation.frames)
    fit(network, loss, counts, seed=seed, steps=steps, highest_rate=HIGHEST_RATE, after_step=after_step)
    return network


def _batch(
    images: Images, rows: Rows, rng: np.random.Generator | None
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
    classes = _as_classes(images.classes[rows])
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


def measure(detector: Detector, images: Images) -> list[DetectorErrors]:
    """Return the errors of a detector, for each camera and object."""
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
            if shown:
                overlap = float(np.mean(overlaps)) if overlaps else None
                seen = len(distances) / shown
                rows.append(DetectorErrors(camera, name, shown, seen, *_mean_and_worst(distances), overlap))
    return rows
