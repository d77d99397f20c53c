"""`state_dict` and `load_state_dict` of everything stateful in a run that a library brings without them."""

from __future__ import annotations

import copy
import operator
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import BaseBuffer, DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecMonitor, VecNormalize

ALGORITHM_COUNTERS = (
    "num_timesteps",
    "_total_timesteps",
    "_num_timesteps_at_start",
    "_episode_num",
    "_n_updates",
    "_n_calls",
    "_current_progress_remaining",
    "_last_obs",
    "_last_original_obs",
    "_last_episode_starts",
    "_last_lstm_states",
    "ep_info_buffer",
    "ep_success_buffer",
    "action_noise",
    "old_count",
    "return_buffer",
    "weights",
)
"""What SB3 and sb3-contrib keep on an algorithm beside its networks and buffers."""


class Stateful:
    """Gives an SB3 algorithm `state_dict` and `load_state_dict`."""

    def state_dict(self) -> dict[str, Any]:
        """Weights, optimisers, buffer, noise and counters: everything that training goes on from."""
        return algorithm_state(self)  # type: ignore[arg-type]

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to where `state_dict` was taken."""
        load_algorithm_state(self, state)  # type: ignore[arg-type]


def algorithm_state(model: BaseAlgorithm) -> dict[str, Any]:
    """State of any SB3 algorithm, also of a user's subclass that has no `state_dict` of its own."""
    state: dict[str, Any] = {
        "parameters": copy.deepcopy(model.get_parameters()),
        "variables": {name: copy.deepcopy(_variable(model, name)) for name in model._get_torch_save_params()[1]},
        "counters": {name: copy.deepcopy(getattr(model, name)) for name in ALGORITHM_COUNTERS if hasattr(model, name)},
    }
    if model.action_space is not None:  # off-policy warm-up draws from it
        state["action_space"] = copy.deepcopy(model.action_space.np_random.bit_generator.state)
    buffer = getattr(model, "replay_buffer", None)
    if buffer is not None:
        state["replay_buffer"] = buffer_state(buffer)
    return state


def _variable(model: BaseAlgorithm, name: str) -> torch.Tensor:
    tensor: torch.Tensor = operator.attrgetter(name)(model)
    return tensor


def load_algorithm_state(model: BaseAlgorithm, state: Mapping[str, Any]) -> None:
    """The inverse of `algorithm_state`."""
    model.set_parameters(copy.deepcopy(state["parameters"]), exact_match=True, device=model.device)
    for name, value in state["variables"].items():  # e.g. SAC's log_ent_coef, which is in no module
        _variable(model, name).data.copy_(value.data)
    if "action_space" in state:
        model.action_space.np_random.bit_generator.state = copy.deepcopy(state["action_space"])
    for name, value in state["counters"].items():
        setattr(model, name, copy.deepcopy(value))
    buffer = getattr(model, "replay_buffer", None)
    if buffer is not None:
        load_buffer_state(buffer, state["replay_buffer"])


def buffer_state(buffer: BaseBuffer) -> dict[str, Any]:
    """The filled part of a replay buffer."""
    filled = buffer.buffer_size if buffer.full else buffer.pos
    arrays: dict[str, Any] = {}
    for name, value in vars(buffer).items():
        if isinstance(value, np.ndarray) and value.shape[:1] == (buffer.buffer_size,):
            arrays[name] = value[:filled].copy()
        elif isinstance(value, dict) and isinstance(buffer, DictReplayBuffer):
            arrays[name] = {key: array[:filled].copy() for key, array in value.items() if isinstance(array, np.ndarray)}
    own = {name: copy.deepcopy(getattr(buffer, name)) for name in ("_current_ep_start",) if hasattr(buffer, name)}
    return {"pos": buffer.pos, "full": buffer.full, "arrays": arrays, "own": own}


def load_buffer_state(buffer: BaseBuffer, state: Mapping[str, Any]) -> None:
    """The inverse of `buffer_state`."""
    assert isinstance(buffer, ReplayBuffer)
    buffer.pos, buffer.full = state["pos"], state["full"]
    for name, value in state["arrays"].items():
        target = getattr(buffer, name)
        for array, saved in (
            ((target[key], value[key]) for key in value) if isinstance(value, dict) else [(target, value)]
        ):
            array[: len(saved)] = saved
    for name, value in state["own"].items():
        setattr(buffer, name, copy.deepcopy(value))


def random_state() -> dict[str, Any]:
    """State of Python's, numpy's and torch's global generators."""
    numpy = np.random.get_state()  # noqa: NPY002  (SB3 draws from the global generator)
    return {"python": random.getstate(), "numpy": numpy, "torch": torch.get_rng_state()}


def load_random_state(state: Mapping[str, Any]) -> None:
    """The inverse of `random_state`."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002
    torch.set_rng_state(state["torch"])


def env_state(env: VecEnv) -> dict[str, Any]:
    """State of a vector environment: each environment's own, and its wrappers' running figures."""
    state: dict[str, Any] = {"envs": env.env_method("state_dict")}
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


def load_env_state(env: VecEnv, state: Mapping[str, Any]) -> None:
    """The inverse of `env_state`; the environments replay their episodes."""
    for index, one in enumerate(state["envs"]):
        env.env_method("load_state_dict", one, indices=index)
    layer = env
    while isinstance(layer, VecEnvWrapper):
        if isinstance(layer, VecNormalize):
            load_normalizer_state(layer, state["normalizer"])
        if isinstance(layer, VecMonitor):
            layer.episode_returns = state["monitor"]["returns"].copy()
            layer.episode_lengths = state["monitor"]["lengths"].copy()
            layer.episode_count = state["monitor"]["count"]
        layer = layer.venv
    layer._reset_seeds()  # a seed that waits for the next reset would undo what was just loaded


def normalizer_state(normalizer: VecNormalize) -> dict[str, Any]:
    """Running mean, variance and count of each part of the observation."""
    parts = normalizer.obs_rms if isinstance(normalizer.obs_rms, dict) else {"": normalizer.obs_rms}
    return {key: {"mean": r.mean.copy(), "var": r.var.copy(), "count": float(r.count)} for key, r in parts.items()}


def load_normalizer_state(normalizer: VecNormalize, state: Mapping[str, Any]) -> None:
    """The inverse of `normalizer_state`."""
    parts = normalizer.obs_rms if isinstance(normalizer.obs_rms, dict) else {"": normalizer.obs_rms}
    for key, running in parts.items():
        running.mean, running.var = np.array(state[key]["mean"]), np.array(state[key]["var"])
        running.count = state[key]["count"]
