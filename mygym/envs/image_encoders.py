"""Encoders of images: the latents in observations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mygym.config.schema import ImageParams
from mygym.errors import ConfigError, bad_value
from mygym.tasks.observations import Component, camera_of

if TYPE_CHECKING:
    from mygym.perception.encoder import Encoder

KEY = "image_params.encoder"


def open_encoder(images: ImageParams) -> Encoder:
    """Load the encoder of `image_params`, which imports torch.

    Raises:
        ConfigError: `image_params` name no encoder, or the file contains none.
    """
    from mygym.perception.encoder import load_encoder

    if images.encoder is None:
        why = "is missing: the observation component latent needs it"
        raise ConfigError(bad_value(KEY, None, "a file of `mygym encoder train`", why))
    return load_encoder(images.encoder, KEY)


def check_encodable(components: Mapping[str, Component], images: ImageParams, encoder: Encoder) -> None:
    """Refuse latents of images that differ from those of the encoder's data set.

    Raises:
        ConfigError: A camera is not in the data set, or the goal has another form.
    """
    for name, component in components.items():
        if component.encoded and camera_of(name) not in encoder.cameras:
            known = [f"{name.partition(':')[0]}:{camera}" for camera in encoder.cameras]
            raise ConfigError(bad_value("observations", name, known, f"has a camera that {KEY} does not know"))
    if images.goal != encoder.images.goal:
        saw = "saw the marker of the goal" if encoder.images.goal == "image" else "saw no marker of the goal"
        allowed = f"{encoder.images.goal}: {KEY} {saw}"
        raise ConfigError(bad_value("image_params.goal", images.goal, allowed))
