"""Hindsight replay over several tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3 import HerReplayBuffer

KEPT = ("variant", "TimeLimit.truncated")
"""Of a transition's info: which task was played, by which its reward is computed; and what SB3 asks for."""


class MultiTaskHerReplayBuffer(HerReplayBuffer):
    """Keeps of each transition the task that was played; the whole infos would be most of its memory.

    Args:
        *args: As of `HerReplayBuffer`.
        **kwargs: The same; `copy_info_dict` is what hands the task to `compute_reward`.
    """

    def add(  # type: ignore[override]
        self,
        obs: dict[str, NDArray[Any]],
        next_obs: dict[str, NDArray[Any]],
        action: NDArray[Any],
        reward: NDArray[Any],
        done: NDArray[np.bool_],
        infos: list[dict[str, Any]],
    ) -> None:
        """Add a transition of every environment."""
        kept = [{key: info[key] for key in KEPT if key in info} for info in infos]
        super().add(obs, next_obs, action, reward, done, kept)
