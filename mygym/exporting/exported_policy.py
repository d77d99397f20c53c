"""Exported policies: their formats, and `ExportedPolicy`, which acts. ONNX files need only numpy and onnxruntime."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mygym.envs.arguments import check_observation
from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.nested import at
from mygym.registry.entries import resolve
from mygym.registry.signatures import fits, in_words
from mygym.tasks.observations import CRITIC

FORMATS = {"onnx": ".onnx", "pt2": ".pt2"}
"""Format → suffix of its files."""

VERSION = 2
"""Number of the form of the description."""

METADATA = "mygym"
"""Key of the description, JSON, in the metadata of a file."""

FLAT = "observation"
"""Name of the input for flat observations; the inputs for dictionary observations have their keys."""

ACTION = "action"
"""Name of the output."""

STATES = ("hidden_state", "cell_state")
"""Inputs of a recurrent policy, `(layers, rows, size)`; the outputs have the prefix `NEXT`."""

NEXT = "next_"

START = "episode_start"
"""Input of a recurrent policy, `(rows,)` float32: 1 where an episode begins, so that the state is ignored, else 0."""

GOALS = ("achieved_goal", "desired_goal")
"""Keys of goals in dictionary observations."""

ROWS = "rows"
"""Name of the batch axis."""


def inputs_of(space: spaces.Space[Any]) -> dict[str, spaces.Space[Any]]:
    """Return the space of each array of an observation that a policy takes: the critic's vector is left out."""
    subspaces = space.spaces if isinstance(space, spaces.Dict) else {FLAT: space}
    return {name: subspace for name, subspace in subspaces.items() if name != CRITIC}


Arrays = dict[str, NDArray[Any]]


class OnnxSession:
    """An ONNX file in onnxruntime; `run` returns outputs for inputs with any number of rows.

    Raises:
        RegistryError: onnxruntime is not installed.
        Exception: The file is damaged; of onnxruntime, without a common class.
    """

    def __init__(self, path: Path) -> None:
        options = resolve("onnxruntime:SessionOptions", "an exported policy")()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # errors are raised
        session = resolve("onnxruntime:InferenceSession")(str(path), options, providers=["CPUExecutionProvider"])
        self.shapes: dict[str, tuple[Any, ...]] = {entry.name: tuple(entry.shape) for entry in session.get_inputs()}
        """Name of each input → its shape; the number of rows is arbitrary."""
        self.outputs = tuple(entry.name for entry in session.get_outputs())
        self.description: str | None = session.get_modelmeta().custom_metadata_map.get(METADATA)
        """JSON."""
        self.run = session.run


class TorchSession:
    """A file of `torch.export`, with the attributes of `OnnxSession`; torch loads pickles, which can execute any code.

    Raises:
        Exception: The file is damaged; of torch, without a common class.
    """

    def __init__(self, path: Path) -> None:
        import torch

        torch.set_num_threads(1)
        contents = {METADATA: ""}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given buffer is not writable")  # torch 2.10, of its reader
            program = torch.export.load(path, extra_files=contents)
        (example,), _ = program.example_inputs
        self._module, self._torch = program.module(), torch
        self.shapes = {name: tuple(tensor.shape) for name, tensor in example.items()}
        self.description: str | None = contents[METADATA]
        with torch.no_grad():
            self.outputs = tuple(self._module(example))

    def run(self, outputs: Sequence[str], inputs: Arrays) -> list[NDArray[Any]]:
        """Return outputs for inputs with any number of rows."""
        with self._torch.no_grad():
            results = self._module({name: self._torch.as_tensor(inputs[name]) for name in self.shapes})
        return [results[name].numpy() for name in outputs]


ALLOWED = f"a policy that `mygym export` has written, {' or '.join(FORMATS.values())}"


