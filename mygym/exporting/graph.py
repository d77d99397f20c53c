"""The acting part of a policy as a graph, and its files: an ONNX model, or a program of `torch.export`."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import is_image_space
from torch import nn
from torch.distributions import Distribution
from torch.nn import functional

from mygym.errors import RunError
from mygym.exporting.exported_policy import ACTION, FLAT, METADATA, NEXT, ROWS, START, STATES, inputs_of
from mygym.registry import resolve
from mygym.training.policy import CLIP, EPSILON, Policy
from mygym.training.vec_wrappers import without_route

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

JAX_EPSILON = 1e-3
"""Added to variances by SBX's batch renormalisation."""


class JaxActor(nn.Module):
    """The layers of SBX's actors: dense layers with activations, and for CrossQ batch normalisation before each.

    XQC's hidden layers have no bias; batch normalisation follows them before the activation, not after it.

    Raises:
        RunError: The network has other layers, or acts on images or by several discrete numbers.
    """

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.observation_space, self.action_space = policy.observation_space, policy.action_space
        self.squash_output = bool(policy.squash_output)
        self.binary_actions = getattr(policy, "binary_actions", 0)
        state = policy.actor_state
        acting = getattr(state, "averages", vars(state))  # XQC acts with averages
        params = acting["params"].get("params", acting["params"])  # CrossQ's state has the inner mapping
        self._check(policy, params)
        self.activation = ACTIVATIONS[policy.activation_fn.__name__]
        # A squashed Gaussian has another dense layer at its end, for the standard deviation.
        count = len(policy.net_arch_pi) + 1
        self.layers = nn.ModuleList(_dense(params[f"Dense_{number}"]) for number in range(count))
        self.normalizes_first = "bias" not in params["Dense_0"]
        self.normalizers = nn.ModuleList(
            _batch_norm(params[f"BatchRenorm_{number}"], acting["batch_stats"][f"BatchRenorm_{number}"])
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
            steps: list[Callable[..., torch.Tensor]] = [self.activation] if number else []
            if self.normalizers:
                steps.insert(0 if self.normalizes_first else len(steps), self.normalizers[number])
            for step in steps:
                values = step(values)
            values = layer(values)
        if isinstance(self.action_space, spaces.Discrete):
            return values.argmax(1).to(torch.int32)
        if self.squash_output:
            values = torch.tanh(values)
        if self.binary_actions:
            binary = torch.where(values[:, -self.binary_actions :] > 0, 1.0, -1.0)
            values = torch.cat([values[:, : -self.binary_actions], binary], 1)
        return values


def _tensor(array: Any) -> torch.Tensor:
    return torch.from_numpy(np.array(array, dtype=np.float32))


def _dense(params: Mapping[str, Any]) -> nn.Linear:
    inputs, outputs = params["kernel"].shape
    layer = nn.Linear(inputs, outputs, bias="bias" in params)
    weights = {"weight": _tensor(params["kernel"]).T}
    layer.load_state_dict({**weights, "bias": _tensor(params["bias"])} if "bias" in params else weights)
    return layer


def _batch_norm(params: Mapping[str, Any], statistics: Mapping[str, Any]) -> nn.BatchNorm1d:
    layer = nn.BatchNorm1d(len(params["scale"]), eps=JAX_EPSILON)
    running = {"running_mean": _tensor(statistics["mean"]), "running_var": _tensor(statistics["var"])}
    weights = {"weight": _tensor(params["scale"]), "bias": _tensor(params["bias"])}
    layer.load_state_dict({**weights, **running}, strict=False)  # without the number of batches
    layer.eval()
    return layer


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

    The policy's network moves to the CPU.
    """

    low: torch.Tensor
    high: torch.Tensor

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        network = policy.model.policy
        self.network: BasePolicy | JaxActor = (
            JaxActor(network) if hasattr(network, "actor_state") else network.to("cpu")
        )
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


def to_onnx(graph: ActingGraph, description: Mapping[str, Any]) -> bytes:
    """Return the content of an ONNX file.

    Raises:
        Exception: The network does something that a graph cannot express; of torch, of any kind.
    """
    onnx = resolve("onnx:checker")
    with _tracing():
        example = graph.example()
        exported = torch.onnx.export(
            _traced(graph, example), input_names=list(example), output_names=list(graph(example)), verbose=False
        )
    assert exported is not None
    model = exported.model_proto
    _tidy(model)
    model.metadata_props.add(key=METADATA, value=json.dumps(description))
    onnx.check_model(model)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def to_pt2(graph: ActingGraph, description: Mapping[str, Any]) -> bytes:
    """Return the content of a file of `torch.export`; its function maps a dictionary of arrays to another.

    Raises:
        Exception: The network does something that a graph cannot express; of torch, of any kind.
    """
    with _tracing():
        program = _traced(graph, graph.example())
        for node in program.graph.nodes:  # the notes name files of this machine
            node.meta.pop("stack_trace", None)
            node.meta.pop("nn_module_stack", None)
            node.meta.pop("source_fn_stack", None)
        content = io.BytesIO()
        torch.export.save(program, content, extra_files={METADATA: json.dumps(description)})
    return content.getvalue()


WRITERS: Mapping[str, Callable[[ActingGraph, Mapping[str, Any]], bytes]] = {".onnx": to_onnx, ".pt2": to_pt2}
"""Suffix of a file → function that returns its content."""


def _traced(graph: ActingGraph, example: Mapping[str, torch.Tensor]) -> Any:
    rows = torch.export.Dim(ROWS)
    shapes = {name: {axis: rows} for name, axis in graph.row_axes().items()}
    return torch.export.export(graph, (dict(example),), dynamic_shapes=(shapes,))


@contextlib.contextmanager
def _tracing() -> Iterator[None]:
    """Let torch trace silently: it would print notes and whole graphs; distributions check no arguments meanwhile."""
    validates, disabled = Distribution._validate_args, logging.root.manager.disable
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()), torch.no_grad():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        Distribution.set_default_validate_args(False)
        try:
            yield
        finally:
            Distribution.set_default_validate_args(validates)
            logging.disable(disabled)


def _tidy(model: Any) -> None:
    """Name the batch axis, and remove the notes of the conversion: they name files of this machine, and are long."""
    for value in (*model.graph.input, *model.graph.output):
        for axis in value.type.tensor_type.shape.dim:
            if axis.dim_param:
                axis.dim_param = ROWS
    del model.graph.value_info[:]  # has other names of the batch axis
    del model.metadata_props[:], model.graph.metadata_props[:]
    for group in (model.graph.node, model.graph.input, model.graph.output):
        for entry in group:
            del entry.metadata_props[:]
            entry.doc_string = ""
    for tensor in model.graph.initializer:
        del tensor.metadata_props[:]
