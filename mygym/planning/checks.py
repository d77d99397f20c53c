"""Checks of a config: hyperparameters, training parameters, images, learners, and what algorithms require.

A refusal is a `ConfigError` whose message names the key and the allowed values.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gymnasium import spaces

from mygym.config import Layer, RunConfig, merged
from mygym.config.hyperparameters import Schema
from mygym.config.parameter_checks import (
    RUN_PARAMETERS,
    check_training,
    in_other_section,
    is_runner,
    name_of,
    training_defaults,
)
from mygym.config.schedules import schedules
from mygym.engines.engine import FUSED
from mygym.envs.batches import check_batch
from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.nested import at
from mygym.planning.derived import in_batch, training_spec, trains_after_each_step
from mygym.planning.strategies import JOIN, Variant
from mygym.registry import Algorithm, registry
from mygym.registry.algorithms import of_framework
from mygym.registry.signatures import parameters
from mygym.tasks.observations import CRITIC_KEY, camera_components, camera_of

ENCODER = ("policy_kwargs", "features_extractor_kwargs", "encoder")
KEY = f"algo_params.{'.'.join(ENCODER)}"

IMAGE_KEYS = ("width", "height", "depth_range", "frames", "goal")
"""Keys of `image_params` that have to be those of the encoder's images."""


def is_frozen(schema: Schema) -> bool:
    """Return whether the features extractor is a trained encoder."""
    extractor = schema.component(("policy_kwargs", "features_extractor_class"))
    return bool(getattr(extractor, "takes_encoder", False))


def check_frozen(config: RunConfig, images: Sequence[str]) -> None:
    """Refuse images of a config whose features extractor is `frozen` that differ from those of the encoder."""
    from mygym.vision.encoder import load_encoder  # imports torch

    if not images:
        name = at(config.algo_params, (ENCODER[0], "features_extractor_class"))
        why = "takes images, and the observations have none"
        key = "algo_params.policy_kwargs.features_extractor_class"
        raise ConfigError(bad_value(key, name, "observations with images, or another network", why))
    path = at(config.algo_params, ENCODER)
    if path is None:
        raise ConfigError(bad_value(KEY, None, "a file of `mygym encoder train`", "is missing"))
    if at(config.algo_params, (ENCODER[0], "normalize_images")) is False:
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

    encoder = load_encoder(at(arguments, ENCODER), KEY)
    return merged(arguments, {ENCODER[0]: {ENCODER[1]: {ENCODER[2]: encoder}}})


IN_FILE = " (in the config file)"


@contextlib.contextmanager
def errors_end_with(text: str) -> Iterator[None]:
    """Append a text to a message, e.g. that the value is in the config file: a flag may hide it."""
    try:
        yield
    except (ConfigError, RegistryError) as error:
        raise ConfigError(f"{error}{text}") from error


def check_hyperparameters(schema: Schema, layers: Sequence[Layer], asked: RunConfig, chosen: RunConfig) -> None:
    """Check the hyperparameters of the file alone, because overrides may hide an invalid value; then check all."""
    *below, overrides = (layer.values.get("algo_params", {}) for layer in layers)
    if in_file := below[-1] if overrides else {}:
        params: dict[str, Any] = {}
        for values in below:
            params = merged(params, values)
        with errors_end_with(IN_FILE):
            schema.check({key: params[key] for key in in_file})
    schema.check({key: chosen.algo_params[key] for key in asked.algo_params})
    schedules(schema.cls, chosen.algo_params, chosen.steps)
    _check_train_freq(chosen)