class ExportedPolicy:
    """Policy of a file that `mygym export` has written; acts on raw observations, without noise.

    Args:
        path: The file.
        trust: Open a file of `torch.export`, although the pickles in it can execute any code.

    Attributes:
        description: Robot, controller, components of observations and actions, and environment of the policy.

    Raises:
        ConfigError: The file is missing, damaged, not an exported policy, or needs `trust`.
        RegistryError: onnxruntime is not installed.
    """

    def __init__(self, path: str | Path, *, trust: bool = False) -> None:
        self.path = Path(path)
        self._session = _open(self.path, trust)
        self.description = _description(self.path, self._session.description)
        shapes = self._session.shapes
        self.names = tuple(shapes)
        self._ranks = {name: len(shape) for name, shape in shapes.items()}
        self._observed = {name: [shape[1:]] for name, shape in shapes.items() if name not in (*STATES, START)}
        self._state_shapes = [shapes[name] for name in STATES if name in shapes]
        self._outputs = [ACTION, *(NEXT + name for name in STATES if name in shapes)]
        if sorted(self._session.outputs) != sorted(self._outputs):
            raise _not_exported(self.path)

    @property
    def is_recurrent(self) -> bool:
        """Whether the policy has a state."""
        return START in self.names

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[NDArray[Any], Any]:
        """Return actions and the state of a recurrent policy, as SB3's `predict`.

        Args:
            observation: A raw observation of the environment, or a batch of them.
            state: State of a recurrent policy; None at first.
            episode_start: `(n,)` bool: rows whose state to reset.
            deterministic: Without effect: the file has no noise.

        Raises:
            ConfigError: The observation is not one that the policy takes.
        """
        inputs: Arrays = dict(observation) if isinstance(observation, dict) else {FLAT: observation}
        inputs.pop(CRITIC, None)
        check_observation(inputs, self._observed)
        types = {name: self.description["observation"][name]["dtype"] for name in self._observed}
        inputs = {name: np.asarray(inputs[name], dtype) for name, dtype in types.items()}
        name = next(iter(inputs))
        is_single = inputs[name].ndim < self._ranks[name]
        if is_single:
            inputs = {name: values[None] for name, values in inputs.items()}
        if self.is_recurrent:
            inputs |= self._memory(len(inputs[name]), state, episode_start)
        actions, *state = self._session.run(self._outputs, inputs)
        return actions[0] if is_single else actions, tuple(state) or None

    def check_observations(self, space: spaces.Space[Any]) -> None:
        """Check that the observation space of an environment has the arrays that the policy takes.

        Args:
            space: The space.

        Raises:
            ConfigError: The keys or the shapes differ: the environment has changed since the export.
        """
        given = {name: list(subspace.shape or ()) for name, subspace in inputs_of(space).items()}
        needed = {name: entry.get("shape") for name, entry in self.description["observation"].items()}
        if given != needed:
            why = f"does not fit its environment, which has changed: the observation has the shapes {given}"
            raise ConfigError(bad_value("file", str(self.path), f"the shapes {needed}, or a new export", why))

    def _memory(self, rows: int, state: Any, episode_start: Any) -> Arrays:
        """Return the inputs that only a recurrent policy has."""
        if state is None:
            state = [np.zeros((layers, rows, size), np.float32) for layers, _, size in self._state_shapes]
        starts = np.zeros(rows, bool) if episode_start is None else np.asarray(episode_start)
        return {**dict(zip(STATES, state, strict=True)), START: starts.astype(np.float32)}


def _open(path: Path, trust: bool) -> OnnxSession | TorchSession:
    """Return the function of a file; refuse a file that is missing or damaged, or needs `trust`."""
    if path.suffix not in FORMATS.values() or not path.is_file():  # reading a pipe would block
        why = "does not exist" if path.suffix in FORMATS.values() else "is not an exported policy"
        raise ConfigError(bad_value("file", str(path), ALLOWED, why))
    if path.suffix == FORMATS["pt2"] and not trust:
        why = "holds pickles, which can execute any code"
        allowed = "--trust if you trust its author, or an .onnx file, which executes no code"
        raise ConfigError(bad_value("file", str(path), allowed, why))
    session: type[OnnxSession] | type[TorchSession] = OnnxSession if path.suffix == FORMATS["onnx"] else TorchSession
    try:
        return session(path)
    except RegistryError:
        raise
    except Exception as error:  # of onnxruntime and torch, without a common class
        why = f"cannot be read: {' '.join(str(error).split()):.200}"
        raise ConfigError(bad_value("file", str(path), ALLOWED, why)) from error


FORM: Mapping[str, Any] = {
    "env.imports": list[str],
    "env.labels": list[str],
    "env.arguments": list[dict[str, Any]],
    "env.codes": list[list[float]] | None,
    "observation": dict[str, dict[str, Any]],
    "action": dict[str, Any],
    "action.values": list[int] | None,
    "control.rate_hz": float,
    "robot.arms": list[dict[str, Any]],
    "home.joint_position": list[float],
}
"""Dotted key of the description → type of its value."""


def _description(path: Path, text: str | None) -> dict[str, Any]:
    """Return the description in the metadata; refuse a file without one, a damaged one, or that of another version."""
    try:
        content = json.loads(text or "null")
    except ValueError:
        content = None
    if not isinstance(content, dict) or not {"env", "observation", "action"} <= content.keys():
        raise _not_exported(path)
    if content.get("version") != VERSION:
        why = f"has a description of version {content.get('version')}"
        raise ConfigError(bad_value("file", str(path), f"version {VERSION}, of this mygym", why))
    for key, hint in FORM.items():
        value = at(content, tuple(key.split(".")))
        if not fits(value, hint) or value == 0:
            why = f"has a damaged description, in which {key} is {value!r:.80}"
            raise ConfigError(bad_value("file", str(path), f"{in_words(hint)}, as in a new export", why))
    return content


def _not_exported(path: Path) -> ConfigError:
    why = "is not an exported policy: it has no description of mygym"
    return ConfigError(bad_value("file", str(path), ALLOWED, why))
