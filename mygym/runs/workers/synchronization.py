"""Callback of the main process that lets the other processes begin each rollout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from mygym.runs.policy import normalizer_of
from mygym.runs.weights import weights
from mygym.runs.workers.gradient_mean import average_gradients
from mygym.runs.workers.training_workers import TrainingWorkers


class SynchronizeCallback(BaseCallback):
    """Lets the other processes begin each rollout, with the weights of this process; it must be the last callback.

    Its state is that of the other processes.

    Args:
        workers: The other processes.
    """

    def __init__(self, workers: TrainingWorkers) -> None:
        super().__init__()
        self.workers = workers
        self.averages = False
        """Whether the optimisers average gradients already."""

    def _init_callback(self) -> None:
        if not self.averages:
            self.averages = True
            average_gradients(self.model, self.workers.exchange)

    def _on_rollout_start(self) -> None:
        self.workers.begin_rollout(weights(self.model), normalizer_of(self.training_env))

    def _on_step(self) -> bool:
        return True

    def state_dict(self) -> dict[str, Any]:
        """Return the state of each other process, which has ended its rollout."""
        return {"processes": self.workers.states()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`."""
        self.workers.load_states(state["processes"])
