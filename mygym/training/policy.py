"""`Policy`, a trained network with its normaliser: saved as plain tensors, loaded without unpickling."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.save_util import recursive_getattr
from stable_baselines3.common.vec_env import VecEnv

from mygym.envs.arguments import check_observation
from mygym.errors import ConfigError, RunError, bad_value
from mygym.tasks.observations import CRITIC
from mygym.training.checkpoints import serialization
from mygym.training.checkpoints.states import normalizer_state
from mygym.training.directory import BEST_MODEL, BEST_POLICY, POLICY
from mygym.training.files import write_bytes
from mygym.training.vec_wrappers import observation_normalizer, without_route

_OPTIMISER_FIELDS = ("step", "opt_state")
"""Fields of a flax train state that belong to the optimiser; the other arrays belong to the networks."""


def weights(model: Any) -> dict[str, torch.Tensor]:
    """Return the networks' weights, including targets and running statistics; tensors may share the model's memory."""
    states = dict(_train_states(model))
    if not states:
        return dict(model.policy.state_dict())
    return {name: serialization.to_tensor(leaf) for name, leaf in serialization.leaves(_networks(states)).items()}


def load_weights(model: Any, tensors: Mapping[str, torch.Tensor]) -> None:
    """Load the result of `weights` into the policy's networks; raise `ValueError` if it belongs to other networks."""
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
    arrays = {name: serialization.to_array(tensor) for name, tensor in tensors.items()}
    for name, networks in serialization.filled(_networks(states), arrays).items():
        setattr(model.policy, name, states[name].replace(**networks))


def parameter_counts(model: Any) -> dict[str, int]:
    """Return the number of trained parameters of each module of the policy."""
    modules = model.policy.named_children()
    counts = {name: sum(parameter.numel() for parameter in module.parameters()) for name, module in modules}
    for name, state in _train_states(model):
        counts[name.removesuffix("_state")] = sum(leaf.size for leaf in serialization.leaves(state.params).values())
    return {name: count for name, count in counts.items() if count}


def optimizers_of(model: Any) -> list[torch.optim.Optimizer]:
    """Return the optimisers of an SB3 algorithm; none in JAX."""
    parts = (recursive_getattr(model, name) for name in model._get_torch_save_params()[0])
    return [part for part in parts if isinstance(part, torch.optim.Optimizer)]


