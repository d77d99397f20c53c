"""Algorithms of sb3-contrib with `state_dict`."""

from __future__ import annotations

from typing import Any, ClassVar

import sb3_contrib
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import BasePolicy

from mygym.algos.device.off_policy import DeviceOffPolicy
from mygym.algos.images import ShiftedReplay
from mygym.algos.stable_baselines import TQCPolicy
from mygym.training.checkpoints.states import Stateful


class TQC(ShiftedReplay, DeviceOffPolicy, Stateful, sb3_contrib.TQC):
    """Truncated quantile critics (Kuznetsov et al., 2020)."""

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        **sb3_contrib.TQC.policy_aliases,
        "MultiInputPolicy": TQCPolicy,
    }


class TRPO(Stateful, sb3_contrib.TRPO):
    """Trust region policy optimisation (Schulman et al., 2015)."""


class CrossQ(DeviceOffPolicy, Stateful, sb3_contrib.CrossQ):
    """CrossQ: batch normalisation in place of target networks (Bhatt et al., 2024)."""


class QRDQN(DeviceOffPolicy, Stateful, sb3_contrib.QRDQN):
    """Quantile regression deep Q-learning (Dabney et al., 2018)."""


class ARS(Stateful, sb3_contrib.ARS):
    """Augmented random search (Mania et al., 2018); the rollout starts before its perturbations are drawn."""

    def _trigger_callback(
        self, _locals: dict[str, Any], _globals: dict[str, Any], callback: BaseCallback, n_envs: int
    ) -> None:
        callback.update_locals(_locals)  # so that non-finite rewards are detected immediately
        super()._trigger_callback(_locals, _globals, callback, n_envs)

    def _do_one_update(self, callback: BaseCallback, async_eval: Any) -> None:
        callback.on_rollout_start()
        super()._do_one_update(_WithoutStart(callback), async_eval)  # type: ignore[arg-type]


class _WithoutStart:
    """Wrapper of a callback whose `on_rollout_start` was already called."""

    def __init__(self, callback: BaseCallback) -> None:
        self.callback = callback

    def on_rollout_start(self) -> None:
        """Do nothing."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.callback, name)


class RecurrentPPO(Stateful, sb3_contrib.RecurrentPPO):
    """Proximal policy optimisation with an LSTM (Schulman et al., 2017; Pleines et al., 2022)."""
