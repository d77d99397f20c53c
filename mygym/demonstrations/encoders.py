"""`train_encoder`: train an encoder of images on a data set of `record_images`, and measure its errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mygym.config.schema import ImageParams
from mygym.demonstrations.network_training import checked_file, progress
from mygym.demonstrations.recorded_images import SPLITS, read_images
from mygym.envs.arguments import checked_count, checked_seed
from mygym.errors import ConfigError, bad_value
from mygym.perception.encoder import NETWORKS, Encoder, EncoderErrors
from mygym.perception.object_encoder import ObjectEncoder
from mygym.perception.object_encoder_training import estimated_classes, measure_object_encoder, train_object_encoder
from mygym.perception.pictures import Pixels, over_batches, pictures
from mygym.perception.vae import DIVISOR, VAE, EncoderNetwork
from mygym.perception.vae_training import measure_vae, train_vae
from mygym.runs import files
from mygym.sim.rendering.thumbnails import class_colors, grid

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
        ConfigError: A value is wrong, `out` or `image` exists, or the data set lacks a split, or objects.
        RunError: The data set is damaged, or writing failed.
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
    sheet = None if image is None else Path(image).expanduser()
    if sheet is not None and sheet.suffix != ".png":
        raise ConfigError(bad_value("image", str(image), "a new file NAME.png"))
    if sheet is not None:
        files.check_new(sheet, "image", "a file")
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
