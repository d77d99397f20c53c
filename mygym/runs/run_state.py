"""State of a whole run: algorithm, environments, callbacks, logger, random generators, clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mygym.errors import RunError
from mygym.runs import logs
from mygym.runs.branching import set_changed
from mygym.runs.checkpoints import serialization
from mygym.runs.checkpoints.algorithm_state import Stateful, load_model_state, model_state, unsaved
from mygym.runs.checkpoints.checkpoints import Checkpoint, Checkpoints
from mygym.runs.checkpoints.env_state import env_state, load_env_state, load_logger_state, logger_state
from mygym.runs.checkpoints.random_state import load_random_state, random_state
from mygym.runs.clock import RunClock


class RunState:
    """Writes and loads checkpoints of a run.

    Args:
        config: Values of the complete config.
        model: The algorithm.
        env: Training environments.
        callbacks: Callbacks with a state, by name.
        clock: The run's clock.
        checkpoints: The run's checkpoints on disk.
        notify: Called with messages for the user.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        model: Any,
        env: Any,
        callbacks: Mapping[str, Any],
        clock: RunClock,
        checkpoints: Checkpoints,
        notify: Callable[[str], None],
    ) -> None:
        self.config, self.model, self.env, self.callbacks = config, model, env, callbacks
        self.clock, self.checkpoints, self.notify = clock, checkpoints, notify
        self._reported: set[str] = set()

    def check(self) -> None:
        """Check that checkpoints can hold the algorithm's state.

        Raises:
            RunError: The state contains an object that cannot be saved.
        """
        try:
            serialization.to_files(model_state(self.model))
        except TypeError as error:
            raise RunError(f"state_dict of {type(self.model).__name__}: {error}") from None
        self._report_unsaved()

    def write(self, folder: Path, finished: bool = False) -> Path:
        """Write a checkpoint of the current state.

        Args:
            folder: The run directory.
            finished: Whether learning has ended.

        Returns:
            Path of the checkpoint.
        """
        self._report_unsaved()
        model, clock = self.model, self.clock
        sb3_seconds = (time.time_ns() - model.start_time) / 1e9
        tree = {
            "config": self.config,
            "algorithm": model_state(model),
            "postponed": getattr(model, "postponed", []),
            "env": env_state(self.env),
            "callbacks": {name: callback.state_dict() for name, callback in self.callbacks.items()},
            "logger": logger_state(model.logger),
            "seconds": {"run": clock.elapsed(), "learning": clock.learning(), "sb3": sb3_seconds},
            "random": random_state(),
        }
        buffer = getattr(model, "replay_buffer", None)
        return self.checkpoints.write(int(model.num_timesteps), tree, logs.lengths(folder), buffer, finished)

    def load(self, checkpoint: Checkpoint) -> None:
        """Restore the state of a checkpoint, random generators last, because other parts draw random numbers."""
        state = checkpoint.state
        load_model_state(self.model, state["algorithm"])
        set_changed(self.model, state.get("changed", {}))
        if self.config["overlap"]:
            self.model.postponed = state["postponed"]
        if self.model.num_timesteps != checkpoint.steps:
            raise ValueError(f"num_timesteps is {self.model.num_timesteps}, not {checkpoint.steps}")
        if checkpoint.replay is not None:
            self.checkpoints.replay.load(
                self.model.replay_buffer, checkpoint.replay, checkpoint.chunks, checkpoint.steps
            )
        if not load_env_state(self.env, state["env"]):
            self.notify(
                "the replayed episodes differ from the recorded episodes (another machine?): the run continues, but "
                "its results will not be bit-identical"
            )
        for name, callback in self.callbacks.items():
            if getattr(callback, "model", None) is None:
                callback.init_callback(self.model)
            callback.load_state_dict(state["callbacks"][name])
        load_logger_state(self.model.logger, state["logger"])
        self.model.start_time = time.time_ns() - int(state["seconds"]["sb3"] * 1e9)
        load_random_state(state["random"])

    def _report_unsaved(self) -> None:
        """Report once each attribute that checkpoints cannot hold; some attributes appear only during training."""
        if getattr(type(self.model), "state_dict", Stateful.state_dict) is not Stateful.state_dict:
            return
        missing = [name for name in unsaved(self.model) if name not in self._reported]
        self._reported |= set(missing)
        if missing:
            self.notify(
                f"checkpoints do not hold {', '.join(missing)} of {type(self.model).__name__}: a resumed run starts "
                "with new values; give them state_dict and load_state_dict"
            )
