"""`state_dict` and `load_state_dict` of SB3 algorithms.

A checkpoint holds plain data and arrays (`serialization`). It is loaded into objects that the run has already built, so
a third-party state can set numbers and names, but cannot execute code.
"""

from __future__ import annotations

import copy
import enum
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.distributions import StateDependentNoiseDistribution
from stable_baselines3.common.noise import ActionNoise, VectorizedActionNoise

from mygym.runs.checkpoints import pytrees
from mygym.runs.checkpoints.object_state import (
    load_object_state,
    load_tree_state,
    object_state,
    restored,
    tree_state,
)
from mygym.runs.checkpoints.serialization import can_be_saved

EXCLUDED = frozenset(
    {
        "action_space",
        "buffer_size",  # a run that is extended may get a larger buffer
        "env",
        "policy",
        "policy_kwargs",  # part of the config
        "postponed",  # mygym.runs.run_state
        "replay_buffer",  # mygym.runs.checkpoints.replay_log
        "rollout_buffer",  # empty whenever a state is taken
        "start_time",  # the run's clock continues
        "teacher",  # part of the config
        "_custom_logger",
        "_device_collection",  # its state is that of environments and normaliser
        "_device_update",
        "_logger",
        "_runner_curves",  # derived from the evaluations
        "_total_timesteps",  # belongs to the current call of `learn`
        "_training_env",  # wraps `env`
        "_vec_normalize_env",
    }
)
"""Attributes of an algorithm that are saved elsewhere, or belong to the process."""

_GSDE_NOISE = ("exploration_mat", "exploration_matrices")


class Stateful:
    """Mixin that adds `state_dict` and `load_state_dict` to an SB3 algorithm."""

    def state_dict(self) -> dict[str, Any]:
        """Return weights, optimisers, noise and counters; the replay buffer is not included."""
        return algorithm_state(self)  # type: ignore[arg-type]

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`."""
        load_algorithm_state(self, state)  # type: ignore[arg-type]


def model_state(model: BaseAlgorithm) -> Any:
    """Return the result of the algorithm's `state_dict` if it has this method, else of `algorithm_state`."""
    return model.state_dict() if hasattr(model, "state_dict") else algorithm_state(model)


def load_model_state(model: BaseAlgorithm, state: Any) -> None:
    """Restore a state of `model_state`.

    Raises:
        ValueError: The state belongs to another algorithm.
    """
    if hasattr(model, "load_state_dict"):
        model.load_state_dict(state)
    else:
        load_algorithm_state(model, state)


def algorithm_state(model: BaseAlgorithm) -> dict[str, Any]:
    """Return the state of any SB3 algorithm: every attribute that is plain data or has a state."""
    state: dict[str, Any] = {"parameters": copy.deepcopy(model.get_parameters()), "attributes": {}, "objects": {}}
    for name, value in _unnamed_attributes(model):
        if can_be_saved(value):
            state["attributes"][name] = copy.deepcopy(value)
        elif (of_object := object_state(value)) is not None:
            state["objects"][name] = copy.deepcopy(of_object)
    state["policy"] = {name: of_tree for name, value in vars(model.policy).items() if (of_tree := tree_state(value))}
    if model.action_space is not None:  # off-policy warm-up draws from it
        state["action_space"] = copy.deepcopy(model.action_space.np_random.bit_generator.state)
    state["exploration"] = [
        {name: getattr(noise, name).clone() for name in _GSDE_NOISE} for noise in _gsde_distributions(model)
    ]
    return state


def load_algorithm_state(model: BaseAlgorithm, state: Mapping[str, Any]) -> None:
    """Restore a state of `algorithm_state`.

    Raises:
        ValueError: The state belongs to another algorithm.
    """
    model.set_parameters(copy.deepcopy(state["parameters"]), exact_match=True, device=model.device)
    for name, value in state["attributes"].items():
        if name in EXCLUDED or hasattr(type(model), name):
            raise ValueError(f"{name} is not an attribute of a {type(model).__name__} that checkpoints hold")
        setattr(model, name, restored(getattr(model, name, None), copy.deepcopy(value)))
    for name, value in state.get("policy", {}).items():
        load_tree_state(model.policy, name, value)
    for name, value in state["objects"].items():
        target = getattr(model, name)
        if pytrees.is_tree(target):
            load_tree_state(model, name, value)
            continue
        if (
            isinstance(target, ActionNoise)
            and isinstance(value, list)
            and not isinstance(target, VectorizedActionNoise)
        ):
            target = VectorizedActionNoise(target, len(value))  # as `learn` builds it
            setattr(model, name, target)
        load_object_state(target, value)
    if "action_space" in state:
        model.action_space.np_random.bit_generator.state = copy.deepcopy(state["action_space"])
    for noise, value in zip(_gsde_distributions(model), state["exploration"], strict=True):
        for name in _GSDE_NOISE:
            setattr(noise, name, value[name].clone())


def unsaved(model: BaseAlgorithm) -> list[str]:
    """Return the attributes of `model` that may change in training and that no checkpoint can hold."""
    return [
        name
        for name, value in _unnamed_attributes(model)
        if not can_be_saved(value) and object_state(value) is None and not _is_constant(value)
    ]


def _unnamed_attributes(model: BaseAlgorithm) -> Iterator[tuple[str, Any]]:
    """Yield the attributes that are neither excluded nor part of `get_parameters`."""
    networks = set(map(id, model.policy.modules()))
    named = set(model._get_torch_save_params()[0])
    for name, value in vars(model).items():
        if name not in EXCLUDED and name not in named and id(value) not in networks:
            yield name, value


def _is_constant(value: Any) -> bool:
    """Return whether training leaves `value` unchanged: classes, functions, schedules, spaces, enum members."""
    if isinstance(value, Mapping):
        return all(_is_constant(item) for item in value.values())
    if isinstance(value, list | tuple):
        return all(_is_constant(item) for item in value)
    return callable(value) or isinstance(value, spaces.Space | torch.device | enum.Enum) or can_be_saved(value)


def _gsde_distributions(model: BaseAlgorithm) -> list[StateDependentNoiseDistribution]:
    """Return the gSDE distributions, whose noise is drawn before the state is taken and used after it."""
    distributions = (getattr(module, "action_dist", None) for module in model.policy.modules())
    return [
        distribution
        for distribution in distributions
        if isinstance(distribution, StateDependentNoiseDistribution) and hasattr(distribution, _GSDE_NOISE[0])
    ]
