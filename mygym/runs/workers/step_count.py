"""Callback that counts the env steps of all processes."""

from __future__ import annotations

from stable_baselines3.common.callbacks import BaseCallback


class StepCountCallback(BaseCallback):
    """Adds the env steps of the other processes to those of this process; it must be the first callback.

    Args:
        count: Number of processes.
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def _on_step(self) -> bool:
        self.model.num_timesteps += (self.count - 1) * self.training_env.num_envs
        return True
