"""State of algorithms, environments and random generators as plain trees, for checkpoints.

A checkpoint holds plain data and arrays (`serialization`). It is loaded into objects that the run has already built, so
a third-party state can set numbers and names, but cannot execute code.
"""

from __future__ import annotations

import copy
import enum
import inspect
import io
import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.distributions import StateDependentNoiseDistribution
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.noise import ActionNoise, VectorizedActionNoise
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.save_util import recursive_getattr
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecMonitor, VecNormalize, unwrap_vec_wrapper

from mygym.envs.batch_vec_env import BatchVecEnv
from mygym.registry.signatures import of_library
from mygym.training.checkpoints import serialization
from mygym.training.checkpoints.serialization import can_be_saved
from mygym.training.vec_wrappers import observation_normalizer, running_statistics

Attributes = list[tuple[str, Any]]
"""Names and values of attributes of an object."""


def object_state(value: Any) -> Any:
    """Return the state of an object that is not plain data; None if it has no accessible state."""
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, np.random.RandomState | torch.Generator):
        return value.get_state()
    if isinstance(value, VectorizedActionNoise):
        return [object_state(noise) for noise in value.noises]
    if isinstance(value, ActionNoise):
        return {name: item for name, item in vars(value).items() if can_be_saved(item)}
    if isinstance(value, RunningMeanStd):
        return dict(vars(value))
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict") and not isinstance(value, type):
        return value.state_dict()
    if (tree := tree_state(value)) is not None:
        return tree
    if is_dataclass(value) and hasattr(value, "__dict__") and not callable(value) and can_be_saved(vars(value)):
        return dict(vars(value))
    return None


def tree_state(value: Any) -> dict[str, Any] | None:
    """Return the leaves of a tree of JAX arrays; None if `value` is not such a tree, or a leaf cannot be saved."""
    state = serialization.leaves(value)
    return state if any(map(serialization.is_array, state.values())) and can_be_saved(state) else None


def load_object_state(target: Any, state: Any) -> None:
    """Restore a state of `object_state`."""
    if isinstance(target, np.random.Generator):
        target.bit_generator.state = copy.deepcopy(state)
    elif isinstance(target, random.Random):
        target.setstate(state)
    elif isinstance(target, np.random.RandomState):
        target.set_state(checked_mersenne_twister(state))
    elif isinstance(target, torch.Generator):
        target.set_state(state)
    elif isinstance(target, VectorizedActionNoise):
        for noise, noise_state in zip(target.noises, state, strict=True):
            load_object_state(noise, noise_state)
    elif isinstance(target, ActionNoise | RunningMeanStd) or is_dataclass(target):
        vars(target).update(copy.deepcopy(dict(state)))
    else:
        target.load_state_dict(copy.deepcopy(state))


def load_tree_state(owner: Any, name: str, state: Mapping[str, Any]) -> None:
    """Replace the JAX tree in the attribute `name` by a tree of the same structure.

    Raises:
        ValueError: The attribute holds no JAX tree, or its structure differs.
    """
    tree = getattr(owner, name)
    if not serialization.is_tree(tree):
        raise ValueError(f"{name} of {type(owner).__name__} holds no JAX arrays")
    try:
        setattr(owner, name, serialization.filled(tree, state))
    except ValueError as error:
        raise ValueError(f"{name} of {type(owner).__name__} differs: {error}") from None


def restored(target: Any, value: Any) -> Any:
    """Return `value` in the types of `target`; tensors are copied in place, because optimisers refer to them."""
    if isinstance(target, torch.Tensor) and isinstance(value, torch.Tensor) and target.shape == value.shape:
        target.data.copy_(value)
        return target
    if isinstance(target, list | tuple) and isinstance(value, list | tuple) and len(target) == len(value):
        items = [restored(old, new) for old, new in zip(target, value, strict=True)]
        return type(target)(*items) if hasattr(target, "_fields") else type(target)(items)
    if isinstance(target, dict) and isinstance(value, dict):
        result = copy.copy(target)  # a defaultdict keeps its default factory
        result.clear()
        result.update({key: restored(target.get(key), item) for key, item in value.items()})
        return result
    if isinstance(target, Mapping) and isinstance(value, dict):  # an immutable mapping
        return type(target)({key: restored(target.get(key), item) for key, item in value.items()})  # type: ignore[call-arg]
    return value


