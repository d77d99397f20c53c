"""`state_dict` and `load_state_dict` of everything stateful in a run that a library brings without them.

it. What checkpoints write is plain data and arrays (`serialization`): what is loaded is put into objects that the
run has built already, so a state from a stranger can set numbers and names, and run nothing.
"""

from __future__ import annotations

import copy
import enum
import random
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.distributions import StateDependentNoiseDistribution
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.noise import ActionNoise, VectorizedActionNoise
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecMonitor, VecNormalize

from mygym.runs.checkpoints import pytrees
from mygym.runs.checkpoints.serialization import can_be_saved

ELSEWHERE = frozenset(
    {
        "action_space",
        "buffer_size",  # a run that is made longer may get a larger one
        "env",
        "policy",
        "policy_kwargs",  # the config's
        "replay_buffer",  # mygym.runs.checkpoints.replay_log
        "rollout_buffer",  # empty whenever a state is taken
        "start_time",  # the run's clock goes on
        "teacher",  # the config's
        "_custom_logger",
        "_logger",
        "_runner_curves",  # made from the evaluations
        "_total_timesteps",  # of this call of `learn`
        "_vec_normalize_env",
    }
)
"""Attributes of an algorithm that are saved apart, or belong to the process."""


class Stateful:
    """Gives an SB3 algorithm `state_dict` and `load_state_dict`."""

    def state_dict(self) -> dict[str, Any]:
        """Weights, optimisers, noise, counters: what training goes on from, but for the replay buffer."""
        return algorithm_state(self)  # type: ignore[arg-type]

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to where `state_dict` was taken."""
        load_algorithm_state(self, state)  # type: ignore[arg-type]


def algorithm_state(model: BaseAlgorithm) -> dict[str, Any]:
    """State of any SB3 algorithm, also of a user's subclass: every attribute that is plain data or has a state."""
    state: dict[str, Any] = {"parameters": copy.deepcopy(model.get_parameters()), "attributes": {}, "objects": {}}
    for name, value in _own_attributes(model):
        if can_be_saved(value):
            state["attributes"][name] = copy.deepcopy(value)
        elif (of_object := _object_state(value)) is not None:
            state["objects"][name] = copy.deepcopy(of_object)
    state["policy"] = {name: of_tree for name, value in vars(model.policy).items() if (of_tree := _tree_state(value))}
    if model.action_space is not None:  # off-policy warm-up draws from it
        state["action_space"] = copy.deepcopy(model.action_space.np_random.bit_generator.state)
    state["exploration"] = [
        {name: getattr(noise, name).clone() for name in _EXPLORATION} for noise in _exploration(model)
    ]
    return state


def load_algorithm_state(model: BaseAlgorithm, state: Mapping[str, Any]) -> None:
    """The inverse of `algorithm_state`.

    Raises:
        ValueError: The state is not of this algorithm.
    """
    model.set_parameters(copy.deepcopy(state["parameters"]), exact_match=True, device=model.device)
    for name, value in state["attributes"].items():
        if name in ELSEWHERE or hasattr(type(model), name):
            raise ValueError(f"{name} is no attribute of a {type(model).__name__} that a checkpoint holds")
        setattr(model, name, _put(getattr(model, name, None), copy.deepcopy(value)))
    for name, value in state.get("policy", {}).items():
        _fill(model.policy, name, value)
    for name, value in state["objects"].items():
        target = getattr(model, name)
        if pytrees.is_tree(target):
            _fill(model, name, value)
            continue
        if (
            isinstance(target, ActionNoise)
            and isinstance(value, list)
            and not isinstance(target, VectorizedActionNoise)
        ):
            target = VectorizedActionNoise(target, len(value))  # as `learn` makes it
            setattr(model, name, target)
        _load_object_state(target, value)
    if "action_space" in state:
        model.action_space.np_random.bit_generator.state = copy.deepcopy(state["action_space"])
    for noise, value in zip(_exploration(model), state["exploration"], strict=True):
        for name in _EXPLORATION:
            setattr(noise, name, value[name].clone())


def _fill(owner: Any, name: str, state: Mapping[str, Any]) -> None:
    """Put a tree in place of the attribute `name`, which has the same structure.

    Raises:
        ValueError: It has another.
    """
    tree = getattr(owner, name)
    if not pytrees.is_tree(tree):
        raise ValueError(f"{name} of {type(owner).__name__} holds no arrays of JAX's")
    try:
        setattr(owner, name, pytrees.filled(tree, state))
    except ValueError as error:
        raise ValueError(f"{name} of {type(owner).__name__} is another: {error}") from None


def unsaved(model: BaseAlgorithm) -> list[str]:
    """Attributes of `model` that may change in training and that no checkpoint can hold."""
    return [
        name
        for name, value in _own_attributes(model)
        if not can_be_saved(value) and _object_state(value) is None and not _is_fixed(value)
    ]


def _own_attributes(model: BaseAlgorithm) -> Iterator[tuple[str, Any]]:
    """Attributes that are neither elsewhere nor part of what `get_parameters` gives."""
    networks = set(map(id, model.policy.modules()))
    named = set(model._get_torch_save_params()[0])
    for name, value in vars(model).items():
        if name not in ELSEWHERE and name not in named and id(value) not in networks:
            yield name, value


