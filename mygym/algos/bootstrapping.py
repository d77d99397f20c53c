"""Rewards of truncated episodes: the values of their last observations, computed together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

Values = Callable[[list[int], list[Any]], Any]
"""Function of the indices of environments and their last observations; it returns the values `(n,)`."""


class BootstrapCallback(BaseCallback):
    """Callback of a rollout that then adds the values of last observations to the rewards of truncated episodes.

    SB3 and SBX compute these values in turn, episode by episode; after this callback they find none to compute. Of
    thousands of environments, hundreds of episodes end in a step.

    Args:
        callback: The callback of the run.
        model: The algorithm, with its discount factor `gamma`.
        values: Values of the algorithm.
    """

    def __init__(self, callback: BaseCallback, model: Any, values: Values) -> None:
        super().__init__()
        self.callback, self.model, self.values = callback, model, values
        self.gamma: float = model.gamma

    def update_child_locals(self, locals_: dict[str, Any]) -> None:
        """Pass the variables of the rollout on."""
        self.callback.update_locals(locals_)

    def _on_rollout_start(self) -> None:
        self.callback.on_rollout_start()

    def _on_rollout_end(self) -> None:
        self.callback.on_rollout_end()

    def _on_step(self) -> bool:
        if not self.callback.on_step():
            return False
        infos, ended = self.locals["infos"], np.flatnonzero(self.locals["dones"]).tolist()
        truncated = [index for index in ended if infos[index].get("TimeLimit.truncated", False)]
        if truncated:
            last = [infos[index]["terminal_observation"] for index in truncated]
            for index in truncated:
                infos[index]["TimeLimit.truncated"] = False
            self.locals["rewards"][truncated] += self.gamma * np.asarray(self.values(truncated, last))
        return True
