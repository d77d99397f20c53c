"""Buffer of observations and teacher actions for imitation learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.type_aliases import TensorDict

Tensors = torch.Tensor | TensorDict


class ImitationBuffer(BaseBuffer):
    """Ring buffer of observations and labels (the teacher's actions).

    As an algorithm's `replay_buffer` it is part of checkpoints, and each checkpoint writes only new rows (`ReplayLog`).
    Elsewhere it is saved by `state_dict`, with all rows.

    Args:
        buffer_size: Total number of rows, shared by the environments.
        observation_space: Space of the observations.
        action_space: Space of the labels, a `Box`.
        device: Device of the samples.
        n_envs: Number of rows per call of `add`.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
    ) -> None:
        super().__init__(max(buffer_size // n_envs, 1), observation_space, action_space, device, n_envs)
        self.observations = _zeros(observation_space, (self.buffer_size, n_envs))
        self.actions = np.zeros((self.buffer_size, n_envs, self.action_dim), dtype=np.float32)
        self.optimize_memory_usage = False

    def add(self, observations: Any, actions: NDArray[np.float32]) -> None:
        """Add a row for each environment.

        Args:
            observations: `(n_envs, …)`.
            actions: Labels, `(n_envs, A)`.
        """
        if isinstance(self.observations, dict):
            for name, rows in self.observations.items():
                rows[self.pos] = observations[name]
        else:
            self.observations[self.pos] = observations
        self.actions[self.pos] = actions
        self.pos = (self.pos + 1) % self.buffer_size
        self.full = self.full or self.pos == 0

    def _get_samples(self, batch_inds: NDArray[np.int64], env: Any = None) -> tuple[Tensors, torch.Tensor]:  # type: ignore[override]
        """Return observations, normalised by `env` if given, and labels of rows of randomly chosen environments."""
        rows = batch_inds, np.random.randint(self.n_envs, size=len(batch_inds))  # noqa: NPY002  (as SB3's buffers)
        if isinstance(self.observations, dict):
            sampled: Any = self._normalize_obs({name: array[rows] for name, array in self.observations.items()}, env)
            observations: Tensors = {name: self.to_torch(array) for name, array in sampled.items()}
        else:
            sampled = self._normalize_obs(self.observations[rows], env)
            observations = self.to_torch(sampled)
        return observations, self.to_torch(self.actions[rows])

    def state_dict(self) -> dict[str, Any]:
        """Return the filled rows and the position of the next row."""
        rows = {name: array[: self.size()].copy() for name, array in self._arrays().items()}
        return {"rows": rows, "pos": self.pos, "full": self.full}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`.

        Raises:
            ValueError: The rows do not fit.
        """
        for name, array in self._arrays().items():
            rows = state["rows"][name]
            array[: len(rows)] = rows
        self.pos, self.full = int(state["pos"]), bool(state["full"])

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return every array of rows by name."""
        observations = self.observations if isinstance(self.observations, dict) else {"": self.observations}
        return {"actions": self.actions, **{f"observations.{name}": array for name, array in observations.items()}}


def _zeros(space: spaces.Space[Any], rows: tuple[int, int]) -> Any:
    """Return an array of observations, or a dictionary of arrays, with the leading axes `rows`."""
    if isinstance(space, spaces.Dict):
        return {name: _zeros(subspace, rows) for name, subspace in space.spaces.items()}
    assert space.shape is not None
    return np.zeros((*rows, *space.shape), dtype=space.dtype)