def checked_mersenne_twister(state: Any) -> Any:
    """Return the state of a numpy `RandomState` after a check of its position, which numpy uses as a memory index.

    Raises:
        ValueError: The position is out of range.
    """
    if not 0 <= state[2] <= len(state[1]):
        raise ValueError(f"{state[2]} is not a position in the state of a random generator")
    return state


EXCLUDED = frozenset(
    {
        "action_space",
        "buffer_size",  # a run that is extended may get a larger buffer
        "env",
        "policy",
        "policy_kwargs",  # part of the config
        "replay_buffer",  # mygym.training.checkpoints.checkpoints
        "rollout_buffer",  # empty whenever a state is taken
        "start_time",  # the run's clock continues
        "_custom_logger",
        "_logger",
        "_total_timesteps",  # belongs to the current call of `learn`
        "_vec_normalize_env",
    }
)
"""Attributes of any SB3 algorithm that are saved elsewhere, or belong to the process.

A class, also of a network, a buffer or a wrapper, adds its own in `_not_in_checkpoints`: another class may use the same
name for its state.
"""

_OF_MODULE = frozenset({*vars(torch.nn.Module()), "action_dist"})
"""Attributes of any network that its `state_dict` or `_GSDE_NOISE` covers, or that training does not change."""

_OF_BUFFER = frozenset({"buffer_size", "env", "full", "infos", "newest", "pos", "separate", "_current_ep_start"})
"""Attributes of buffers that `mygym.training.checkpoints.checkpoints` saves, or that belong to the process."""

_OF_WRAPPER = frozenset({"class_attributes", "metadata", "obs_rms", "render_mode", "venv"})
"""Attributes of wrappers of environments that are saved elsewhere, or belong to the process."""

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
    """Restore a state of `model_state`; raise `ValueError` if it belongs to another algorithm."""
    if hasattr(model, "load_state_dict"):
        model.load_state_dict(state)
    else:
        load_algorithm_state(model, state)


def algorithm_state(model: BaseAlgorithm) -> dict[str, Any]:
    """Return the state of any SB3 algorithm: every attribute that is plain data or has a state."""
    state: dict[str, Any] = {"parameters": copy.deepcopy(model.get_parameters()), **_held(_unnamed_attributes(model))}
    state["policy"] = {name: of_tree for name, value in vars(model.policy).items() if (of_tree := tree_state(value))}
    state["parts"] = {
        name: {**_held(attributes), "size": getattr(part, "buffer_size", 0)}
        for name, (part, attributes) in _parts(model).items()
    }
    if model.action_space is not None:  # off-policy warm-up draws from it
        state["action_space"] = copy.deepcopy(model.action_space.np_random.bit_generator.state)
    state["exploration"] = [
        {name: getattr(noise, name).clone() for name in _GSDE_NOISE} for noise in _gsde_distributions(model)
    ]
    return state


def load_algorithm_state(model: BaseAlgorithm, state: Mapping[str, Any]) -> None:
    """Restore a state of `algorithm_state`; raise `ValueError` if it belongs to another algorithm."""
    model.set_parameters(copy.deepcopy(state["parameters"]), exact_match=True, device=model.device)
    _load_held(model, state, EXCLUDED, model.device)
    for name, value in state.get("policy", {}).items():
        load_tree_state(model.policy, name, value)
    parts = _parts(model)
    for name, held in state.get("parts", {}).items():
        part = parts[name][0]
        if held["size"] == getattr(part, "buffer_size", 0):  # the buffer of an extended run may be larger
            _load_held(part, held, _OF_MODULE if isinstance(part, torch.nn.Module) else _OF_BUFFER, model.device)
    if "action_space" in state:
        model.action_space.np_random.bit_generator.state = copy.deepcopy(state["action_space"])
    for noise, value in zip(_gsde_distributions(model), state["exploration"], strict=True):
        for name in _GSDE_NOISE:
            setattr(noise, name, value[name].clone())


