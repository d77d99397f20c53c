"""Callbacks that write or load a checkpoint at the start of a rollout (see `evaluation_callback`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from mygym.errors import RunError
from mygym.runs.marks import Marks
from mygym.runs.stop_request import StopRequest


class ResumeCallback(BaseCallback):
    """Loads a checkpoint at the start of the first rollout, the point at which checkpoints are written.

    Args:
        load: Loads the checkpoint; None: the run starts from step 0.
    """

    def __init__(self, load: Callable[[], None] | None) -> None:
        super().__init__()
        self.load = load

    def _on_rollout_start(self) -> None:
        if self.load is not None:
            load, self.load = self.load, None
            load()

    def _on_step(self) -> bool:
        if self.load is not None:
            raise RunError(f"{type(self.model).__name__} calls no callback.on_rollout_start(), so it cannot be resumed")
        return True


class CheckpointCallback(BaseCallback):
    """Writes a checkpoint at the first rollout after each mark, and when the user requests a stop.

    Args:
        every: Env steps between marks.
        write: Writes a checkpoint of the current state.
        stop: Request by Ctrl-C or SIGTERM.
    """

    def __init__(self, every: int, write: Callable[[], Path], stop: StopRequest) -> None:
        super().__init__()
        self.marks = Marks(every, first=every)
        self.write = write
        self.stop = stop

    def _on_rollout_start(self) -> None:
        if self.marks.passed(self.model.num_timesteps) or self.stop.received:
            self.write()
        if self.stop.received:
            raise KeyboardInterrupt

    def _on_step(self) -> bool:
        return True

    def state_dict(self) -> dict[str, Any]:
        """Return the next mark."""
        return {"next": self.marks.next}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`."""
        self.marks.next = state["next"]
