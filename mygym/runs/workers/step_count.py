"""Callback that counts the env steps of all processes."""

from __future__ import annotations

from stable_baselines3.common.callbacks import BaseCallback


class StepCountCallback(BaseCallback):
    """Adds the env steps of the other processes to those of this process; it must be the first callback.

    Args:
        workers: Number of processes.
    """

    def __init__(self, workers: int) -> None:
        super().__init__()
        self.workers = workers

    def _on_step(self) -> bool:
        self.model.num_timesteps += (self.workers - 1) * self.training_env.num_envs
        return True
