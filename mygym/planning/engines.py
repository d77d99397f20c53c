"""Environments of a config, and refusals of configs that an engine cannot train."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mygym.config import RunConfig
from mygym.config.parameter_checks import RANGES
from mygym.engines.engine import BULLET, FUSED, has_batches, judge_of
from mygym.envs.batches import check_batch
from mygym.envs.env_spec import EnvSpec
from mygym.errors import ConfigError, bad_value
from mygym.planning.variants import Variant
from mygym.registry import algorithm

MAX_WORLDS = 1024
"""Largest `n_envs` of engines whose worlds are not rows of arrays alone; one of Bullet takes 30 MB."""


def env_spec(config: RunConfig, goal_env: bool | None = None) -> EnvSpec:
    """Return the description of the environments of a config with a single variant, as evaluations have them.

    They are in the engine that judges the config's, see `judge_of`. The environments of training are those of
    `training_spec`.

    Args:
        config: The config.
        goal_env: Whether observations are goal dictionaries; None: as the algorithm takes them.
    """
    if goal_env is None:
        goal_env = algorithm(config.algo, config.framework).dict_observations
    gamma = config.algo_params.get("gamma")  # of a class that uses the name for something else, it is no discount
    discount = float(gamma) if isinstance(gamma, int | float) and gamma in RANGES["gamma"] else 0.99
    return EnvSpec.of_config(config, judge_of(config.engine), goal_env, discount)


def training_spec(config: RunConfig, goal_env: bool | None = None) -> EnvSpec:
    """Return the description of the environments of training of a config with a single variant.

    Args:
        config: The config.
        goal_env: See `env_spec`.
    """
    return env_spec(config, goal_env).model_copy(update={"engine": config.engine})


def short_env_arguments(config: RunConfig, goal_env: bool | None = None) -> dict[str, Any]:
    """Return the arguments of `RobotEnv` for a config with a single variant as plain data, without defaults.

    Args:
        config: The config.
        goal_env: See `env_spec`.
    """
    arguments = env_spec(config, goal_env).arguments()
    for key in ("robot_params", "actions", "image_params", "task_params"):
        set_here = getattr(config, key).model_dump(mode="json", exclude_defaults=True)
        arguments[key] = {name: value for name, value in set_here.items() if value not in ({}, [])}
    for key in [key for key in ("goal_env", "engine") if arguments[key] in (True, BULLET)]:
        del arguments[key]
    return {key: value for key, value in arguments.items() if value != {}}


def check_engine(config: RunConfig, variants: Sequence[Variant]) -> None:
    """Refuse a config that its engine cannot train; nothing has been built yet.

    Raises:
        ConfigError: The message names the key, the value, and what the engine can do.
    """
    if config.engine != FUSED and config.n_envs > MAX_WORLDS:
        allowed = f"less than or equal to {MAX_WORLDS}, or engine: {FUSED}"
        raise ConfigError(bad_value("n_envs", config.n_envs, allowed))
    if not has_batches(config.engine):
        return
    if len(variants) > 1:
        why = f"cannot train {len(variants)} variants, which strategy {config.strategy} asks for"
        raise ConfigError(bad_value("engine", config.engine, [BULLET], why))
    if config.env_processes not in (False, "auto"):
        why = f"is not available with engine {config.engine}, which is one process"
        raise ConfigError(bad_value("env_processes", config.env_processes, ["false"], why))
    check_batch(training_spec(config), config.engine)
