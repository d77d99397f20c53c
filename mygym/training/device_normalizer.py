"""Normalisation of the fused engine's observations in tensors: the statistics of a `FlooredNormalize` on a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch

from mygym.training.variance_floor import FLOOR, MASKED, NEGLIGIBLE, FlooredNormalize

Observations = dict[str, torch.Tensor]


class DeviceNormalizer:
    """Normalises observations as a `FlooredNormalize` does, up to rounding.

    Args:
        normalizer: The statistics come from it at `load`, and return at `store`.
        device: Device of the tensors.
    """

    def __init__(self, normalizer: FlooredNormalize, device: torch.device) -> None:
        self._normalizer, self._device = normalizer, device
        self.load()

    @property
    def _running(self) -> dict[str, Any]:
        """Key of the observations → running statistics; an empty key for flat observations."""
        running = self._normalizer.obs_rms
        return running if isinstance(running, dict) else {"": running}

    @property
    def constants(self) -> tuple[Any, ...]:
        """Values of the normaliser on which its operations depend."""
        return self._normalizer.training, self._normalizer.clip_obs, self._normalizer.epsilon

    def load(self) -> None:
        """Take the statistics of the normaliser, in a single copy."""
        arrays = [np.asarray(getattr(each, name)) for each, name in self._statistics()]
        flat = np.concatenate([array.ravel() for array in arrays])
        values = torch.tensor(flat, dtype=torch.float64, device=self._device)
        parts = torch.split(values, [array.size for array in arrays])
        self.set_variables(part.reshape(array.shape) for part, array in zip(parts, arrays, strict=True))

    def store(self) -> None:
        """Give the statistics to the normaliser, in a single copy."""
        tensors = self.variables()
        values = torch.cat([tensor.ravel() for tensor in tensors]).cpu()
        parts = torch.split(values, [tensor.numel() for tensor in tensors])
        for (each, name), tensor, part in zip(self._statistics(), tensors, parts, strict=True):
            setattr(each, name, part.reshape(tensor.shape).numpy() if tensor.ndim else part.item())

    def _statistics(self) -> Iterator[tuple[Any, str]]:
        """Yield SB3's running statistics and the attributes with their values, in the order of the variables."""
        for name in ("mean", "var", "count"):
            yield from ((each, name) for each in self._running.values())

    def update(self, observations: Observations) -> None:
        """Take the observations `(N, …)` of a step into account, see `FlooredMeanStd`."""
        if not self._normalizer.training:
            return
        for key, values in observations.items():
            values, number = values.double(), len(values)
            count, mean, var = self._count[key], self._mean[key], self._var[key]
            var = torch.where(var == MASKED, 0.0, var)
            total, change = count + number, values.mean(0) - mean
            squares = var * count + values.var(0, correction=0) * number + change**2 * count * number / total
            self._mean[key], self._count[key] = mean + change * number / total, total
            var = squares / total
            self._var[key] = torch.where(var < NEGLIGIBLE, MASKED, var.clamp(min=FLOOR))

    def normalize(self, observations: Observations) -> Observations:
        """Return normalised observations, float32."""
        clip, epsilon = self._normalizer.clip_obs, self._normalizer.epsilon
        return {
            key: ((values - self._mean[key]) / torch.sqrt(self._var[key] + epsilon)).clamp(-clip, clip).float()
            for key, values in observations.items()
        }

    def variables(self) -> list[torch.Tensor]:
        """Return the statistics, in the order of `set_variables`."""
        return [*self._mean.values(), *self._var.values(), *self._count.values()]

    def set_variables(self, arrays: Iterable[torch.Tensor]) -> None:
        """Replace the statistics by the next of `arrays`."""
        rest = iter(arrays)
        self._mean, self._var, self._count = ({key: next(rest) for key in self._running} for _ in range(3))
