"""Double deep Q-learning: the online network selects the next action, the target network evaluates it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.type_aliases import GymEnv, Schedule
from stable_baselines3.common.utils import FloatSchedule
from stable_baselines3.dqn.policies import DQNPolicy
from torch import nn
from torch.nn import functional

from mygym.algos.stable_baselines import DQN
from mygym.config.schedules import OfProgress, parse
from mygym.training.device_replay import Samples


def double_q_values(online: nn.Module, target: nn.Module, observations: Any) -> torch.Tensor:
    """Return the values `(n, 1)` that `target` has for the actions that `online` selects."""
    selected = online(observations).argmax(dim=1, keepdim=True)
    values: torch.Tensor = target(observations).gather(1, selected)
    return values


@torch.no_grad()
def double_q_targets(online: nn.Module, target: nn.Module, batch: Samples, gamma: float) -> torch.Tensor:
    """Return the targets of double Q-learning (van Hasselt et al., 2016, equation 4), `(n, 1)`.

    The network that selects an action does not evaluate it, so its overestimated values do not enter the target.

    Args:
        online: Network that maps observations to values `(n, actions)`; selects the next action.
        target: Slowly updated copy of `online`; evaluates the next action.
        batch: Transitions.
        gamma: Discount factor.
    """
    values = double_q_values(online, target, batch.next_observations)
    discounts = gamma if batch.discounts is None else batch.discounts  # those of n-step returns
    return batch.rewards + (1 - batch.dones) * discounts * values


class DDQN(DQN):
    """Deep Q-learning with double Q-learning (van Hasselt et al., 2016) and a free exploration schedule.

    Args:
        policy: Q-network policy: an alias or a class.
        env: Environment with `Discrete` actions.
        learning_rate: Learning rate of the optimiser.
        buffer_size: Transitions in the replay buffer.
        learning_starts: Env steps before the first update.
        batch_size: Transitions in a minibatch.
        tau: Share of the online network in each update of the target network.
        gamma: Discount factor.
        train_freq: Steps of each environment between updates.
        gradient_steps: Gradient steps of each update.
        replay_buffer_class: Class of the replay buffer; None: decided by the observations.
        replay_buffer_kwargs: Further arguments of the replay buffer.
        target_update_interval: Env steps between updates of the target network.
        epsilon: Probability of a random action.
        max_grad_norm: Maximum norm of gradients.
        stats_window_size: Number of training episodes over which `rollout/` values of the log are averaged.
        tensorboard_log: Folder of TensorBoard logs outside a run.
        policy_kwargs: Further arguments of the policy class.
        verbose: 0 for no output.
        seed: Seed of all random generators.
        device: Device of the networks.
    """

    def __init__(
        self,
        policy: str | type[DQNPolicy],
        env: GymEnv | str,
        learning_rate: float | Schedule = 1e-4,
        buffer_size: int = 1_000_000,
        learning_starts: int = 100,
        batch_size: int = 32,
        tau: float = 1.0,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] = 4,
        gradient_steps: int = 1,
        replay_buffer_class: type[ReplayBuffer] | None = None,
        replay_buffer_kwargs: dict[str, Any] | None = None,
        target_update_interval: int = 10_000,
        epsilon: float | Schedule = 0.05,
        max_grad_norm: float = 10.0,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "epsilon", "__class__")}
        self.epsilon = epsilon
        super().__init__(**given)

    def _setup_model(self) -> None:
        super()._setup_model()
        epsilon: Any = self.epsilon
        if isinstance(epsilon, Mapping):  # a schedule of `implemented_combos`, without a run that follows it
            epsilon = parse("epsilon", epsilon).value(0, 1)
        self.exploration_schedule = FloatSchedule(epsilon)  # read after every step

    def _setup_learn(self, total_timesteps: int, *args: Any, **kwargs: Any) -> tuple[int, BaseCallback]:
        if isinstance(self.epsilon, Mapping):
            schedule = parse("epsilon", self.epsilon, total_steps=total_timesteps)
            self.exploration_schedule = OfProgress(schedule, total_timesteps)
        return super()._setup_learn(total_timesteps, *args, **kwargs)

    def next_q_values(self, observations: Any) -> torch.Tensor:
        """Return the values `(n, 1)` of next observations, with which a GPU trains."""
        return double_q_values(self.q_net, self.q_net_target, observations)

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Update the online network on minibatches of the replay buffer."""
        if self.trains_on_device():
            super().train(gradient_steps, batch_size)
            return
        assert self.replay_buffer is not None
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        losses = []
        for _ in range(gradient_steps):
            batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            targets = double_q_targets(self.q_net, self.q_net_target, batch, self.gamma)
            values = self.q_net(batch.observations).gather(1, batch.actions.long())
            loss = functional.smooth_l1_loss(values, targets)
            self.policy.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
            losses.append(loss.item())
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", np.mean(losses))
