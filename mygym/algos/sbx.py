"""Algorithms of SBX (Stable-Baselines3 in JAX) with `state_dict` and learning rate schedules."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import explained_variance

from mygym.algos.stable_baselines import BootstrapCallback, GaussianExploration
from mygym.training.checkpoints.states import Stateful
from mygym.training.learners import GatherRollouts, Rollout

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # tensorflow-probability uses deprecated JAX functions
    import optax
    import sbx
    from flax.training.train_state import TrainState
    from sbx.crossq.policies import CrossQPolicy, SimbaCrossQPolicy
    from sbx.ppo.policies import CnnPolicy
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

    read_at_updates = ("learning_rate",)
    """Hyperparameters that may follow a schedule although SBX's classes read them once."""

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


TINY = 1e-7
"""Added to ratios of probabilities, which may be 0 in single precision, before their logarithm."""


class PPO(Stateful, sbx.PPO):
    """Proximal policy optimisation (Schulman et al., 2017); the value function is not clipped."""

    gather_rollouts: GatherRollouts | None = None
    """With several `learners`: gathers the rollouts of all processes in the main process; None: a single learner."""

    def __init__(self, policy: Any, env: Any, clip_range_vf: None = None, **kwargs: Any) -> None:
        super().__init__(policy, env, clip_range_vf=clip_range_vf, **kwargs)

    def collect_rollouts(self, env: Any, callback: BaseCallback, *args: Any, **kwargs: Any) -> bool:
        """Collect a rollout; the values of the last states of truncated episodes are computed together."""
        return super().collect_rollouts(env, BootstrapCallback(callback, self, self._last_values), *args, **kwargs)

    def _last_values(self, indices: list[int], observations: list[Any]) -> Any:
        """Return the values `(n,)` of last observations of environments."""
        model: Any = self
        shape = self.n_envs, *observations[0].shape  # of all environments, so that it compiles once
        last = np.zeros(shape, observations[0].dtype)
        last[indices] = observations
        values = model.vf.apply(model.policy.vf_state.params, model.policy.prepare_obs(last)[0])
        return np.asarray(values).ravel()[indices]

    def _update_info_buffer(self, infos: list[dict[str, Any]], dones: Any = None) -> None:
        """Store returns and lengths of the episodes that have ended; SBX passes no `dones`."""
        super()._update_info_buffer([info for info in infos if "episode" in info])

    def train(self) -> None:
        """Update the networks with the rollout: the minibatches of an epoch are a single compiled call.

        The logged losses are means over the update; SBX logs those of the last minibatch.
        """
        if self.target_kl is not None:  # SBX adapts the learning rate after each minibatch
            super().train()
            return
        policy: Any = self.policy
        optimizers = [policy.actor_state.opt_state[1], policy.vf_state.opt_state[1]]
        rate: Any = np.float32(self.lr_schedule(self._current_progress_remaining))  # as the optimiser returns it
        self._update_learning_rate(optimizers, rate)
        clip_range = self.clip_range_schedule(self._current_progress_remaining)
        coefficients = {"clip_range": clip_range, "ent_coef": self.ent_coef, "vf_coef": self.vf_coef}
        states = policy.actor_state, policy.vf_state
        collected = self._rollout()
        rollout = collected if self.gather_rollouts is None else self.gather_rollouts(collected)
        if rollout is None:  # this is not the main process, which trains
            return
        statistics: list[Mapping[str, Any]] = []
        for _ in range(self.n_epochs):
            for minibatches in self._minibatches(rollout):
                states, figures = _train(
                    type(self)._one_update,
                    states,
                    minibatches,
                    coefficients,
                    self.normalize_advantage,
                    isinstance(policy, CnnPolicy),
                )
                statistics.append(figures)
        policy.actor_state, policy.vf_state = states
        self._n_updates += self.n_epochs
        for name in statistics[0]:
            self.logger.record(f"train/{name}", float(np.concatenate([figures[name] for figures in statistics]).mean()))
        buffer = self.rollout_buffer
        self.logger.record(
            "train/explained_variance", explained_variance(buffer.values.flatten(), buffer.returns.flatten())
        )
        if (log_std := policy.actor_state.params["params"].get("log_std")) is not None:
            self.logger.record("train/std", float(np.exp(log_std).mean()))
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/clip_range", clip_range)

    def _rollout(self) -> Rollout:
        """Return the rollout of this process, whose steps are those of its environments in turn."""
        buffer = self.rollout_buffer
        actions = buffer.swap_and_flatten(buffer.actions)
        return {
            "observations": buffer.swap_and_flatten(buffer.observations),
            "actions": actions.ravel().astype(np.int32) if isinstance(self.action_space, spaces.Discrete) else actions,
            "advantages": buffer.swap_and_flatten(buffer.advantages).ravel(),
            "returns": buffer.swap_and_flatten(buffer.returns).ravel(),
            "old_log_prob": buffer.swap_and_flatten(buffer.log_probs).ravel(),
        }

    def _minibatches(self, rollout: Rollout) -> list[Rollout]:
        """Return the steps of a rollout in a random order.

        Returns:
            Arrays `(minibatches, batch_size, …)`; samples that fill no minibatch are a last, smaller minibatch.
        """
        size = len(rollout["returns"])
        order = np.random.permutation(size)  # noqa: NPY002  (the generator that SB3 seeds)
        whole = size - size % self.batch_size
        return [
            {name: array[order[begin:end]].reshape(-1, length, *array.shape[1:]) for name, array in rollout.items()}
            for begin, end, length in ((0, whole, self.batch_size), (whole, size, size - whole))
            if begin < end
        ]

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "gather_rollouts"]


@partial(jax.jit, static_argnums=(0, 4, 5))
def _train(
    one_update: Callable[..., Any],
    states: tuple[Any, Any],
    minibatches: Mapping[str, Any],
    coefficients: Mapping[str, Any],
    normalize_advantage: bool,
    share_features_extractor: bool,
) -> tuple[tuple[Any, Any], dict[str, Any]]:
    """Return the states of actor and critic after an update with each minibatch, and the statistics of each."""

    def update(states: tuple[Any, Any], minibatch: Mapping[str, Any]) -> tuple[tuple[Any, Any], dict[str, Any]]:
        states, (loss, policy_loss, entropy_loss, value_loss, ratio) = one_update(
            *states,
            **minibatch,
            **coefficients,
            normalize_advantage=normalize_advantage,
            share_features_extractor=share_features_extractor,
        )
        return states, {
            "pg_loss": loss,
            "policy_gradient_loss": policy_loss,
            "entropy_loss": entropy_loss,
            "value_loss": value_loss,
            "approx_kl": jnp.mean(ratio - 1 + TINY - jnp.log(ratio + TINY)),
            "clip_fraction": jnp.mean(jnp.abs(ratio - 1) > coefficients["clip_range"]),
        }

    return jax.lax.scan(update, states, minibatches)