def _is_fixed(value: Any) -> bool:
    """What a constructor sets and training leaves alone: classes, functions, schedules, spaces, choices."""
    if isinstance(value, Mapping):
        return all(_is_fixed(item) for item in value.values())
    if isinstance(value, list | tuple):
        return all(_is_fixed(item) for item in value)
    return callable(value) or isinstance(value, spaces.Space | torch.device | enum.Enum) or can_be_saved(value)


def _put(target: Any, value: Any) -> Any:
    """`value` as `target` wants it: into the same tensors, which optimisers and others refer to, in the same types."""
    if isinstance(target, torch.Tensor) and isinstance(value, torch.Tensor) and target.shape == value.shape:
        target.data.copy_(value)
        return target
    if isinstance(target, list | tuple) and isinstance(value, list | tuple) and len(target) == len(value):
        items = [_put(one, other) for one, other in zip(target, value, strict=True)]
        return type(target)(*items) if hasattr(target, "_fields") else type(target)(items)
    if isinstance(target, dict) and isinstance(value, dict):
        result = copy.copy(target)  # a defaultdict keeps its default
        result.clear()
        result.update({key: _put(target.get(key), item) for key, item in value.items()})
        return result
    if isinstance(target, Mapping) and isinstance(value, dict):  # one that is frozen
        return type(target)({key: _put(target.get(key), item) for key, item in value.items()})  # type: ignore[call-arg]
    return value


def _object_state(value: Any) -> Any:
    """State of an object that is no plain data; None if it has none that can be had."""
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, np.random.RandomState | torch.Generator):
        return value.get_state()
    if isinstance(value, VectorizedActionNoise):
        return [_object_state(noise) for noise in value.noises]
    if isinstance(value, ActionNoise):
        return {name: item for name, item in vars(value).items() if can_be_saved(item)}
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict") and not isinstance(value, type):
        return value.state_dict()
    if (tree := _tree_state(value)) is not None:
        return tree
    if is_dataclass(value) and hasattr(value, "__dict__") and not callable(value) and can_be_saved(vars(value)):
        return dict(vars(value))
    return None


def _tree_state(value: Any) -> dict[str, Any] | None:
    """Leaves of a tree of JAX's arrays, if all of them can be saved."""
    state = pytrees.leaves(value)
    return state if any(map(pytrees.is_array, state.values())) and can_be_saved(state) else None


def _load_object_state(target: Any, state: Any) -> None:
    """The inverse of `_object_state`."""
    if isinstance(target, np.random.Generator):
        target.bit_generator.state = copy.deepcopy(state)
    elif isinstance(target, random.Random):
        target.setstate(state)
    elif isinstance(target, np.random.RandomState):
        target.set_state(_mersenne_twister(state))
    elif isinstance(target, torch.Generator):
        target.set_state(state)
    elif isinstance(target, VectorizedActionNoise):
        for noise, one in zip(target.noises, state, strict=True):
            _load_object_state(noise, one)
    elif isinstance(target, ActionNoise) or is_dataclass(target):
        vars(target).update(copy.deepcopy(dict(state)))
    else:
        target.load_state_dict(copy.deepcopy(state))


_EXPLORATION = ("exploration_mat", "exploration_matrices")


def _exploration(model: BaseAlgorithm) -> list[StateDependentNoiseDistribution]:
    """Distributions (gSDE) whose noise was drawn before the state is taken, and lasts beyond it."""
    found = (getattr(module, "action_dist", None) for module in model.policy.modules())
    return [one for one in found if isinstance(one, StateDependentNoiseDistribution) and hasattr(one, _EXPLORATION[0])]


def random_state() -> dict[str, Any]:
    """State of Python's, numpy's and torch's global generators."""
    numpy = np.random.get_state()  # noqa: NPY002  (SB3 draws from the global generator)
    state = {"python": random.getstate(), "numpy": numpy, "torch": torch.get_rng_state()}
    return state | {"cuda": torch.cuda.get_rng_state_all()} if torch.cuda.is_available() else state


def load_random_state(state: Mapping[str, Any]) -> None:
    """The inverse of `random_state`."""
    random.setstate(state["python"])
    np.random.set_state(_mersenne_twister(state["numpy"]))  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])


def _mersenne_twister(state: Any) -> Any:
    """The state of numpy's old generator, looked at: numpy would read wherever in memory its third part says."""
    if not 0 <= state[2] <= len(state[1]):
        raise ValueError(f"{state[2]} is no place in the state of a random generator")
    return state


def logger_state(logger: Logger) -> dict[str, Any]:
    """Values that were recorded and not yet written."""
    values = {key: value for key, value in logger.name_to_value.items() if can_be_saved(value)}
    return {"values": values, "counts": dict(logger.name_to_count), "excluded": dict(logger.name_to_excluded)}


def load_logger_state(logger: Logger, state: Mapping[str, Any]) -> None:
    """The inverse of `logger_state`."""
    for target, key in ((logger.name_to_value, "values"), (logger.name_to_count, "counts")):
        target.clear()
        target.update(state[key])
    logger.name_to_excluded.clear()
    logger.name_to_excluded.update(state["excluded"])


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


def load_env_state(env: VecEnv, state: Mapping[str, Any]) -> bool:
    """The inverse of `env_state`; the environments replay their episodes.

    Returns:
        Whether they have come to the same observations to the bit, as they do on the same machine.
    """
    same = True
    for index, one in enumerate(state["envs"]):
        (observation,) = env.env_method("load_state_dict", one, indices=index)
        same = same and _equal(observation, one["observation"])
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
    return same


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    return np.array_equal(one, other)


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
