"""State of vector environments, their wrappers, and SB3's logger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecMonitor, VecNormalize

from mygym.envs.fused_vec_env import FusedVecEnv
from mygym.runs.checkpoints.serialization import can_be_saved


def env_state(env: VecEnv) -> dict[str, Any]:
    """Return the state of each environment, or of the fused engine's batch, and the running figures of the wrappers."""
    batch = env.unwrapped
    state: dict[str, Any] = (
        {"batch": batch.batch_state_dict()}
        if isinstance(batch, FusedVecEnv)
        else {"envs": env.env_method("state_dict")}
    )
    layer = env
    while isinstance(layer, VecEnvWrapper):
        if isinstance(layer, VecNormalize):
            state["normalizer"] = normalizer_state(layer)
        if isinstance(layer, VecMonitor):
            state["monitor"] = {
                "returns": layer.episode_returns.copy(),
                "lengths": layer.episode_lengths.copy(),
                "count": layer.episode_count,
            }
        layer = layer.venv
    return state


def load_env_state(env: VecEnv, state: Mapping[str, Any]) -> bool:
    """Restore a state of `env_state`; the environments replay their episodes.

    Returns:
        Whether the replayed observations are bit-identical, which is the case on the same machine.
    """
    identical = True
    if isinstance(env.unwrapped, FusedVecEnv):
        observations = env.unwrapped.load_batch_state_dict(state["batch"])
        identical = _equal(observations, state["batch"]["observations"])
    for index, single_state in enumerate(state.get("envs", ())):
        (observation,) = env.env_method("load_state_dict", single_state, indices=index)
        identical = identical and _equal(observation, single_state["observation"])
    layer = env
    while isinstance(layer, VecEnvWrapper):
        if isinstance(layer, VecNormalize):
            load_normalizer_state(layer, state["normalizer"])
        if isinstance(layer, VecMonitor):
            layer.episode_returns = state["monitor"]["returns"].copy()
            layer.episode_lengths = state["monitor"]["lengths"].copy()
            layer.episode_count = state["monitor"]["count"]
        layer = layer.venv
    layer._reset_seeds()  # a pending seed would change the next reset
    return identical


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, Mapping):
        return first.keys() == second.keys() and all(_equal(first[key], second[key]) for key in first)
    return np.array_equal(first, second)


def normalizer_state(normalizer: VecNormalize) -> dict[str, Any]:
    """Return the running mean, variance and count of each array of the observation."""
    statistics = normalizer.obs_rms if isinstance(normalizer.obs_rms, dict) else {"": normalizer.obs_rms}
    return {key: {"mean": r.mean.copy(), "var": r.var.copy(), "count": float(r.count)} for key, r in statistics.items()}


def load_normalizer_state(normalizer: VecNormalize, state: Mapping[str, Any]) -> None:
    """Restore a state of `normalizer_state`."""
    statistics = normalizer.obs_rms if isinstance(normalizer.obs_rms, dict) else {"": normalizer.obs_rms}
    for key, running in statistics.items():
        running.mean, running.var = np.array(state[key]["mean"]), np.array(state[key]["var"])
        running.count = state[key]["count"]


def logger_state(logger: Logger) -> dict[str, Any]:
    """Return the values that are recorded but not yet written."""
    values = {key: value for key, value in logger.name_to_value.items() if can_be_saved(value)}
    return {"values": values, "counts": dict(logger.name_to_count), "excluded": dict(logger.name_to_excluded)}


def load_logger_state(logger: Logger, state: Mapping[str, Any]) -> None:
    """Restore a state of `logger_state`."""
    for target, key in ((logger.name_to_value, "values"), (logger.name_to_count, "counts")):
        target.clear()
        target.update(state[key])
    logger.name_to_excluded.clear()
    logger.name_to_excluded.update(state["excluded"])
