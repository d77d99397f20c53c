"""Algorithms of SBX (Stable-Baselines3 in JAX) with `state_dict` and learning rate schedules."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from mygym.algos.stable_baselines import GaussianExploration
from mygym.runs.checkpoints.algorithm_state import Stateful

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # tensorflow-probability uses deprecated JAX functions
    import optax
    import sbx
    from flax.training.train_state import TrainState
    from sbx.crossq.policies import CrossQPolicy, SimbaCrossQPolicy
    from sbx.td3.policies import TD3Policy


class ScheduledPolicy:
    """Mixin for policies whose optimisers have a fixed learning rate in SBX (TD3, CrossQ): makes it adjustable."""

    optimizer_class: Any

    def build(self, *args: Any) -> Any:
        """Build the networks with adjustable optimisers."""
        optimizer_class = self.optimizer_class
        self.optimizer_class = optax.inject_hyperparams(optimizer_class)
        try:
            return super().build(*args)  # type: ignore[misc]
        finally:
            self.optimizer_class = optimizer_class


class ScheduledTD3Policy(ScheduledPolicy, TD3Policy):
    """TD3's actor and critics."""


class ScheduledCrossQPolicy(ScheduledPolicy, CrossQPolicy):
    """CrossQ's actor and critics."""


class ScheduledSimbaCrossQPolicy(ScheduledPolicy, SimbaCrossQPolicy):
    """CrossQ's actor and critics with residual blocks (Lee et al., 2024)."""


class ScheduledLearningRate:
    """Mixin that sets all learning rates before training, including the entropy coefficient's; SBX omits some."""

    def _setup_model(self) -> None:
        super()._setup_model()  # type: ignore[misc]
        state: Any = getattr(self, "ent_coef_state", None)
        if state is not None and _hyperparams(state) is None:
            tx = optax.inject_hyperparams(optax.adam)(learning_rate=self.lr_schedule(1))  # type: ignore[attr-defined]
            self.ent_coef_state = TrainState.create(  # type: ignore[no-untyped-call]
                apply_fn=state.apply_fn, params=state.params, tx=tx
            )

    def train(self, gradient_steps: int, batch_size: int) -> None:
        """Set the learning rates and train."""
        rate = self.lr_schedule(self._current_progress_remaining)  # type: ignore[attr-defined]
        states = {**vars(self.policy), "ent_coef_state": getattr(self, "ent_coef_state", None)}  # type: ignore[attr-defined]
        for name, state in states.items():
            if name.endswith("_state") and (hyperparams := _hyperparams(state)) is not None:
                qf_rate = self.initial_qf_learning_rate if name.startswith("qf") else None  # type: ignore[attr-defined]
                hyperparams["learning_rate"] = qf_rate or rate
        self.logger.record("train/learning_rate", rate)  # type: ignore[attr-defined]
        super().train(gradient_steps, batch_size)  # type: ignore[misc]


def _hyperparams(state: Any) -> dict[str, Any] | None:
    """Return the adjustable hyperparameters of a train state's optimiser."""
    return getattr(getattr(state, "opt_state", None), "hyperparams", None)


class SAC(ScheduledLearningRate, Stateful, sbx.SAC):
    """Soft actor-critic (Haarnoja et al., 2018)."""


class TQC(ScheduledLearningRate, Stateful, sbx.TQC):
    """Truncated quantile critics (Kuznetsov et al., 2020)."""


class TD3(ScheduledLearningRate, GaussianExploration, Stateful, sbx.TD3):
    """Twin delayed deep deterministic policy gradient (Fujimoto et al., 2018)."""

    policy_aliases: ClassVar[dict[str, Any]] = {"MlpPolicy": ScheduledTD3Policy, "MultiInputPolicy": ScheduledTD3Policy}


class DDPG(ScheduledLearningRate, GaussianExploration, Stateful, sbx.DDPG):
    """Deep deterministic policy gradient (Lillicrap et al., 2015)."""

    policy_aliases: ClassVar[dict[str, Any]] = {"MlpPolicy": ScheduledTD3Policy}


class CrossQ(ScheduledLearningRate, Stateful, sbx.CrossQ):
    """CrossQ: batch normalisation in place of target networks (Bhatt et al., 2024)."""

    policy_aliases: ClassVar[dict[str, Any]] = {
        "MlpPolicy": ScheduledCrossQPolicy,
        "MultiInputPolicy": ScheduledCrossQPolicy,
        "SimbaPolicy": ScheduledSimbaCrossQPolicy,
    }