def unsaved(model: BaseAlgorithm) -> list[str]:
    """Return the attributes of `model` and its parts that may change in training and that no checkpoint can hold."""
    owners = {"": (model, _unnamed_attributes(model)), **_parts(model)}
    owners |= {type(wrapper).__name__: (wrapper, attributes) for wrapper, attributes in _wrappers(model.get_env())}
    return [
        f"{owner}.{name}".removeprefix(".")
        for owner, (_, attributes) in owners.items()
        for name, value in attributes
        if not can_be_saved(value) and object_state(value) is None and not _is_constant(value)
    ]


def _held(attributes: Attributes) -> dict[str, dict[str, Any]]:
    """Return copies of the attributes that are plain data, and the states of those that have one."""
    held: dict[str, dict[str, Any]] = {"attributes": {}, "objects": {}}
    for name, value in attributes:
        if can_be_saved(value):
            held["attributes"][name] = copy.deepcopy(value)
        elif (of_object := object_state(value)) is not None:
            held["objects"][name] = copy.deepcopy(of_object)
    return held


def _load_held(owner: Any, held: Mapping[str, Any], base: Collection[str], device: Any = "cpu") -> None:
    """Restore a result of `_held`.

    Raises:
        ValueError: It has an attribute that `_attributes` leaves out, or the state of an object that is not made yet.
    """
    excluded = _excluded(owner, base)
    for name, value in held["attributes"].items():
        if name in excluded or _is_code(owner, name):
            raise ValueError(f"{name} is not an attribute of a {type(owner).__name__} that checkpoints hold")
        present, value = getattr(owner, name, None), copy.deepcopy(value)
        if isinstance(value, torch.Tensor) and present is None:
            value = value.to(device)
        setattr(owner, name, restored(present, value))
    for name, value in held["objects"].items():
        target = getattr(owner, name, None)
        if target is None:
            target = _made(value)
        if target is None:
            raise ValueError(f"{name} of {type(owner).__name__} is made during training: make it in the constructor")
        if serialization.is_tree(target):
            load_tree_state(owner, name, value)
            continue
        is_single_noise = isinstance(target, ActionNoise) and not isinstance(target, VectorizedActionNoise)
        if is_single_noise and isinstance(value, list):
            target = VectorizedActionNoise(target, len(value))  # as `learn` builds it
        if target is not getattr(owner, name, None):
            setattr(owner, name, target)
        load_object_state(target, value)


def _made(state: Any) -> Any:
    """Return a new object for a state of statistics or of a numpy generator; None for another state."""
    if isinstance(state, Mapping) and state.keys() == vars(RunningMeanStd()).keys():
        return RunningMeanStd()
    kind = getattr(np.random, str(state.get("bit_generator")), None) if isinstance(state, Mapping) else None
    is_known = isinstance(kind, type) and issubclass(kind, np.random.BitGenerator)
    return np.random.Generator(kind()) if is_known and kind is not None else None


def _attributes(owner: Any, base: Collection[str]) -> Attributes:
    """Return the attributes that checkpoints may hold: not those of `base`, of `_not_in_checkpoints`, or of code."""
    excluded = _excluded(owner, base)
    return [
        (name, value)
        for name, value in vars(owner).items()
        if name not in excluded and not _is_code(owner, name) and not isinstance(value, _NO_STATE)
        if not _is_result(value)
    ]


