"""Checks of runs whose observations have images, before anything is built."""

from __future__ import annotations

from collections.abc import Mapping

from mygym.config import RunConfig
from mygym.config.hyperparameters import Schema
from mygym.errors import ConfigError, bad_value
from mygym.registry import Algorithm, registry
from mygym.tasks.observations import camera_components

SMALLEST = 36
"""Pixels: smallest width and height that SB3's default network for images takes."""

SIZED = ("CombinedExtractor", "NatureCNN")
"""Features extractors with this network."""


def check_images(config: RunConfig, entry: Algorithm, schema: Schema) -> None:
    """Refuse images that the algorithm or its network cannot take.

    Raises:
        ConfigError: The message names the key and the allowed values.
    """
    images = camera_components(config.observations or (), images=True)
    if not images:
        return
    if not entry.dict_observations or config.framework != "pytorch":
        why = f"is an image, and {config.algo} of {config.framework} takes flat vectors"
        raise ConfigError(bad_value("observations", images[0], f"numbers, or an algo of: {_takers()}", why))
    extractor = schema.component(("policy_kwargs", "features_extractor_class"))
    takes_any = extractor is None and hasattr(schema.component(("policy",)), "image_extractor")
    if not takes_any and (extractor is None or extractor.__name__ in SIZED):
        for key in ("width", "height"):
            if (pixels := getattr(config.image_params, key)) < SMALLEST:
                allowed = f"at least {SMALLEST}; or another policy_kwargs.features_extractor_class"
                why = "is too small for the network of images, NatureCNN"
                raise ConfigError(bad_value(f"image_params.{key}", pixels, allowed, why))


def _takers() -> str:
    """Return the algorithms that take images."""
    return ", ".join(
        each.name
        for each in registry("algorithm")
        if isinstance(each.target, Mapping)  # user files are not loaded for a message
        and "pytorch" in each.target
        and each.target["pytorch"].dict_observations
    )
