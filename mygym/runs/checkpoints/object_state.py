"""State of single attributes: random generators, noise, modules, optimisers, JAX trees, dataclasses."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.noise import ActionNoise, VectorizedActionNoise

from mygym.runs.checkpoints import pytrees
from mygym.runs.checkpoints.serialization import can_be_saved


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
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict") and not isinstance(value, type):
        return value.state_dict()
    if (tree := tree_state(value)) is not None:
        return tree
    if is_dataclass(value) and hasattr(value, "__dict__") and not callable(value) and can_be_saved(vars(value)):
        return dict(vars(value))
    return None


def tree_state(value: Any) -> dict[str, Any] | None:
    """Return the leaves of a tree of JAX arrays; None if `value` is not such a tree, or a leaf cannot be saved."""
    state = pytrees.leaves(value)
    return state if any(map(pytrees.is_array, state.values())) and can_be_saved(state) else None


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
    elif isinstance(target, ActionNoise) or is_dataclass(target):
        vars(target).update(copy.deepcopy(dict(state)))
    else:
        target.load_state_dict(copy.deepcopy(state))


def load_tree_state(owner: Any, name: str, state: Mapping[str, Any]) -> None:
    """Replace the JAX tree in the attribute `name` by a tree of the same structure.

    Raises:
        ValueError: The attribute holds no JAX tree, or its structure differs.
    """
    tree = getattr(owner, name)
    if not pytrees.is_tree(tree):
        raise ValueError(f"{name} of {type(owner).__name__} holds no JAX arrays")
    try:
        setattr(owner, name, pytrees.filled(tree, state))
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
