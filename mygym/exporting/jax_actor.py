"""The actor of a JAX policy as a module of torch, with the weights of its flax parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space
from torch import nn
from torch.nn import functional

from mygym.errors import RunError

ACTIVATIONS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": functional.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "elu": functional.elu,
    "selu": functional.selu,
    "silu": functional.silu,
    "swish": functional.silu,
    "softplus": functional.softplus,
    "leaky_relu": functional.leaky_relu,
    "gelu": lambda values: functional.gelu(values, approximate="tanh"),
}
"""Name of an activation in flax → the same function in torch."""

EPSILON = 1e-3
"""Added to variances by SBX's batch renormalisation."""


class JaxActor(nn.Module):
    """The layers of SBX's actors: dense layers with activations, and for CrossQ batch normalisation before each.

    Args:
        policy: A policy of SBX.

    Raises:
        RunError: The network has other layers, or acts on images or by several discrete numbers.
    """

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.observation_space, self.action_space = policy.observation_space, policy.action_space
        self.squash_output = bool(policy.squash_output)
        state = policy.actor_state
        params = state.params.get("params", state.params)  # CrossQ's state has the inner mapping
        self._check(policy, params)
        self.activation = ACTIVATIONS[policy.activation_fn.__name__]
        # A squashed Gaussian has another dense layer at its end, for the standard deviation.
        count = len(policy.net_arch_pi) + 1
        self.layers = nn.ModuleList(_dense(params[f"Dense_{number}"]) for number in range(count))
        self.normalizers = nn.ModuleList(
            _batch_norm(params[f"BatchRenorm_{number}"], state.batch_stats[f"BatchRenorm_{number}"])
            for number in range(count)
            if getattr(policy, "batch_norm_actor", False)
        )

    def _check(self, policy: Any, params: Mapping[str, Any]) -> None:
        names = {re.sub(r"_\d+$", "", name) for name in params}
        unknown = sorted(names - {"Dense", "BatchRenorm", "log_std"})
        activation = getattr(policy.activation_fn, "__name__", str(policy.activation_fn))
        if unknown:
            raise RunError(f"{type(policy).__name__} has the layers {', '.join(unknown)}")
        if activation not in ACTIVATIONS:
            raise RunError(f"{type(policy).__name__} has the activation {activation}")
        if is_image_space(self.observation_space) or isinstance(self.action_space, spaces.MultiDiscrete):
            raise RunError(f"{type(policy).__name__} acts on images or by several discrete numbers")

    def set_training_mode(self, mode: bool) -> None:
        """Do nothing: the layers act as in an evaluation in any mode."""

    def _predict(self, observation: Any, deterministic: bool = True) -> torch.Tensor:
        """Return the actions `(rows, …)` for the observations that `ActingGraph` gives, without noise."""
        arrays = observation.values() if isinstance(observation, dict) else [observation]
        values = torch.cat([array.flatten(1) for array in arrays], 1)
        for number, layer in enumerate(self.layers):
            if self.normalizers:
                values = self.normalizers[number](values)
            values = layer(values)
            if number < len(self.layers) - 1:
                values = self.activation(values)
        if isinstance(self.action_space, spaces.Discrete):
            return values.argmax(1).to(torch.int32)
        return torch.tanh(values) if self.squash_output else values


def _tensor(array: Any) -> torch.Tensor:
    return torch.from_numpy(np.array(array, dtype=np.float32))


def _dense(params: Mapping[str, Any]) -> nn.Linear:
    inputs, outputs = params["kernel"].shape
    layer = nn.Linear(inputs, outputs)
    layer.load_state_dict({"weight": _tensor(params["kernel"]).T, "bias": _tensor(params["bias"])})
    return layer


def _batch_norm(params: Mapping[str, Any], statistics: Mapping[str, Any]) -> nn.BatchNorm1d:
    layer = nn.BatchNorm1d(len(params["scale"]), eps=EPSILON)
    running = {"running_mean": _tensor(statistics["mean"]), "running_var": _tensor(statistics["var"])}
    weights = {"weight": _tensor(params["scale"]), "bias": _tensor(params["bias"])}
    layer.load_state_dict({**weights, **running}, strict=False)  # without the number of batches
    layer.eval()
    return layer
