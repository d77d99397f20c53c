"""What was seen and what a teacher would have done there: the data set of algorithms that learn from labels."""

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
    """Observations and labels, as many as fit; then the newest take the place of the oldest.

    As an algorithm's `replay_buffer` it is part of checkpoints, each of which writes what is new (`ReplayLog`); anybody
    else's has `state_dict`, with every row.

    Args:
        buffer_size: Rows in all, shared by the environments.
        observation_space: Of the observations.
        action_space: Of the labels, a box.
        device: Where samples are put.
        n_envs: How many rows are added at a time.
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
        self.observations = _empty(observation_space, (self.buffer_size, n_envs))
        self.actions = np.zeros((self.buffer_size, n_envs, self.action_dim), dtype=np.float32)
        self.optimize_memory_usage = False

    def add(self, observations: Any, actions: NDArray[np.float32]) -> None:
        """A row for each environment: observations `(n_envs, …)` and labels `(n_envs, A)`."""
        if isinstance(self.observations, dict):
            for name, rows in self.observations.items():
                rows[self.pos] = observations[name]
        else:
            self.observations[self.pos] = observations
        self.actions[self.pos] = actions
        self.pos = (self.pos + 1) % self.buffer_size
        self.full = self.full or self.pos == 0

    def _get_samples(self, batch_inds: NDArray[np.int64], env: Any = None) -> tuple[Tensors, torch.Tensor]:  # type: ignore[override]
        """Observations, normalised by `env` if there is one, and labels of rows of randomly chosen environments."""
        which = batch_inds, np.random.randint(self.n_envs, size=len(batch_inds))  # noqa: NPY002  (as SB3's buffers)
        if isinstance(self.observations, dict):
            rows: Any = self._normalize_obs({name: part[which] for name, part in self.observations.items()}, env)
            seen: Tensors = {name: self.to_torch(part) for name, part in rows.items()}
        else:
            rows = self._normalize_obs(self.observations[which], env)
            seen = self.to_torch(rows)
        return seen, self.to_torch(self.actions[which])

    def state_dict(self) -> dict[str, Any]:
        """The rows that are filled, and where the next one goes."""
        rows = {name: part[: self.size()].copy() for name, part in self._parts().items()}
        return {"rows": rows, "pos": self.pos, "full": self.full}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`.

        Raises:
            ValueError: The rows do not fit.
        """
        for name, part in self._parts().items():
            rows = state["rows"][name]
            part[: len(rows)] = rows
        self.pos, self.full = int(state["pos"]), bool(state["full"])

    def _parts(self) -> dict[str, NDArray[Any]]:
        """Every array of rows by name."""
        seen = self.observations if isinstance(self.observations, dict) else {"": self.observations}
        return {"actions": self.actions, **{f"observations.{name}": part for name, part in seen.items()}}


def _empty(space: spaces.Space[Any], rows: tuple[int, int]) -> Any:
    """An array, or a dictionary of them, for so many observations."""
    if isinstance(space, spaces.Dict):
        return {name: _empty(part, rows) for name, part in space.spaces.items()}
    assert space.shape is not None
    return np.zeros((*rows, *space.shape), dtype=space.dtype)
