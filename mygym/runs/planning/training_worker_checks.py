"""Refusals of runs that several processes cannot train: `workers` and `overlap`."""

from __future__ import annotations

from typing import Any

from mygym.config import RunConfig
from mygym.errors import ConfigError, bad_value


def check_workers(config: RunConfig, cls: type[Any]) -> None:
    """Refuse `workers` of a config that the processes cannot share.

    Args:
        config: The complete config.
        cls: Class of the algorithm.

    Raises:
        ConfigError: The message names the key and the allowed values.
    """
    if config.workers == 1:
        return
    from stable_baselines3 import A2C, PPO

    from mygym.runs.workers.joint_training import gathers_rollouts

    if not (issubclass(cls, A2C | PPO) or gathers_rollouts(cls)):
        # other classes take other numbers of gradient steps, or change weights without them
        why = f"is not available with algo {config.algo} of {config.framework}"
        allowed = "1, or ppo or a2c of framework pytorch, ppo of framework jax, or a subclass of these"
        raise ConfigError(bad_value("workers", config.workers, allowed, why))
    if cls.__module__ == "__main__":
        why = f"cannot train {cls.__name__}, which is defined in a notebook or in the main script"
        allowed = "1, or an algorithm in a file in algos/ or in a module for --import"
        raise ConfigError(bad_value("workers", config.workers, allowed, why))
    if config.strategy != "standard":
        why = f"is not available with strategy {config.strategy}"
        raise ConfigError(bad_value("workers", config.workers, "1, or strategy standard", why))
    if config.subprocesses not in (False, "auto"):
        why = "is not available with several workers, each of which steps its share of the environments"
        raise ConfigError(bad_value("subprocesses", config.subprocesses, ["false"], why))
    if config.algo_params.get("target_kl") is not None:
        why = "ends updates early, in each of the workers at another step"
        raise ConfigError(bad_value("algo_params.target_kl", config.algo_params["target_kl"], "null", why))
    batch = None if gathers_rollouts(cls) else config.algo_params.get("batch_size")
    for key, value in (("n_envs", config.n_envs), ("algo_params.batch_size", batch)):
        if isinstance(value, int) and value % config.workers:
            raise ConfigError(bad_value(key, value, f"a multiple of workers, {config.workers}"))


def check_overlap(config: RunConfig, cls: type[Any]) -> None:
    """Refuse `overlap` of a config whose gradient steps cannot be taken during the steps of the environments.

    Args:
        config: The complete config.
        cls: Class of the algorithm.

    Raises:
        ConfigError: The message names the key and the allowed values.
    """
    if not config.overlap:
        return
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

    if not issubclass(cls, OffPolicyAlgorithm):
        why = f"is not available with algo {config.algo} of {config.framework}"
        raise ConfigError(bad_value("overlap", True, "false, or an off-policy algorithm such as sac", why))
    if config.engine == "fused":
        why = "is not available with engine fused, which is one process"
        raise ConfigError(bad_value("overlap", True, ["false"], why))
    freq = config.algo_params.get("train_freq", 1)
    if freq not in (1, [1, "step"], (1, "step")):
        why = "is not available with overlap, which trains during the single step of a rollout"
        raise ConfigError(
            bad_value("algo_params.train_freq", freq, "1 (and fewer gradient_steps), or overlap false", why)
        )
