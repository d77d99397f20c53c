"""Callbacks of a run with several `workers`: they count the steps of all processes, and keep the processes in step."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import unwrap_vec_normalize

from mygym.runs.checkpoints.algorithm_state import load_model_state, model_state
from mygym.runs.checkpoints.env_state import env_state, load_env_state, load_normalizer_state
from mygym.runs.checkpoints.random_state import load_random_state, random_state
from mygym.runs.policy import normalizer_of
from mygym.runs.weights import load_weights, weights
from mygym.runs.workers.gradient_mean import average_gradients

if TYPE_CHECKING:
    from mygym.runs.workers.training_workers import TrainingWorkers


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
                self._synchronize(*data)
                return
            if command == "load":
                self._load_state(data)
            self._send(command, self._state() if command == "state" else None)

    def _send(self, kind: str, answer: Any = None) -> None:
        self.commands.send_bytes(pickle.dumps((kind, answer), pickle.HIGHEST_PROTOCOL))

    def _synchronize(self, arrays: Mapping[str, Any], normalizer: Mapping[str, Any] | None) -> None:
        """Load the weights and the normaliser of the main process."""
        load_weights(self.model, {name: torch.from_numpy(array) for name, array in arrays.items()})
        own = unwrap_vec_normalize(self.training_env)
        if own is not None and normalizer is not None:
            load_normalizer_state(own, normalizer)

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
