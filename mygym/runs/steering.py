"""A run's strategy at work: what it decides before each iteration, and what it is told of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback


class StrategyCallback(BaseCallback):
    """Calls a strategy where SB3 calls back.

    Args:
        strategy: What `mygym.runs.variants.strategy_of` has made.
        write: Writes a checkpoint of now.
    """

    def __init__(self, strategy: Any, write: Callable[[], object]) -> None:
        super().__init__()
        self.strategy = strategy
        self.write = write

    def _on_training_start(self) -> None:
        self.strategy.on_step(self.model._last_obs)

    def _on_rollout_start(self) -> None:
        if self.strategy.phase == "rollout":
            self._step()

    def _on_rollout_end(self) -> None:
        if self.strategy.phase == "gradient":
            self._step()

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.strategy.on_episode(info.get("variant", 0), bool(info["is_success"]), float(info["episode"]["r"]))
        if "new_obs" in self.locals:  # algorithms without rollouts, such as ars, evaluate in place of it
            self.strategy.on_step(self.locals["new_obs"])
        return True

    def _step(self) -> None:
        """Let the strategy decide; if it fails, a checkpoint is written first."""
        try:
            self.strategy.step()
        except Exception:
            self.write()
            raise

    def state_dict(self) -> dict[str, Any]:
        """The strategy's own."""
        state: dict[str, Any] = self.strategy.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.strategy.load_state_dict(state)
