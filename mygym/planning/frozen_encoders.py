"""Trained encoders as networks of a policy: their files, and the images that they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mygym.config import RunConfig
from mygym.config.hyperparameters import Schema
from mygym.errors import ConfigError, bad_value
from mygym.nested import at
from mygym.tasks.observations import camera_of

PATH = ("policy_kwargs", "features_extractor_kwargs", "encoder")
KEY = f"algo_params.{'.'.join(PATH)}"

IMAGE_KEYS = ("width", "height", "depth_range", "frames", "goal")
"""Keys of `image_params` that have to be those of the encoder's images."""


def is_frozen(schema: Schema) -> bool:
    """Return whether the features extractor is a trained encoder."""
    extractor = schema.component(("policy_kwargs", "features_extractor_class"))
    return bool(getattr(extractor, "takes_encoder", False))


def check_frozen(config: RunConfig, images: Sequence[str]) -> None:
    """Refuse images that differ from those of the encoder.

    Args:
        config: Config whose features extractor is `frozen`.
        images: Names of the components that are images.

    Raises:
        ConfigError: The file is missing or no encoder, or an image is not like those of its training.
    """
    from mygym.vision.encoder import load_encoder  # imports torch

    if not images:
        name = at(config.algo_params, (PATH[0], "features_extractor_class"))
        why = "takes images, and the observations have none"
        key = "algo_params.policy_kwargs.features_extractor_class"
        raise ConfigError(bad_value(key, name, "observations with images, or another network", why))
    path = at(config.algo_params, PATH)
    if path is None:
        raise ConfigError(bad_value(KEY, None, "a file of `mygym encoder train`", "is missing"))
    if at(config.algo_params, (PATH[0], "normalize_images")) is False:
        key = "algo_params.policy_kwargs.normalize_images"
        raise ConfigError(bad_value(key, False, "true", "gives pixels that the encoder does not take"))
    encoder = load_encoder(path, KEY)
    for name in images:
        if name.partition(":")[0] != encoder.component or camera_of(name) not in encoder.cameras:
            known = [f"{encoder.component}:{camera}" for camera in encoder.cameras]
            raise ConfigError(bad_value("observations", name, known, "is not an image that the encoder takes"))
    for key in IMAGE_KEYS:
        value, of_encoder = (getattr(params, key) for params in (config.image_params, encoder.images))
        if value != of_encoder:
            allowed = f"{of_encoder}, as in the data set of the encoder"
            raise ConfigError(bad_value(f"image_params.{key}", value, allowed))


def with_loaded_encoder(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of an algorithm with the encoder in place of its file, so that a saved model contains it."""
    from mygym.vision.encoder import load_encoder

    policy_kwargs = arguments["policy_kwargs"]
    extractor_kwargs = policy_kwargs["features_extractor_kwargs"]
    loaded = {**extractor_kwargs, "encoder": load_encoder(extractor_kwargs["encoder"], KEY)}
    return {**arguments, "policy_kwargs": {**policy_kwargs, "features_extractor_kwargs": loaded}}
