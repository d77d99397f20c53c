"""sb3-contrib's algorithms, with `state_dict`."""

from __future__ import annotations

import contextlib
from typing import Any, Self

import sb3_contrib
from stable_baselines3.common.callbacks import BaseCallback

from mygym.runs.state import Stateful


class TQC(Stateful, sb3_contrib.TQC):
    """Truncated quantile critics (Kuznetsov et al., 2020)."""


class TRPO(Stateful, sb3_contrib.TRPO):
    """Trust region policy optimisation (Schulman et al., 2015)."""


class CrossQ(Stateful, sb3_contrib.CrossQ):
    """CrossQ: batch normalisation in place of target networks (Bhatt et al., 2024)."""


class ARS(Stateful, sb3_contrib.ARS):
    """Augmented random search (Mania et al., 2018); unlike sb3-contrib's, it stops when a callback says so."""

    def learn(self, *args: Any, **kwargs: Any) -> Self:
        """Train; see `sb3_contrib.ARS.learn`."""
        with contextlib.suppress(_StoppedError):
            super().learn(*args, **kwargs)
        return self

    def _trigger_callback(
        self, _locals: dict[str, Any], _globals: dict[str, Any], callback: BaseCallback, n_envs: int
    ) -> None:
        self.num_timesteps += n_envs
        if not callback.on_step():
            callback.on_training_end()
            raise _StoppedError


class _StoppedError(Exception):
    """A callback ended the training."""


class RecurrentPPO(Stateful, sb3_contrib.RecurrentPPO):
    """Proximal policy optimisation with an LSTM (Schulman et al., 2017; Pleines et al., 2022)."""
