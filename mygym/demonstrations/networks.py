"""`train_encoder` and `train_detector`: train networks on a data set of `record_images`, and measure them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mygym.config.schema import ImageParams
from mygym.demonstrations.images import SPLITS, Recorded, read_images
from mygym.demonstrations.recording import progress_bar
from mygym.engines.rendering.thumbnails import class_colors, grid
from mygym.envs.arguments import checked_arguments, checked_count, checked_seed
from mygym.errors import ConfigError, bad_value
from mygym.training import files
from mygym.training.stop_request import StopRequest
from mygym.vision.detector import Detector, load_detector
from mygym.vision.encoder import DIVISOR, NETWORKS, VAE, Encoder, EncoderNetwork, ObjectEncoder
from mygym.vision.networks import UNET_DIVISOR
from mygym.vision.training import (
    DetectorErrors,
    EncoderErrors,
    Pixels,
    estimated_classes,
    measure,
    measure_object_encoder,
    measure_vae,
    over_batches,
    pictures,
    train_network,
    train_object_encoder,
    train_vae,
)


def checked_file(given: str | Path, key: str = "out", suffix: str = ".safetensors") -> Path:
    """Return the path of a new file; refuse another suffix, and a path that cannot be written."""
    path = Path(given).expanduser()
    if path.suffix != suffix:
        raise ConfigError(bad_value(key, str(given), f"a new file NAME{suffix}"))
    files.check_new(path, key, "a file")
    return path


@contextlib.contextmanager
def progress(steps: int, report: Callable[[str], None]) -> Iterator[Callable[[int, float, float | None], None]]:
    """Show a progress bar; yield the function that `mygym.vision.training.fit` calls after each step.

    Raises:
        KeyboardInterrupt: A signal has requested a stop.
    """
    with progress_bar(steps, "step") as bar, StopRequest("after this step") as stop:

        def after_step(step: int, loss: float, error: float | None) -> None:
            bar.update()
            if error is not None:
                report(f"{step:7,} steps   loss {loss:.3f}   on val {error:.3f}")
            if stop.received:
                raise KeyboardInterrupt

        yield after_step


COMPONENTS = ("rgbd", "image", "depth")
"""Observation components of the images that an encoder can take."""

ENCODER_KINDS = tuple(NETWORKS)
"""Kinds of encoders."""

LATENTS, MAX_LATENTS = 32, 1024
"""Default number of latents of an autoencoder, and the largest."""

COLUMNS = 8
"""Images of the sheet."""

Colors = NDArray[np.uint8]
"""`(n, H, W, 3)`."""


@checked_arguments
def train_encoder(
    data: str | Path,
    *,
    out: str | Path,
    kind: str = ENCODER_KINDS[0],
    component: str = COMPONENTS[0],
    latents: int | None = None,
    steps: int = 3000,
    seed: int = 0,
    image: str | Path | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> list[EncoderErrors]:
    """Train an encoder on the split `train` of a data set, and return its errors on the split `test`.

    The network that has the least loss on the split `val` is kept. `image_params.encoder` takes the file.

    Args:
        data: A folder of `record_images`, with the splits `train`, `val` and `test`.
        out: A new file, `….safetensors`.
        kind: `autoencoder`: the latents describe the whole image; `objects`: they are the position of each object, and
            of the marker of the goal, in the image.
        component: Observation component whose images the encoder takes: `rgbd`, `image` or `depth`.
        latents: Number of latents of an autoencoder; 32 by default.
        steps: Minibatches of 16 images.
        seed: Seed of weights and minibatches.
        image: A new PNG file for images of the split `test` above their reconstructions, or above the bodies that the
            encoder sees.
        report: Called about 20 times with a line about the loss.

    Returns:
        The errors for each camera and object.

    Raises:
        ConfigError: A value is wrong, `out` or `image` exists, or the data set is damaged or lacks a split or objects.
        RunError: Writing failed.
        KeyboardInterrupt: A signal stops the training; no file remains.
    """
    path, steps, seed = checked_file(out), checked_count(steps, "steps"), checked_seed(seed)
    for key, value, names in (("kind", kind, ENCODER_KINDS), ("component", component, COMPONENTS)):
        if value not in names:
            raise ConfigError(bad_value(key, value, names))
    if kind == "objects" and latents is not None:
        why = "belongs to the kind autoencoder: the objects decide it"
        raise ConfigError(bad_value("latents", latents, "none for the kind objects", why))
    latents = LATENTS if latents is None else checked_count(latents, "latents")
    if latents > MAX_LATENTS:
        raise ConfigError(bad_value("latents", latents, f"1 to {MAX_LATENTS}"))
    sheet = None if image is None else checked_file(image, "image", ".png")
    recorded = [read_images(Path(data).expanduser(), split, DIVISOR) for split in SPLITS]
    train, count = recorded[0], len(recorded[0].categories)
    objects = {name: train.categories.index(name) for name in train.objects if name not in train.repeated}
    if kind == "objects" and not objects:
        allowed = "images of a task with objects of different names, or with --marker"
        raise ConfigError(bad_value("data", str(data), allowed, "shows no such object"))
    of_train, of_validation, of_test = (pictures(split.images, component) for split in recorded)
    seen = ImageParams(
        width=train.width,
        height=train.height,
        depth_range=train.depth_range,
        goal="image" if train.marker else "vector",
    )
    network: EncoderNetwork | ObjectEncoder
    with progress(steps, report) as after_step:
        if kind == "objects":
            network = encoder = train_object_encoder(
                of_train, of_validation, count, objects, steps=steps, seed=seed, after_step=after_step
            )
            results, errors = partial(_bodies, encoder), partial(measure_object_encoder, encoder)
        else:
            vae = train_vae(of_train, of_validation, 1 + count, latents, steps=steps, seed=seed, after_step=after_step)
            network = vae.encoder
            results, errors = partial(_reconstructions, vae), partial(measure_vae, vae, of_train)
    files.write_bytes(path, Encoder(network, component, train.cameras, seen).to_bytes())
    if sheet is not None:
        chosen = of_test.pixels[np.linspace(0, len(of_test.pixels) - 1, COLUMNS).astype(int)]
        picture = Image.fromarray(grid([*_colors(chosen), *results(chosen)], columns=COLUMNS))
        files.write(sheet, lambda temporary: picture.save(temporary, format="PNG"))
    return errors(of_test, objects)


def _bodies(encoder: ObjectEncoder, images: Pixels) -> Colors:
    """Return the colours `(n, H, W, 3)` of the bodies that an encoder sees in images `(n, C, H, W)`."""
    return class_colors()[estimated_classes(encoder, images)]


def _reconstructions(vae: VAE, images: Pixels) -> Colors:
    """Return the colours `(n, H, W, 3)` of the reconstructions of images `(n, C, H, W)`."""
    return _colors(np.rint(255.0 * over_batches(vae.reconstructed, images)).astype(np.uint8))


def _colors(images: Pixels) -> Colors:
    """Return the colours `(n, H, W, 3)` of images `(n, C, H, W)`; of depth images, grey."""
    colors = images[:, :3].transpose(0, 2, 3, 1)
    return np.broadcast_to(colors, (*colors.shape[:3], 3))


@checked_arguments
def train_detector(
    data: str | Path,
    *,
    out: str | Path,
    steps: int = 1500,
    seed: int = 0,
    report: Callable[[str], None] = lambda line: None,
) -> list[DetectorErrors]:
    """Train a detector on the split `train` of a data set, and return its errors on the split `test`.

    The network that has the least loss on the split `val` is kept. `image_params.detector` takes the file.

    Args:
        data: A folder of `record_images`, with the splits `train`, `val` and `test`.
        out: A new file, `….safetensors`.
        steps: Minibatches of 16 images.
        seed: Seed of weights and minibatches.
        report: Called about 20 times with a line about the loss.

    Returns:
        The errors for each camera and object.

    Raises:
        ConfigError: A value is wrong, `out` exists, or the data set is damaged or has no image of an object.
        RunError: Writing failed.
        KeyboardInterrupt: A signal stops the training; no file remains.
    """
    path, steps, seed = checked_file(out), checked_count(steps, "steps"), checked_seed(seed)
    train, validation, test = (_read(Path(data).expanduser(), split) for split in SPLITS)
    with progress(steps, report) as after_step:
        network = train_network(
            train.images, validation.images, 1 + len(train.categories), steps=steps, seed=seed, after_step=after_step
        )
    detector = Detector(network, train.categories, train.objects, train.cameras, train.width, train.height)
    files.write_bytes(path, detector.to_bytes())
    return measure(detector, test.images)


@checked_arguments
def measure_detector(detector: str | Path, data: str | Path, *, split: str = "test") -> list[DetectorErrors]:
    """Return the errors of a detector on a split of a data set, for each camera and object.

    Args:
        detector: A file of `train_detector`.
        data: A folder of `record_images` with the same bodies and sizes.
        split: Name of the split.

    Raises:
        ConfigError: The file is no detector, the folder is no data set or a damaged one, or they do not fit.
    """
    loaded = load_detector(detector, "detector")
    recorded = _read(Path(data).expanduser(), split)
    for key, here, expected in (
        ("categories", recorded.categories, loaded.categories),
        ("size", (recorded.width, recorded.height), (loaded.width, loaded.height)),
    ):
        if here != expected:
            raise ConfigError(bad_value(f"data.{key}", here, f"those of the detector: {expected}"))
    return measure(loaded, recorded.images)


def _read(folder: Path, split: str) -> Recorded:
    """Read a split of a data set for a detector.

    Raises:
        ConfigError: A file is damaged, or the split shows no object, two of a name, or the marker, or its images are
            of a wrong size.
    """
    recorded = read_images(folder, split, UNET_DIVISOR)
    if recorded.marker:
        why = "shows the marker of the goal, which is no object"
        raise ConfigError(bad_value("data", str(folder), "images without --marker", why))
    if not recorded.objects:
        raise ConfigError(bad_value("data", str(folder), "images of a task with objects", f"{split} shows no object"))
    if recorded.repeated:
        why = f"shows several objects of the category {recorded.repeated[0]}"
        raise ConfigError(bad_value("data", str(folder), "objects of different names", why))
    return recorded
