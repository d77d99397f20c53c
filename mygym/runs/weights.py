"""The numbers of a policy's networks by name, whichever framework they are in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from mygym.runs.checkpoints import pytrees

_OF_NETWORKS = ("params", "target_params", "batch_stats")
"""What of a flax train state belongs to the networks; the rest is their optimisers'."""


def weights(model: Any) -> dict[str, torch.Tensor]:
    """Weights of the policy's networks, targets and running statistics included; they may be the networks' own."""
    states = dict(_train_states(model))
    if not states:
        return dict(model.policy.state_dict())
    return {name: pytrees.to_tensor(leaf) for name, leaf in pytrees.leaves(_networks(states)).items()}


def load_weights(model: Any, tensors: Mapping[str, torch.Tensor]) -> None:
    """The inverse of `weights`.

    Raises:
        ValueError: They are of other networks.
    """
    states = dict(_train_states(model))
    if not states:
        try:
            model.policy.load_state_dict(tensors)
        except RuntimeError as error:
            raise ValueError(str(error)) from None
        return
    arrays = {name: pytrees.to_array(tensor) for name, tensor in tensors.items()}
    for name, parts in pytrees.filled(_networks(states), arrays).items():
        setattr(model.policy, name, states[name].replace(**parts))


def parameter_counts(model: Any) -> dict[str, int]:
    """How many numbers each part of the policy learns."""
    parts = model.policy.named_children()
    counts = {name: sum(parameter.numel() for parameter in part.parameters()) for name, part in parts}
    for name, state in _train_states(model):
        counts[name.removesuffix("_state")] = sum(leaf.size for leaf in pytrees.leaves(state.params).values())
    return {name: count for name, count in counts.items() if count}


def _train_states(model: Any) -> Iterator[tuple[str, Any]]:
    """The policy's attributes that are flax train states."""
    for name, value in vars(model.policy).items():
        if hasattr(value, "params") and hasattr(value, "replace") and pytrees.is_tree(value):
            yield name, value


def _networks(states: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        name: {part: getattr(state, part) for part in _OF_NETWORKS if hasattr(state, part)}
        for name, state in states.items()
    }
