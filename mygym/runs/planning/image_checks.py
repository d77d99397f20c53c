"""Checks of runs whose observations have images or a critic's vector, before anything is built."""

from __future__ import annotations

from collections.abc import Mapping

from mygym.config import RunConfig
from mygym.config.hyperparameters import Schema
from mygym.config.named_components import name_of
from mygym.errors import ConfigError, bad_value
from mygym.registry import Algorithm, registry
from mygym.runs.frozen_encoders import check_frozen, is_frozen
from mygym.runs.planning.strategies import JOIN
from mygym.tasks.observations import CRITIC_KEY, camera_components

NATURE_CNN = 36
"""Pixels: smallest width and height that NatureCNN takes, SB3's network for images."""


def check_images(config: RunConfig, entry: Algorithm, schema: Schema) -> None:
    """Refuse images that the algorithm or its network cannot take.

    Raises:
        ConfigError: The message names the key and the allowed values.
    """
    images = camera_components(config.observations or (), images=True)
    if is_frozen(schema):
        check_frozen(config, images)
    if not images:
        _check_shift(config, entry, schema)
        return
    if not entry.dict_observations or config.framework != "pytorch":
        why = f"is an image, and {config.algo} of {config.framework} takes flat vectors"
        raise ConfigError(bad_value("observations", images[0], f"numbers, or an algo of: {_takers()}", why))
    _check_network(config, schema)


def check_critic(config: RunConfig, entry: Algorithm, schema: Schema) -> None:
    """Refuse observations of a critic that the algorithm or the strategy cannot separate from those of its actor.

    Raises:
        ConfigError: The message names the key and the allowed values.
    """
    if not (given := config.critic_observations):
        return
    if not getattr(schema.component(("policy",)), "takes_critic_observations", False):
        why = f"is not available with {config.algo} of {config.framework}"
        raise ConfigError(bad_value(CRITIC_KEY, given, "null, or an algo of: ddpg, sac, td3, tqc", why))
    if "mixture" in config.strategy.split(JOIN):
        raise ConfigError(bad_value(CRITIC_KEY, given, "null", "is not available with strategy mixture"))
    if config.algo_params.get("policy_kwargs", {}).get("share_features_extractor"):
        why = "shares the actor's network with the critic, which observes something else"
        key = "algo_params.policy_kwargs.share_features_extractor"
        raise ConfigError(bad_value(key, True, "false, or critic_observations: null", why))


def _check_shift(config: RunConfig, entry: Algorithm, schema: Schema) -> None:
    """Refuse a shift of images that the user has set for observations without images."""
    pixels = config.algo_params.get("random_shift", 0)
    if pixels and pixels not in (schema.known["random_shift"].default, entry.defaults.get("random_shift")):
        why = "shifts images, and the observations have none"
        raise ConfigError(bad_value("algo_params.random_shift", pixels, "0, or observations with images", why))


def _check_network(config: RunConfig, schema: Schema) -> None:
    """Refuse images that the features extractor cannot take."""
    from stable_baselines3.common.torch_layers import CombinedExtractor  # imports torch

    extractor = schema.component(("policy_kwargs", "features_extractor_class"))
    default = getattr(schema.component(("policy",)), "image_extractor", CombinedExtractor)
    network = extractor or default
    smallest = NATURE_CNN if network is CombinedExtractor else getattr(network, "smallest_image", 1)
    for key in ("width", "height"):
        if (pixels := getattr(config.image_params, key)) < smallest:
            name = "NatureCNN" if network is CombinedExtractor else name_of(network)
            allowed = f"at least {smallest}; or another policy_kwargs.features_extractor_class"
            why = f"is too small for the network of images, {name}"
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
