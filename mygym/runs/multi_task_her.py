"""Hindsight replay over several tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3 import HerReplayBuffer

KEPT = ("variant", "TimeLimit.truncated")
"""Keys of a transition's info to keep: the variant, whose reward function is used, and SB3's time-limit flag."""


class MultiTaskHerReplayBuffer(HerReplayBuffer):
    """Hindsight replay buffer that stores the task variant of each transition instead of the whole info.

    Args:
        *args: As for `HerReplayBuffer`.
        **kwargs: As for `HerReplayBuffer`; `copy_info_dict` passes the variant to `compute_reward`.
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
