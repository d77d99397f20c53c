"""Weights of a policy's networks by name, for every framework."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from mygym.runs.checkpoints import pytrees

_NETWORK_FIELDS = ("params", "target_params", "batch_stats")
"""Fields of a flax train state that belong to the networks; the other fields belong to their optimisers."""


def weights(model: Any) -> dict[str, torch.Tensor]:
    """Return the networks' weights, including targets and running statistics; tensors may share the model's memory."""
    states = dict(_train_states(model))
    if not states:
        return dict(model.policy.state_dict())
    return {name: pytrees.to_tensor(leaf) for name, leaf in pytrees.leaves(_networks(states)).items()}


def load_weights(model: Any, tensors: Mapping[str, torch.Tensor]) -> None:
    """Load the result of `weights` into the policy's networks.

    Raises:
        ValueError: The weights belong to other networks.
    """
    states = dict(_train_states(model))
    if not states:
        expected = {name: tensor.dtype for name, tensor in model.policy.state_dict().items()}
        for name, tensor in tensors.items():  # torch would convert them
            if tensor.dtype != expected.get(name, tensor.dtype):
                raise ValueError(f"{name} is {tensor.dtype}, not {expected[name]}")
        try:
            model.policy.load_state_dict(tensors)
        except RuntimeError as error:
            raise ValueError(str(error)) from None
        return
    arrays = {name: pytrees.to_array(tensor) for name, tensor in tensors.items()}
    for name, fields in pytrees.filled(_networks(states), arrays).items():
        setattr(model.policy, name, states[name].replace(**fields))


def parameter_counts(model: Any) -> dict[str, int]:
    """Return the number of trained parameters of each module of the policy."""
    modules = model.policy.named_children()
    counts = {name: sum(parameter.numel() for parameter in module.parameters()) for name, module in modules}
    for name, state in _train_states(model):
        counts[name.removesuffix("_state")] = sum(leaf.size for leaf in pytrees.leaves(state.params).values())
    return {name: count for name, count in counts.items() if count}


def _train_states(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield the policy's attributes that are flax train states."""
    for name, value in vars(model.policy).items():
        if hasattr(value, "params") and hasattr(value, "replace") and pytrees.is_tree(value):
            yield name, value


def _networks(states: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        name: {field: getattr(state, field) for field in _NETWORK_FIELDS if hasattr(state, field)}
        for name, state in states.items()
    }
