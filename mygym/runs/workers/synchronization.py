"""Callback of the main process that lets the other processes begin each rollout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from mygym.config.schedulable import may_be_scheduled
from mygym.runs.policy import normalizer_of
from mygym.runs.weights import weights
from mygym.runs.workers.joint_training import train_jointly
from mygym.runs.workers.step_count import StepCountCallback
from mygym.runs.workers.training_workers import TrainingWorkers


class SynchronizeCallback(BaseCallback):
    """Lets the other processes begin each rollout in the state of this process; it must be the last callback.

    Its state is that of the other processes.

    Args:
        workers: The other processes.
    """

    def __init__(self, workers: TrainingWorkers) -> None:
        super().__init__()
        self.workers = workers
        self.has_hooks = False
        """Whether the model exchanges its gradients or rollouts already."""

    def around(self, callbacks: Sequence[BaseCallback]) -> list[BaseCallback]:
        """Return callbacks between a counter of the env steps of all processes, and this callback.

        Args:
            callbacks: The other callbacks of the run.
        """
        return [StepCountCallback(self.workers.count), *callbacks, self]

    def _init_callback(self) -> None:
        if not self.has_hooks:
            self.has_hooks = True
            train_jointly(self.model, self.workers.exchange, self.workers.gather_rollouts)

    def _on_rollout_start(self) -> None:
        model = self.model
        held = {name: vars(model).get(name) for name in may_be_scheduled(type(model))}
        self.workers.begin_rollout(
            steps=model.num_timesteps,
            values={name: value for name, value in held.items() if isinstance(value, int | float)},
            weights={name: tensor.cpu().numpy() for name, tensor in weights(model).items()},
            normalizer=normalizer_of(self.training_env),
        )

    def _on_step(self) -> bool:
        return True

    def state_dict(self) -> dict[str, Any]:
        """Return the state of each other process, which has ended its rollout."""
        return {"processes": self.workers.states()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`."""
        self.workers.load_states(state["processes"])
