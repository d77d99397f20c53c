"""A trained policy: the network and its normaliser, saved as plain tensors, loaded without unpickling anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from stable_baselines3.common.vec_env import VecEnv, VecNormalize, unwrap_vec_normalize

from mygym.errors import ConfigError, RunError, bad_value
from mygym.runs.checkpoints import receipts
from mygym.runs.checkpoints.state import normalizer_state
from mygym.runs.directory import BEST_MODEL, BEST_POLICY, POLICY, write_bytes
from mygym.runs.routed_vec_env import seen
from mygym.runs.weights import load_weights, weights

EPSILON = 1e-8
CLIP = 10.0
NORMALIZER = "normalizer."
_NO_REPLAY: dict[str, Any] = {"buffer_size": 1, "replay_buffer_class": None, "replay_buffer_kwargs": {}}
"""In place of what an SB3 file says: memory for replay, which for hindsight replay would need an environment."""


class Policy:
    """Acts on raw observations: normalises them as in training, then asks the model."""

    def __init__(self, model: Any, normalizer: Mapping[str, Any] | None = None) -> None:
        self.model = model
        self.normalizer = normalizer

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[NDArray[np.float32], Any]:
        """SB3's `predict`: action and, for recurrent policies, memory.

        Args:
            observation: One observation or a batch of them, as the environment gives it.
            state: Memory of a recurrent policy, None at first.
            episode_start: `(n,)` bool: whose memory to clear.
            deterministic: Act without noise.
        """
        action, state = self.model.predict(self.normalized(observation), state, episode_start, deterministic)
        return action, state

    def normalized(self, observation: Any) -> Any:
        """A raw observation as the model is trained on it."""
        if not self.normalizer:
            return observation
        if isinstance(observation, dict):
            return {key: _scaled(value, self.normalizer[key]) for key, value in observation.items()}
        return _scaled(observation, self.normalizer[""])


def _scaled(value: NDArray[np.float32], running: Mapping[str, Any]) -> NDArray[np.float32]:
    scaled = (value - running["mean"]) / np.sqrt(running["var"] + EPSILON)
    clipped: NDArray[np.float32] = np.clip(scaled, -CLIP, CLIP).astype(np.float32)
    return clipped


def normalizer_of(env: VecEnv | None) -> dict[str, Any] | None:
    """The running figures of a vector environment's normaliser, if it has one."""
    layer: VecNormalize | None = unwrap_vec_normalize(env) if env is not None else None
    return normalizer_state(layer) if layer is not None else None


def save_policy(path: Path, model: Any, normalizer: Mapping[str, Any] | None) -> None:
    """Write the policy network's tensors, and the normaliser's, as safetensors."""
    tensors = {key: value.detach().cpu().contiguous().clone() for key, value in weights(model).items()}
    counts = {}
    for key, running in (normalizer or {}).items():
        tensors[f"{NORMALIZER}{key}.mean"] = torch.as_tensor(np.asarray(running["mean"]))
        tensors[f"{NORMALIZER}{key}.var"] = torch.as_tensor(np.asarray(running["var"]))
        counts[key] = running["count"]
    metadata = {"normalizer": json.dumps(counts)} if normalizer else {}
    write_bytes(path, save(tensors, metadata))  # save_file would hide it from others


def load_policy(path: Path, model: Any) -> Policy:
    """Fill a newly built `model` with the tensors of `save_policy`.

    Raises:
        RunError: Missing, damaged, or of another network or normaliser.
    """
    tensors, normalizer = _read(path)
    try:
        load_weights(model, tensors)
    except ValueError as error:
        raise RunError(f"{path}: cannot be loaded: {' '.join(str(error).split())}") from None
    model.policy.set_training_mode(False)
    return _fitting(path, model, normalizer)


def open_model(path: Path, cls: Any, trust: bool, device: str = "cpu") -> Policy:
    """Open an SB3 file for acting, with the normaliser of the policy file that was written with it.

    Args:
        path: A `.zip` in a run directory.
        cls: The algorithm's class.
        device: Where its networks go.
        trust: Open it whoever has written it.

    Raises:
        ConfigError: A stranger's file, and no trust.
        RunError: Damaged, or of another class.
    """
    if not trust and not receipts.is_ours(path):
        why = "was not written by this project on this machine: it holds pickles, which can run any code of its maker's"
        allowed = "--trust if you trust whoever made it, or the run's policy.safetensors, which runs none"
        raise ConfigError(bad_value("run", str(path), allowed, why))
    try:
        model = cls.load(path, device=device, custom_objects=_NO_REPLAY)
    except Exception as error:  # whatever the pickles in it raise
        raise RunError(f"{path}: cannot be loaded: {type(error).__name__}: {' '.join(str(error).split())}") from error
    policy = path.with_name(BEST_POLICY if path.name == BEST_MODEL else POLICY)
    return _fitting(policy, model, _read(policy)[1])


def _fitting(path: Path, model: Any, normalizer: Mapping[str, Any] | None) -> Policy:
    """The policy of `model` with the normaliser that `path` holds.

    Raises:
        RunError: It is none of the model's observations.
    """
    space = seen(model.observation_space)
    parts = space.spaces if isinstance(space, spaces.Dict) else {"": space}
    shapes = {key: (part.shape, part.shape) for key, part in parts.items()}
    found = {key: (running["mean"].shape, running["var"].shape) for key, running in (normalizer or {}).items()}
    if normalizer and found != shapes:
        raise RunError(f"{path}: cannot be loaded: its normaliser is not one of the model's observations")
    return Policy(model, normalizer)


def _read(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any] | None]:
    """The network's tensors and the normaliser.

    Raises:
        RunError: Missing, damaged, or with numbers that training does not come to.
    """
    try:
        return _parsed(path)
    except (OSError, RuntimeError, SafetensorError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise RunError(f"{path}: cannot be loaded: {' '.join(str(error).split())}") from None


def _parsed(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any] | None]:
    if not path.is_file():  # for a pipe one would wait
        raise FileNotFoundError("there is no such file")
    with safe_open(path, framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  (no dictionary)
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
    if any((running["var"] < 0).any() for running in normalizer.values()):
        raise ValueError("it holds a variance below zero")
    return tensors, normalizer or None
