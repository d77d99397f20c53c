"""Refusals of runs that several processes (`workers`) cannot train."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mygym.config import RunConfig
from mygym.errors import ConfigError, bad_value
from mygym.runs.planning.variants import Variant


def check_workers(config: RunConfig, cls: type[Any], variants: Sequence[Variant]) -> None:
    """Refuse `workers` of a config that the processes cannot share.

    Args:
        config: The complete config.
        cls: Class of the algorithm.
        variants: Task variants of the training environments.

    Raises:
        ConfigError: The message names the key and the allowed values.
    """
    if config.workers == 1:
        return
    from stable_baselines3 import A2C, PPO

    if not issubclass(cls, A2C | PPO):  # others take other numbers of gradient steps, or change weights without them
        why = f"is not available with algo {config.algo} of {config.framework}"
        allowed = "1, or ppo, a2c or a subclass of theirs, of framework pytorch"
        raise ConfigError(bad_value("workers", config.workers, allowed, why))
    if config.strategy != "standard":
        raise ConfigError(bad_value("strategy", config.strategy, ["standard"], "is not available with several workers"))
    if len(variants) > 1:
        why = f"cannot train {len(variants)} variants"
        raise ConfigError(bad_value("workers", config.workers, ["1"], why))
    if config.subprocesses not in (False, "auto"):
        why = "is not available with several workers, each of which steps its share of the environments"
        raise ConfigError(bad_value("subprocesses", config.subprocesses, ["false"], why))
    if config.algo_params.get("target_kl") is not None:
        why = "ends updates early, in each of the workers at another step"
        raise ConfigError(bad_value("algo_params.target_kl", config.algo_params["target_kl"], "null", why))
    batch = config.algo_params.get("batch_size")
    for key, value in (("n_envs", config.n_envs), ("algo_params.batch_size", batch)):
        if isinstance(value, int) and value % config.workers:
            raise ConfigError(bad_value(key, value, f"a multiple of workers, {config.workers}"))
