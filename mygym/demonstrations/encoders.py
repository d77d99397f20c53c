"""`train_encoder`: train an encoder of images on a data set of `record_images`, and measure its errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mygym.config.schema import ImageParams
from mygym.demonstrations.network_training import checked_file, progress
from mygym.demonstrations.recorded_images import SPLITS, read_images
from mygym.envs.arguments import checked_count, checked_seed
from mygym.errors import ConfigError, bad_value
from mygym.perception.encoder import Encoder, scaled
from mygym.perception.encoder_training import EncoderErrors, Pixels, measure_vae, pictures, train_vae
from mygym.perception.vae import DIVISOR, VAE
from mygym.runs import files
from mygym.sim.rendering.thumbnails import grid

COMPONENTS = ("rgbd", "image", "depth")
"""Observation components of the images that an encoder can take."""

MOST_LATENTS = 1024

COLUMNS = 8
"""Images of the sheet."""


def train_encoder(
    data: str | Path,
    *,
    out: str | Path,
    component: str = COMPONENTS[0],
    latents: int = 32,
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
        component: Observation component whose images the encoder takes: `rgbd`, `image` or `depth`.
        latents: Number of latents.
        steps: Minibatches of 16 images.
        seed: Seed of weights and minibatches.
        image: A new PNG file for images of the split `test` above their reconstructions.
        report: Called about 20 times with a line about the loss.

    Returns:
        The errors for each camera and object.

    Raises:
        ConfigError: A value is wrong, `out` or `image` exists, or the data set lacks a split.
        RunError: The data set is damaged, or writing failed.
        KeyboardInterrupt: A signal stops the training; no file remains.
    """
    path, steps, seed = checked_file(out), checked_count(steps, "steps"), checked_seed(seed)
    if component not in COMPONENTS:
        raise ConfigError(bad_value("component", component, COMPONENTS))
    if checked_count(latents, "latents") > MOST_LATENTS:
        raise ConfigError(bad_value("latents", latents, f"1 to {MOST_LATENTS}"))
    sheet = None if image is None else Path(image).expanduser()
    if sheet is not None and sheet.suffix != ".png":
        raise ConfigError(bad_value("image", str(image), "a new file NAME.png"))
    if sheet is not None:
        files.check_new(sheet, "image", "a file")
    recorded = [read_images(Path(data).expanduser(), split, DIVISOR) for split in SPLITS]
    train = recorded[0]
    of_train, of_validation, of_test = (pictures(split.images, component) for split in recorded)
    with progress(steps, report) as after_step:
        classes = 1 + len(train.categories)
        vae = train_vae(of_train, of_validation, classes, latents, steps=steps, seed=seed, after_step=after_step)
    seen = ImageParams(
        width=train.width,
        height=train.height,
        depth_range=train.depth_range,
        goal="image" if train.marker else "vector",
    )
    files.write_bytes(path, Encoder(vae.encoder, component, train.cameras, seen).to_bytes())
    if sheet is not None:
        picture = Image.fromarray(_sheet(vae, of_test.pixels))
        files.write(sheet, lambda temporary: picture.save(temporary, format="PNG"))
    objects = {name: train.categories.index(name) for name in train.objects if name not in train.repeated}
    return measure_vae(vae, of_train, of_test, objects)


def _sheet(vae: VAE, images: Pixels) -> NDArray[np.uint8]:
    """Return a picture of evenly spaced images `(n, C, H, W)` above their reconstructions; of `rgbd`, the colours."""
    chosen = images[np.linspace(0, len(images) - 1, min(COLUMNS, len(images))).astype(int)]
    painted = np.rint(255.0 * vae.reconstructed(scaled(chosen)).detach().numpy()).astype(np.uint8)
    colours = np.concatenate([chosen, painted])[:, :3].transpose(0, 2, 3, 1)
    return grid(list(np.broadcast_to(colours, (*colours.shape[:3], 3))), columns=len(chosen))