def _is_result(value: Any) -> bool:
    """Return whether a value has a tensor with a graph: a network has computed it, and does so again."""
    if isinstance(value, list | tuple):
        return any(map(_is_result, value))
    return isinstance(value, torch.Tensor) and value.grad_fn is not None


_NO_STATE = (BaseAlgorithm, VecEnv, gymnasium.Env, io.IOBase)
"""Classes of attributes that are saved elsewhere, or belong to the process."""


def _unnamed_attributes(model: BaseAlgorithm) -> Attributes:
    """Return the attributes that are neither excluded nor part of `get_parameters`."""
    networks, named = set(map(id, model.policy.modules())), set(model._get_torch_save_params()[0])
    return [
        (name, value) for name, value in _attributes(model, EXCLUDED) if name not in named and id(value) not in networks
    ]


def _parts(model: BaseAlgorithm) -> dict[str, tuple[Any, Attributes]]:
    """Return name → networks and buffers of a user's classes, with the attributes that are saved nowhere else."""
    parts: dict[str, tuple[Any, Attributes]] = {}
    saved = {id(recursive_getattr(model, name)) for name in model._get_torch_save_params()[0]}  # its optimisers
    saved |= set(map(id, model.policy.modules()))
    seen = set[torch.nn.Module]()
    for root, network in vars(model).items():
        for name, part in network.named_modules(seen, root) if isinstance(network, torch.nn.Module) else ():
            if not of_library(type(part)):
                own = _attributes(part, _OF_MODULE)
                parts[name] = part, [each for each in own if not serialization.is_tree(each[1])]
    for name in ("replay_buffer", "rollout_buffer"):
        buffer = getattr(model, name, None)
        if buffer is not None and not of_library(type(buffer)):
            own = _attributes(buffer, _OF_BUFFER)
            parts[name] = buffer, [each for each in own if not _has_rows(each[1], buffer.buffer_size)]
    return {name: (part, [each for each in own if id(each[1]) not in saved]) for name, (part, own) in parts.items()}


def _has_rows(value: Any, count: int) -> bool:
    """Return whether an attribute of a buffer has a row per transition: replay logs them, roll-outs begin without."""
    arrays = value.values() if isinstance(value, Mapping) else (value,)
    return any(getattr(array, "shape", ())[:1] == (count,) and array.dtype != object for array in arrays)


def _wrappers(env: Any) -> Iterator[tuple[VecEnvWrapper, Attributes]]:
    """Yield the wrappers of environments, the outermost first, with the attributes that are saved nowhere else."""
    while isinstance(env, VecEnvWrapper):
        own = [] if of_library(type(env)) else _attributes(env, _OF_WRAPPER)
        if isinstance(env, VecNormalize) and env.norm_reward:
            own = [*own, ("ret_rms", env.ret_rms), ("returns", env.returns)]
        yield env, own
        env = env.venv


def _excluded(owner: Any, base: Collection[str]) -> frozenset[str]:
    """Return `base` with the attributes that the classes of `owner` leave out of checkpoints."""
    return frozenset(base).union(*(vars(cls).get("_not_in_checkpoints", ()) for cls in type(owner).__mro__))


def _is_code(owner: Any, name: str) -> bool:
    """Return whether a class of `owner` has a method or property of this name, and no default value."""
    return hasattr(inspect.getattr_static(type(owner), name, None), "__get__")


def _is_constant(value: Any, seen: tuple[int, ...] = ()) -> bool:
    """Return whether training leaves `value` unchanged: classes, functions, schedules, spaces, enum members."""
    if id(value) in seen:  # of a mapping that holds itself
        return True
    seen = (*seen, id(value))
    if isinstance(value, Mapping):
        return all(_is_constant(item, seen) for item in value.values())
    if isinstance(value, list | tuple):
        return all(_is_constant(item, seen) for item in value)
    return callable(value) or isinstance(value, spaces.Space | torch.device | enum.Enum) or can_be_saved(value)