def _train_states(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield the policy's attributes that are flax train states."""
    for name, value in vars(model.policy).items():
        if hasattr(value, "params") and hasattr(value, "replace") and serialization.is_tree(value):
            yield name, value


def _networks(states: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        name: {
            field.name: getattr(state, field.name)
            for field in fields(state)
            if field.metadata.get("pytree_node", True) and field.name not in _OPTIMISER_FIELDS
        }
        for name, state in states.items()
    }


EPSILON = 1e-8
CLIP = 10.0
NORMALIZER = "normalizer."
_NO_REPLAY: dict[str, Any] = {"buffer_size": 1, "replay_buffer_class": None, "replay_buffer_kwargs": {}}
"""Values that replace values of an SB3 file: acting needs no replay buffer and no hindsight replay."""


class Policy:
    """Policy that acts on raw observations: it normalises them with the figures of training, then calls the model.

    Args:
        model: An SB3 algorithm.
        normalizer: Running figures of the normaliser; None: observations are not normalised.
    """

    def __init__(self, model: Any, normalizer: Mapping[str, Any] | None = None) -> None:
        self.model = model
        self.normalizer = normalizer
        self._shapes = {
            key: [space.shape[1:] + space.shape[:1], space.shape] if is_image_space(space) else [space.shape]
            for key, space in _subspaces(model).items()
            if key != CRITIC
        }

    def __getstate__(self) -> bytes:
        """Return the policy for `pickle`; only cloudpickle can store the activation functions of JAX."""
        state: bytes = cloudpickle.dumps(self.__dict__)
        return state

    def __setstate__(self, state: bytes) -> None:
        self.__dict__.update(cloudpickle.loads(state))

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[NDArray[np.float32], Any]:
        """Return actions and the state of a recurrent policy, as SB3's `predict`.

        Args:
            observation: An observation of the environment, or a batch of them.
            state: State of a recurrent policy; None at first.
            episode_start: `(n,)` bool: environments whose state to reset.
            deterministic: Act without noise.

        Raises:
            ConfigError: The observation is not one that the policy takes.
        """
        check_observation(observation if isinstance(observation, Mapping) else {"": observation}, self._shapes)
        action, state = self.model.predict(self.normalized(observation), state, episode_start, deterministic)
        return action, state

    def predict_rows(
        self, observations: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[NDArray[np.float32], Any]:
        """Return the result of `predict` with bits that do not depend on the other observations of the batch.

        The last bits of a row of a matrix product depend on the number of rows and on the row's position, and a bit
        may decide an episode. Which ones differ depends on the processor, so each row is computed alone.

        Args:
            observations: A batch `(n, …)` of observations.
            state: State of the last call.
            episode_start: `(n,)` bool: environments whose state to reset.
            deterministic: Act without noise.
        """
        of_sb3 = type(self.model).predict is BaseAlgorithm.predict  # else it may have no policy
        if of_sb3 and type(self.model.policy).predict is BasePolicy.predict:
            with _row_by_row(self.model.policy):  # twice as fast as a call of `predict` for each row
                return self.predict(observations, state, episode_start, deterministic)
        states = state or [None] * len(episode_start)
        rows = zip(_rows(observations), states, episode_start, strict=True)
        results = [self.predict(row, memory, np.array([start]), deterministic) for row, memory, start in rows]
        return np.concatenate([actions for actions, _ in results]), [memory for _, memory in results]

    def normalized(self, observation: Any) -> Any:
        """Return a raw observation as the model receives it in training.

        Args:
            observation: A raw observation of the environment, or a batch of them.
        """
        if not self.normalizer:
            return observation
        if isinstance(observation, dict):
            return {
                key: _scaled(value, self.normalizer[key]) if key in self.normalizer else value  # not images
                for key, value in observation.items()
            }
        return _scaled(observation, self.normalizer[""])


def _subspaces(model: Any) -> dict[str, Any]:
    """Return the space of each array of an environment's observations; the key of an only array is empty."""
    space = without_route(model.observation_space)
    return space.spaces if isinstance(space, spaces.Dict) else {"": space}


def _rows(batch: Any) -> list[Any]:
    """Return the rows of an array or tensor, or of a dictionary of them, as batches of one."""
    if isinstance(batch, Mapping):
        rows = zip(*(_rows(value) for value in batch.values()), strict=True)
        return [dict(zip(batch, row, strict=True)) for row in rows]
    return [batch[row : row + 1] for row in range(len(batch))]


@contextmanager
def _row_by_row(policy: Any) -> Iterator[None]:
    """Let a feed-forward policy of SB3 compute the actions of a batch one row after the other."""
    of_batch = policy._predict

    def of_rows(observation: Any, deterministic: bool = False) -> torch.Tensor:
        return torch.cat([of_batch(row, deterministic=deterministic) for row in _rows(observation)])

    policy._predict = of_rows
    try:
        yield
    finally:
        del policy._predict


def _scaled(value: NDArray[np.float32], running: Mapping[str, Any]) -> NDArray[np.float32]:
    scaled = (value - running["mean"]) / np.sqrt(running["var"] + EPSILON)
    clipped: NDArray[np.float32] = np.clip(scaled, -CLIP, CLIP).astype(np.float32)
    return clipped


def normalizer_of(env: VecEnv | None) -> dict[str, Any] | None:
    """Return the running figures of a vector environment's normaliser; None if it has no normaliser."""
    layer = observation_normalizer(env)
    return normalizer_state(layer) if layer is not None else None


def save_policy(path: Path, model: Any, normalizer: Mapping[str, Any] | None) -> None:
    """Write the tensors of the policy network and the normaliser as safetensors."""
    tensors = {key: value.detach().cpu().contiguous().clone() for key, value in weights(model).items()}
    counts = {}
    for key, running in (normalizer or {}).items():
        tensors[f"{NORMALIZER}{key}.mean"] = torch.as_tensor(np.asarray(running["mean"]))
        tensors[f"{NORMALIZER}{key}.var"] = torch.as_tensor(np.asarray(running["var"]))
        counts[key] = running["count"]
    metadata = {"normalizer": json.dumps(counts)} if normalizer else {}
    write_bytes(path, save(tensors, metadata))  # save_file would create a file that only its owner may read


def load_policy(path: Path, model: Any) -> Policy:
    """Load the tensors of `save_policy` into a newly built `model`.

    Raises:
        RunError: The file is missing or damaged, or belongs to another network or normaliser.
    """
    tensors, normalizer = read_policy(path)
    try:
        load_weights(model, tensors)
    except ValueError as error:
        raise RunError(f"{path}: cannot be loaded: {' '.join(str(error).split())}") from None
    model.policy.set_training_mode(False)
    return _checked_policy(path, model, normalizer)


def open_model(path: Path, cls: Any, trust: bool, device: str = "cpu") -> Policy:
    """Open an SB3 file for acting, with the normaliser of the policy file beside it.

    Raises:
        ConfigError: The file is a third-party file, and `trust` is not set.
        RunError: The file is damaged, or belongs to another class.
    """
    if not trust and not serialization.has_valid_receipt(path):
        why = "was not written by this project on this machine: it holds pickles, which can execute any code"
        allowed = "--trust if you trust its author, or the run's policy.safetensors, which executes no code"
        raise ConfigError(bad_value("run", str(path), allowed, why))
    try:
        model = cls.load(path, device=device, custom_objects=_NO_REPLAY)
    except Exception as error:  # unpickling can raise anything
        raise RunError(f"{path}: cannot be loaded: {type(error).__name__}: {' '.join(str(error).split())}") from error
    policy = path.with_name(BEST_POLICY if path.name == BEST_MODEL else POLICY)
    return _checked_policy(policy, model, read_policy(policy)[1])


def _checked_policy(path: Path, model: Any, normalizer: Mapping[str, Any] | None) -> Policy:
    """Return a policy with the normaliser of the file `path`; raise `RunError` if it does not fit the observations."""
    subspaces = _subspaces(model).items()
    expected = {key: (subspace.shape, subspace.shape) for key, subspace in subspaces if not is_image_space(subspace)}
    shapes = {key: (running["mean"].shape, running["var"].shape) for key, running in (normalizer or {}).items()}
    if normalizer and shapes != expected:
        raise RunError(f"{path}: cannot be loaded: its normaliser does not fit the model's observations")
    return Policy(model, normalizer)


def read_policy(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any] | None]:
    """Return the network's tensors and the normaliser.

    Raises:
        RunError: The file is missing or damaged, or holds numbers that training cannot produce.
    """
    try:
        return _parsed(path)
    except (OSError, RuntimeError, SafetensorError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise RunError(f"{path}: cannot be loaded: {' '.join(str(error).split())}") from None


def _parsed(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any] | None]:
    if not path.is_file():  # reading a pipe would block
        raise FileNotFoundError("the file does not exist")
    with safe_open(path, framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  (not a dictionary)
        metadata = file.metadata() or {}
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
        raise ValueError("it holds a number that is not finite")
    normalizer = {
        key: {
            "mean": tensors.pop(f"{NORMALIZER}{key}.mean").numpy(),
            "var": tensors.pop(f"{NORMALIZER}{key}.var").numpy(),
            "count": count,
        }
        for key, count in json.loads(metadata.get("normalizer", "{}")).items()
    }
    if any(running[name].dtype.kind != "f" for running in normalizer.values() for name in ("mean", "var")):
        raise ValueError("its normaliser does not hold floating-point numbers")
    if any((running["var"] < 0).any() for running in normalizer.values()):
        raise ValueError("it holds a negative variance")
    return tensors, normalizer or None
