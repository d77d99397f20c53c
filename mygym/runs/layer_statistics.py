"""Callback that logs statistics of the layers of the networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from stable_baselines3.common.callbacks import BaseCallback

from mygym.runs.weights import weights


class LayerStatisticsCallback(BaseCallback):
    """Logs root mean squares of the weights and gradients of each layer, and how much the weights have changed.

    `layers/NAME/weight`, `layers/NAME/gradient` (of the last gradient step; PyTorch only) and `layers/NAME/change`, the
    change since the last log relative to the weights before. NAME is the name of the tensor in `policy.safetensors`.

    Args:
        every: Rollouts between logs.
    """

    def __init__(self, every: int = 10) -> None:
        super().__init__()
        self.every = max(1, every)
        self.rollouts = 0
        self.last: dict[str, torch.Tensor] = {}
        """Weights at the last log."""

    def _on_rollout_start(self) -> None:
        if self.rollouts % self.every == 0:
            self._log()
        self.rollouts += 1

    def _on_step(self) -> bool:
        return True

    def _log(self) -> None:
        policy = self.model.policy
        parameters = dict(policy.named_parameters()) if isinstance(policy, torch.nn.Module) else {}
        tensors = {name: tensor for name, tensor in weights(self.model).items() if tensor.is_floating_point()}
        for name, tensor in tensors.items():
            self.logger.record(f"layers/{name}/weight", root_mean_square(tensor))
            gradient = parameters[name].grad if name in parameters else None
            if gradient is not None:
                self.logger.record(f"layers/{name}/gradient", root_mean_square(gradient))
            if name in self.last:
                before = root_mean_square(self.last[name])
                change = root_mean_square(tensor - self.last[name])
                self.logger.record(f"layers/{name}/change", change / before if before else change)
        self.last = {name: tensor.detach().clone() for name, tensor in tensors.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return the number of rollouts, and the weights at the last log."""
        return {"rollouts": self.rollouts, "last": self.last}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`."""
        self.rollouts, self.last = state["rollouts"], dict(state["last"])


def root_mean_square(tensor: torch.Tensor) -> float:
    """Return the root mean square of the elements; 0 if it has none."""
    return float(tensor.square().mean().sqrt()) if tensor.numel() else 0.0
