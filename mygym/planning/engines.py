"""Engines of training environments: arguments of `RobotEnv`, and refusals of configs that an engine cannot train."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mygym.config import RunConfig
from mygym.config.parameter_checks import RANGES
from mygym.envs.fused_support import check_supported
from mygym.errors import ConfigError, bad_value
from mygym.planning.variants import Variant
from mygym.registry import algorithm

MAX_BULLET_ENVS = 1024
"""Largest `n_envs` with engine pybullet, in which each environment takes 30 MB."""


def env_arguments(config: RunConfig, goal_env: bool | None = None) -> dict[str, Any]:
    """Return the arguments of `RobotEnv` for a config with a single variant.

    Args:
        config: The config.
        goal_env: Whether observations are goal dictionaries; None: as the algorithm takes them.
    """
    if goal_env is None:
        goal_env = algorithm(config.algo, config.framework).dict_observations
    gamma = config.algo_params.get("gamma")  # of a class that uses the name for something else, it is no discount
    return {
        "task": config.task,
        "robot": config.robot,
        "workspace": config.workspace,
        "robot_params": config.robot_params.model_dump(),
        "control": config.control.model_dump(),
        "actions": config.actions.model_dump(),
        "reward": config.reward,
        "goal_env": goal_env,
        "observations": config.observations,
        "critic_observations": config.critic_observations,
        "image_params": config.image_params.model_dump(),
        "spaces": config.spaces,
        "task_params": config.task_params.model_dump(exclude_none=True),
        "randomize": config.randomize,
        "gamma": float(gamma) if isinstance(gamma, int | float) and gamma in RANGES["gamma"] else 0.99,
    }


def short_env_arguments(config: RunConfig, goal_env: bool | None = None) -> dict[str, Any]:
    """Return the arguments of `RobotEnv` for a config with a single variant as plain data, without defaults.

    Args:
        config: The config.
        goal_env: See `env_arguments`.
    """
    arguments = env_arguments(config, goal_env)
    for key in ("robot_params", "actions", "image_params", "task_params"):
        set_here = getattr(config, key).model_dump(mode="json", exclude_defaults=True)
        arguments[key] = {name: value for name, value in set_here.items() if value not in ({}, [])}
    if isinstance(arguments["control"], dict):
        arguments["control"] = {name: value for name, value in arguments["control"].items() if value is not None}
    if arguments["goal_env"]:
        del arguments["goal_env"]
    return {key: value for key, value in arguments.items() if value is not None and value != {}}


def check_engine(config: RunConfig, variants: Sequence[Variant]) -> None:
    """Refuse a config that its engine cannot train; nothing has been built yet.

    Raises:
        ConfigError: The message names the key, the value, and what the engine can do.
    """
    if config.engine == "pybullet":
        if config.n_envs > MAX_BULLET_ENVS:
            allowed = f"less than or equal to {MAX_BULLET_ENVS}, or engine: fused"
            raise ConfigError(bad_value("n_envs", config.n_envs, allowed))
        return
    if len(variants) > 1:
        why = f"cannot train {len(variants)} variants, which strategy {config.strategy} asks for"
        raise ConfigError(bad_value("engine", "fused", ["pybullet"], why))
    if config.env_processes not in (False, "auto"):
        why = "is not available with engine fused, which is one process"
        raise ConfigError(bad_value("env_processes", config.env_processes, ["false"], why))
    check_supported(env_arguments(config))