def _gsde_distributions(model: BaseAlgorithm) -> list[StateDependentNoiseDistribution]:
    """Return the gSDE distributions, whose noise is drawn before the state is taken and used after it."""
    distributions = (getattr(module, "action_dist", None) for module in model.policy.modules())
    return [
        distribution
        for distribution in distributions
        if isinstance(distribution, StateDependentNoiseDistribution) and hasattr(distribution, _GSDE_NOISE[0])
    ]


def random_state() -> dict[str, Any]:
    """Return the state of the global generators of Python, numpy and torch."""
    numpy = np.random.get_state()  # noqa: NPY002  (SB3 draws from the global generator)
    state = {"python": random.getstate(), "numpy": numpy, "torch": torch.get_rng_state()}
    return state | {"cuda": torch.cuda.get_rng_state_all()} if torch.cuda.is_available() else state


def load_random_state(state: Mapping[str, Any]) -> None:
    """Restore a state of `random_state`."""
    random.setstate(state["python"])
    np.random.set_state(checked_mersenne_twister(state["numpy"]))  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])


def env_state(env: VecEnv) -> dict[str, Any]:
    """Return the state of each environment, or of the batch, and the running figures of the wrappers."""
    state: dict[str, Any] = {}
    if isinstance(env.unwrapped, BatchVecEnv):
        state["batch"] = env.unwrapped.batch_state_dict()
    else:
        state["envs"] = env.env_method("state_dict")
    if (normalizer := observation_normalizer(env)) is not None:
        state["normalizer"] = normalizer_state(normalizer)
    state["wrappers"] = [_held(attributes) for _, attributes in _wrappers(env)]
    if (monitor := unwrap_vec_wrapper(env, VecMonitor)) is not None:
        state["monitor"] = {
            "returns": monitor.episode_returns.copy(),
            "lengths": monitor.episode_lengths.copy(),
            "count": monitor.episode_count,
        }
    return state


def load_env_state(env: VecEnv, state: Mapping[str, Any]) -> bool:
    """Restore a state of `env_state`; return whether replayed episodes are bit-identical, as on the same machine."""
    identical = True
    if isinstance(env.unwrapped, BatchVecEnv):
        observations = env.unwrapped.load_batch_state_dict(state["batch"])
        identical = _equal(observations, state["batch"]["observations"])
    for index, single_state in enumerate(state.get("envs", ())):
        (observation,) = env.env_method("load_state_dict", single_state, indices=index)
        identical = identical and _equal(observation, single_state["observation"])
        if "selection" in single_state:  # a process in place of a dead one repeats calls of `set_…` alone
            env.env_method("set_weights", single_state["selection"]["weights"], indices=index)
    if (normalizer := observation_normalizer(env)) is not None:
        load_normalizer_state(normalizer, state["normalizer"])
    for (wrapper, _), held in zip(_wrappers(env), state.get("wrappers", ()), strict=False):  # older runs have none
        _load_held(wrapper, held, _OF_WRAPPER)
    if (monitor := unwrap_vec_wrapper(env, VecMonitor)) is not None:
        monitor.episode_returns = state["monitor"]["returns"].copy()
        monitor.episode_lengths = state["monitor"]["lengths"].copy()
        monitor.episode_count = state["monitor"]["count"]
    env.unwrapped._reset_seeds()  # a pending seed would change the next reset
    return identical


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, Mapping):
        return first.keys() == second.keys() and all(_equal(first[key], second[key]) for key in first)
    return np.array_equal(first, second)


def normalizer_state(normalizer: VecNormalize) -> dict[str, Any]:
    """Return the running mean, variance and count of each array of the observation."""
    statistics = running_statistics(normalizer).items()
    return {key: {"mean": r.mean.copy(), "var": r.var.copy(), "count": float(r.count)} for key, r in statistics}


def load_normalizer_state(normalizer: VecNormalize, state: Mapping[str, Any]) -> None:
    """Restore a state of `normalizer_state`."""
    for key, running in running_statistics(normalizer).items():
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
