"""Callback that runs the user's callbacks of a run, with their states in checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback, CallbackList


class UserCallbacks(CallbackList):
    """The user's callbacks, in the order of the config and of the call of `mygym.train`.

    Args:
        callbacks: The callbacks.
        notify: Called with messages for the user.
    """

    def __init__(self, callbacks: Sequence[BaseCallback], notify: Callable[[str], None]) -> None:
        super().__init__(list(callbacks))
        self.notify = notify

    def _on_step(self) -> bool:
        results = [(callback, callback.on_step()) for callback in self.callbacks]
        for callback, goes_on in results:
            if not goes_on:
                self.notify(f"{type(callback).__name__} ends the training after {self.num_timesteps:,} steps")
        return all(goes_on for _, goes_on in results)

    def state_dict(self) -> dict[str, Any]:
        """Return the number of calls of each callback, and the state of callbacks that have `state_dict`."""
        return {
            name: {
                "calls": callback.n_calls,
                "state": callback.state_dict() if hasattr(callback, "state_dict") else None,
            }
            for name, callback in self._named().items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`; callbacks that are new or missing are reported."""
        named = self._named()
        for name in named.keys() ^ state.keys():
            where = "is not in the checkpoint: it begins now" if name in named else "of the checkpoint is missing"
            self.notify(f"callback {name} {where}")
        for name in named.keys() & state.keys():
            callback, stored = named[name], state[name]
            callback.n_calls = stored["calls"]
            if stored["state"] is not None:
                callback.load_state_dict(stored["state"])  # type: ignore[attr-defined]

    def _named(self) -> dict[str, BaseCallback]:
        return {f"{index} {type(callback).__name__}": callback for index, callback in enumerate(self.callbacks)}
