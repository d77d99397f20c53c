"""Callback of another process that answers the commands of the main process."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import unwrap_vec_normalize

from mygym.training.checkpoints.states import (
    env_state,
    load_env_state,
    load_model_state,
    load_normalizer_state,
    load_random_state,
    model_state,
    random_state,
)
from mygym.training.policy import load_weights
from mygym.training.schedule_callback import set_value


class AnswerCallback(BaseCallback):
    """Answers the commands of the main process at each rollout start, until it begins the rollout.

    Args:
        commands: Pipe to the main process.
    """

    def __init__(self, commands: Connection) -> None:
        super().__init__()
        self.commands = commands

    def _on_rollout_start(self) -> None:
        self.answer_commands()

    def _on_step(self) -> bool:
        return True

    def answer_commands(self) -> None:
        """Answer commands until the next rollout begins.

        Raises:
            EOFError: The main process has closed the pipe.
        """
        self._send("ready")
        while True:
            command, data = pickle.loads(self.commands.recv_bytes())  # noqa: S301  (from the main process)
            if command == "rollout":
                self._synchronize(**data)
                return
            if command == "load":
                self._load_state(data)
            self._send(command, self._state() if command == "state" else None)

    def _send(self, kind: str, answer: Any = None) -> None:
        self.commands.send_bytes(pickle.dumps((kind, answer), pickle.HIGHEST_PROTOCOL))

    def _synchronize(
        self,
        steps: int,
        values: Mapping[str, float],
        weights: Mapping[str, Any],
        normalizer: Mapping[str, Any] | None,
    ) -> None:
        """Set env steps, hyperparameters, weights and normaliser to those of the main process."""
        self.model.num_timesteps = steps
        for name, value in values.items():
            set_value(self.model, name, value)
        load_weights(self.model, {name: torch.from_numpy(array) for name, array in weights.items()})
        wrapper = unwrap_vec_normalize(self.training_env)
        if wrapper is not None and normalizer is not None:
            load_normalizer_state(wrapper, normalizer)

    def _state(self) -> dict[str, Any]:
        return {
            "algorithm": model_state(self.model),
            "env": env_state(self.training_env),
            "random": random_state(),
        }

    def _load_state(self, state: Mapping[str, Any]) -> None:
        load_model_state(self.model, state["algorithm"])
        load_env_state(self.training_env, state["env"])
        load_random_state(state["random"])
