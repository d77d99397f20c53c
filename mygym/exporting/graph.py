"""The acting part of a policy as one module of torch: normaliser, network, action scaling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import is_image_space
from torch import nn

from mygym.exporting.formats import ACTION, FLAT, NEXT, START, STATES, inputs_of
from mygym.exporting.jax_actor import JaxActor
from mygym.runs.policy import CLIP, EPSILON, Policy
from mygym.runs.vec_envs.routed_vec_env import without_route

Tensors = dict[str, torch.Tensor]

EXAMPLE_ROWS = 3
"""Rows of the example with which a graph is traced: a size that no other axis is likely to have."""


class Normalizer(nn.Module):
    """Normalises an array as `Policy.normalized` does, in float64."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, running: Mapping[str, Any]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.as_tensor(running["mean"], dtype=torch.float64))
        self.register_buffer("std", torch.as_tensor(np.sqrt(running["var"] + EPSILON), dtype=torch.float64))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Return values `(rows, …)` in standard deviations."""
        return ((values - self.mean) / self.std).clamp(-CLIP, CLIP).to(torch.float32)


class ActingGraph(nn.Module):
    """Maps raw observations to the actions that `Policy.predict(deterministic=True)` returns.

    Args:
        policy: The policy; its network moves to the CPU.
    """

    low: torch.Tensor
    high: torch.Tensor

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        network = policy.model.policy
        self.network: BasePolicy | JaxActor = JaxActor(network) if _is_jax(network) else network.to("cpu")
        self.network.set_training_mode(False)
        space = without_route(self.network.observation_space)
        self.is_flat = not isinstance(space, spaces.Dict)
        self.spaces = inputs_of(space)
        self.images = [name for name, subspace in self.spaces.items() if is_image_space(subspace)]
        """Inputs `(rows, H, W, C)`, which the network takes as `(rows, C, H, W)`."""
        running = policy.normalizer or {}
        self.normalizers = nn.ModuleDict({key or FLAT: Normalizer(figures) for key, figures in running.items()})
        self.action_space = self.network.action_space
        if isinstance(self.action_space, spaces.Box):
            self.register_buffer("low", torch.as_tensor(self.action_space.low))
            self.register_buffer("high", torch.as_tensor(self.action_space.high))

    def forward(self, inputs: Tensors) -> Tensors:
        """Return the actions `(rows, …)` for the arrays `(rows, …)` of an observation."""
        return {ACTION: self.scaled(self.network._predict(self.normalized(inputs), deterministic=True))}

    def normalized(self, inputs: Tensors) -> Any:
        """Return an observation as the network takes it."""
        values = {
            name: self.normalizers[name](inputs[name]) if name in self.normalizers else inputs[name]
            for name in self.spaces
        }
        values |= {name: values[name].movedim(-1, 1) for name in self.images}
        return values[FLAT] if self.is_flat else values

    def scaled(self, actions: torch.Tensor) -> torch.Tensor:
        """Return the network's actions unscaled or clipped to the action space, as SB3's `predict` does."""
        actions = actions.reshape(-1, *(self.action_space.shape or ()))
        if not isinstance(self.action_space, spaces.Box):
            return actions
        if self.network.squash_output:
            return self.low + 0.5 * (actions + 1.0) * (self.high - self.low)
        return actions.clamp(self.low, self.high)

    def example(self) -> Tensors:
        """Return inputs with `EXAMPLE_ROWS` rows."""
        arrays = {name: np.stack([space.sample()] * EXAMPLE_ROWS) for name, space in self.spaces.items()}
        arrays |= {name: np.moveaxis(arrays[name], 1, -1).copy() for name in self.images}
        return {name: torch.as_tensor(array) for name, array in arrays.items()}

    def row_axes(self) -> dict[str, int]:
        """Return the batch axis of each input."""
        return dict.fromkeys(self.spaces, 0)


class RecurrentActingGraph(ActingGraph):
    """The same for a policy with an LSTM, whose state is an input and an output."""

    network: RecurrentActorCriticPolicy

    def forward(self, inputs: Tensors) -> Tensors:
        """Return the actions and the next state."""
        network, going_on = self.network, 1.0 - inputs[START][:, None]
        features = BasePolicy.extract_features(network, self.normalized(inputs), network.pi_features_extractor)
        hidden, cell = (inputs[name] * going_on for name in STATES)
        latent, following = network.lstm_actor(features[None], (hidden, cell))
        actions = network._get_action_dist_from_latent(network.mlp_extractor.forward_actor(latent[0])).mode()
        return {
            ACTION: self.scaled(actions),
            **{NEXT + name: state for name, state in zip(STATES, following, strict=True)},
        }

    def example(self) -> Tensors:
        """Return inputs with `EXAMPLE_ROWS` rows."""
        lstm = self.network.lstm_actor
        shape = lstm.num_layers, EXAMPLE_ROWS, lstm.hidden_size
        states = {name: torch.zeros(shape) for name in STATES}  # two tensors: torch would join equal inputs
        return {**super().example(), **states, START: torch.zeros(EXAMPLE_ROWS)}

    def row_axes(self) -> dict[str, int]:
        """Return the batch axis of each input."""
        return {**super().row_axes(), **dict.fromkeys(STATES, 1), START: 0}


def acting_graph(policy: Policy) -> ActingGraph:
    """Return the acting part of a policy.

    Raises:
        RunError: A network of JAX has layers that `JaxActor` does not know.
    """
    is_recurrent = isinstance(policy.model.policy, RecurrentActorCriticPolicy)
    return RecurrentActingGraph(policy) if is_recurrent else ActingGraph(policy)


def _is_jax(network: Any) -> bool:
    return hasattr(network, "actor_state")