def registered_training_params(
    cls: type, entry: Algorithm, asked: RunConfig, file: Layer
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return `training_params` of a `Runner`'s class and of its registration; empty for other algorithms.

    Raises:
        ConfigError: An algorithm that is not a `Runner` gets values, or its `training` does not accept the values.
    """
    values = {**entry.training_defaults, **asked.training_params}
    if not is_runner(cls):
        if values:
            name = next(iter(values))
            allowed = "an algo that is a Runner; for all others: steps, n_envs, eval and algo_params"
            why = f"is not for {entry.name}, which has no custom training loop"
            hint = in_other_section(name, {"algo_params": parameters(cls, leave_out=RUN_PARAMETERS)})
            raise ConfigError(bad_value(f"training_params.{name}", values[name], allowed, why) + hint)
        return {}, {}
    check_training(cls, values)
    if in_file := file.values.get("training_params"):
        with errors_end_with(IN_FILE):
            check_training(cls, {**values, **in_file})
    defaults = (training_defaults(cls), entry.training_defaults)
    of_class, of_entry = ({"training_params": values} if values else {} for values in defaults)
    return of_class, of_entry


def _check_train_freq(config: RunConfig) -> None:
    """Refuse `[…, episode]` with several environments, which SB3 does not support and reports too late."""
    train_freq = config.algo_params.get("train_freq")
    if isinstance(train_freq, list | tuple) and "episode" in train_freq and config.n_envs > 1:
        why = f"counts episodes, which needs one environment, not {config.n_envs}"
        raise ConfigError(bad_value("algo_params.train_freq", train_freq, "n_envs 1, or steps, e.g. [1, step]", why))


NATURE_CNN = 36
"""Pixels: smallest width and height that NatureCNN takes, SB3's network for images."""


def check_images(config: RunConfig, entry: Algorithm, schema: Schema) -> None:
    """Refuse images that the algorithm or its network cannot take."""
    images = camera_components(config.observations or (), images=True)
    if is_frozen(schema):
        check_frozen(config, images)
    if not images:
        _check_shift(config, entry, schema)
        return
    if not entry.dict_observations or config.framework != "pytorch":
        why = f"is an image, and {config.algo} of {config.framework} takes flat vectors"
        names = [each.name for each in of_framework(registry("algorithm"), "pytorch") if each.dict_observations]
        raise ConfigError(bad_value("observations", images[0], f"numbers, or an algo of: {', '.join(names)}", why))
    _check_network(config, schema)


def check_critic(config: RunConfig, schema: Schema) -> None:
    """Refuse observations of a critic that the algorithm or the strategy cannot separate from those of its actor."""
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


def gathers_rollouts(cls: type[Any]) -> bool:
    """Return whether a class trains in the main process with all rollouts, rather than with mean gradients."""
    return hasattr(cls, "gather_rollouts")


def may_share(cls: type[Any]) -> bool:
    """Return whether several learners can train a class.

    Other classes take other numbers of gradient steps, or change weights without them.
    """
    from stable_baselines3 import A2C, PPO

    return issubclass(cls, A2C | PPO) or gathers_rollouts(cls)


def check_learners(config: RunConfig, cls: type[Any]) -> None:
    """Refuse `learners` of a config that the processes cannot share."""
    if config.learners == 1:
        return
    if not may_share(cls):
        why = f"is not available with algo {config.algo} of {config.framework}"
        allowed = "1, or ppo or a2c of framework pytorch, ppo of framework jax, or a subclass of these"
        raise ConfigError(bad_value("learners", config.learners, allowed, why))
    if cls.__module__ == "__main__":
        why = f"cannot train {cls.__name__}, which is defined in a notebook or in the main script"
        allowed = "1, or an algorithm in a file in algos/ or in a module for --import"
        raise ConfigError(bad_value("learners", config.learners, allowed, why))
    if config.strategy != "standard":
        why = f"is not available with strategy {config.strategy}"
        raise ConfigError(bad_value("learners", config.learners, "1, or strategy standard", why))
    if config.env_processes not in (False, "auto"):
        why = "is not available with several learners, each of which steps its share of the environments"
        raise ConfigError(bad_value("env_processes", config.env_processes, ["false"], why))
    if config.algo_params.get("target_kl") is not None:
        why = "ends updates early, in each of the learners at another step"
        raise ConfigError(bad_value("algo_params.target_kl", config.algo_params["target_kl"], "null", why))
    batch = None if gathers_rollouts(cls) else config.algo_params.get("batch_size")
    for key, value in (("n_envs", config.n_envs), ("algo_params.batch_size", batch)):
        if isinstance(value, int) and value % config.learners:
            raise ConfigError(bad_value(key, value, f"a multiple of learners, {config.learners}"))


def check_overlap(config: RunConfig, cls: type[Any]) -> None:
    """Refuse `overlap` of a config whose gradient steps cannot be taken during the steps of the environments."""
    if not config.overlap:
        return
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

    if not issubclass(cls, OffPolicyAlgorithm):
        why = f"is not available with algo {config.algo} of {config.framework}"
        raise ConfigError(bad_value("overlap", True, "false, or an off-policy algorithm such as sac", why))
    if not trains_after_each_step(config):
        why = "is not available with overlap, which trains during the single step of a rollout"
        allowed = "1 (and fewer gradient_steps), or overlap false"
        raise ConfigError(bad_value("algo_params.train_freq", config.algo_params["train_freq"], allowed, why))


MAX_WORLDS = 1024
"""Largest `n_envs` of engines other than the fused one; a world of Bullet takes 30 MB."""


def check_engine(config: RunConfig, variants: Sequence[Variant]) -> None:
    """Refuse a config that its engine cannot train; nothing has been built yet."""
    if config.engine != FUSED and config.n_envs > MAX_WORLDS:
        allowed = f"less than or equal to {MAX_WORLDS}, or engine: {FUSED}"
        raise ConfigError(bad_value("n_envs", config.n_envs, allowed))
    played = [config] if len(variants) == 1 else [variant.config for variant in variants]
    if not in_batch(played):
        return
    why = f"is not available with engine {config.engine}, which is one process"
    if config.env_processes not in (False, "auto"):
        raise ConfigError(bad_value("env_processes", config.env_processes, ["false"], why))
    if config.overlap:
        raise ConfigError(bad_value("overlap", True, ["false"], why))
    for each in played:
        check_batch(training_spec(each), config.engine)


REQUIREMENTS: Mapping[str, Callable[[spaces.Space[Any], spaces.Space[Any]], bool]] = {
    "goal_observations": lambda observation, action: (
        isinstance(observation, spaces.Dict) and {"achieved_goal", "desired_goal"} <= set(observation.spaces)
    ),
    "continuous_actions": lambda observation, action: isinstance(action, spaces.Box),
    "discrete_actions": lambda observation, action: isinstance(action, spaces.Discrete),
    "continuous_or_combined_actions": lambda observation, action: isinstance(action, spaces.Box | spaces.Discrete),
}
"""Name in a registration's `requires` → whether an observation and an action space meet it."""


REMEDIES: Mapping[str, str] = {
    "continuous_actions": "actions: {discrete: null}",
    "discrete_actions": "actions: {discrete: 3, combined: true}",
    "continuous_or_combined_actions": "actions: {discrete: 3, combined: true}",
}
"""Requirement → the config that meets it."""


def check(entry: Algorithm, observation: spaces.Space[Any], action: spaces.Space[Any]) -> None:
    """Refuse an environment that does not meet the requirements of the algorithm.

    Raises:
        ConfigError: A requirement is not met; the message names it and the file of its registration.
    """
    for name in entry.requires:
        if not REQUIREMENTS[name](observation, action):
            raise ConfigError(
                f"algo: {entry.name!r} requires {name.replace('_', ' ')} ({entry.origin}), which this environment does "
                f"not have: its observations are {_in_words(observation)}, its actions {_in_words(action)}"
                + (f"; allowed: {REMEDIES[name]}" if name in REMEDIES else "")
            )


def check_same_spaces(registered: Any, env: Any, where: str) -> None:
    """Refuse an environment in the arguments of the registration at `where` with other spaces than the run."""
    for kind in ("observation_space", "action_space"):
        space, of_the_run = getattr(registered, kind), getattr(env, kind)
        if space != of_the_run:
            raise ConfigError(
                f"{where}: the environment in the arguments replaces the run's environment, which has another {kind}: "
                f"{_in_words(of_the_run)}, not {_in_words(space)}; write 'env' in its place"
            )


def _in_words(space: spaces.Space[Any]) -> str:
    if isinstance(space, spaces.Dict):
        return f"a dictionary of {', '.join(space.spaces)}"
    if isinstance(space, spaces.Discrete):
        return f"one of {space.n}"
    if isinstance(space, spaces.MultiDiscrete):
        return f"{len(space.nvec)} numbers below {', '.join(map(str, space.nvec))}"
    return f"{space.shape[0]} numbers" if space.shape and len(space.shape) == 1 else str(space)
