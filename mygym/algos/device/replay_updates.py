"""Gradient steps of algorithms with a replay buffer on a GPU: gradients as CUDA graphs, no wait within a call.

SB3 reads the figures of each gradient step, and waits for the GPU each time; these read them at the end of a call. The
losses and the logs are those of SB3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples
from stable_baselines3.common.utils import polyak_update
from torch.nn import functional
from torch.optim.swa_utils import get_ema_multi_avg_fn

from mygym.algos.device.gradients import Gradient, set_gradients, trained

Samples = ReplayBufferSamples | DictReplayBufferSamples


class ReplayUpdate(ABC):
    """Makes the gradient steps of an algorithm whose buffer is in tensors, as its `train` does.

    Args:
        model: The algorithm.
    """

    figures: tuple[str, ...]
    """Names in the log of the figures of a gradient step."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def train(self, gradient_steps: int, batch_size: int) -> None:
        """Make gradient steps on random minibatches."""
        model = self.model
        model.policy.set_training_mode(True)
        model._update_learning_rate(self.optimizers())
        history = [
            self.step(number, batch)
            for number, batch in enumerate(
                model.replay_buffer.batches(batch_size, gradient_steps, model._vec_normalize_env)
            )
        ]
        model.logger.record("train/n_updates", model._n_updates, exclude="tensorboard")
        figures = torch.stack(history).nanmean(0).cpu().tolist()
        for name, value in zip(self.figures, figures, strict=True):
            if value == value:  # no gradient step has this figure, e.g. of the delayed actor
                model.logger.record(f"train/{name}", value)

    @abstractmethod
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """Return the optimisers."""

    @abstractmethod
    def step(self, number: int, batch: Samples) -> torch.Tensor:
        """Make a gradient step; return its `figures`, NaN for those that it does not have.

        Args:
            number: Gradient steps before it in this call.
            batch: A minibatch.
        """


class SACUpdate(ReplayUpdate):
    """Gradient steps of soft actor-critic (Haarnoja et al., 2018)."""

    figures = ("ent_coef", "critic_loss", "ent_coef_loss", "actor_loss")

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._critic = Gradient(self._critic_gradient, model.device)
        self._actor = Gradient(self._actor_gradient, model.device)

    def optimizers(self) -> list[torch.optim.Optimizer]:
        """Return the optimisers."""
        model = self.model
        automatic = [] if model.ent_coef_optimizer is None else [model.ent_coef_optimizer]
        return [model.actor.optimizer, model.critic.optimizer, *automatic]

    def step(self, number: int, batch: Samples) -> torch.Tensor:
        """Make a gradient step; the actor's actions are drawn again after the step of the critic."""
        model = self.model
        automatic, parameters = model.ent_coef_optimizer is not None, trained(model.critic)
        if automatic:
            parameters = [*parameters, model.log_ent_coef]
        constants = model.gamma, model.target_entropy
        figures = self._critic(parameters, constants, *batch[:5])
        if automatic:
            model.ent_coef_optimizer.step()
        model.critic.optimizer.step()
        loss = self._actor(trained(model.actor), (), batch.observations, figures[0])
        model.actor.optimizer.step()
        if number % model.target_update_interval == 0:
            move_targets(model.critic, model.critic_target, model.tau)
            polyak_update(model.batch_norm_stats, model.batch_norm_stats_target, 1.0)
        model._n_updates += 1
        return torch.cat([figures, loss])

    def _critic_gradient(
        self,
        observations: Any,
        actions: torch.Tensor,
        next_observations: Any,
        dones: torch.Tensor,
        rewards: torch.Tensor,
    ) -> torch.Tensor:
        """Set the gradients of critic and entropy coefficient; return the coefficient and both losses."""
        model = self.model
        if model.ent_coef_optimizer is None:
            ent_coef, ent_coef_loss = model.ent_coef_tensor, torch.full((1,), torch.nan, device=model.device)
        else:
            ent_coef = model.log_ent_coef.detach().exp()
            with torch.no_grad():
                _, log_prob = model.actor.action_log_prob(observations)
            ent_coef_loss = -(model.log_ent_coef * (log_prob + model.target_entropy)).mean()
            set_gradients(ent_coef_loss, [model.log_ent_coef])
        with torch.no_grad():
            next_actions, next_log_prob = model.actor.action_log_prob(next_observations)
            values = least(model.critic_target(next_observations, next_actions)) - ent_coef * next_log_prob[:, None]
            targets = rewards + (1 - dones) * model.gamma * values
        loss = 0.5 * sum_of_squares(model.critic(observations, actions), targets)
        set_gradients(loss, trained(model.critic))
        return torch.stack([each.detach().reshape(()) for each in (ent_coef, loss, ent_coef_loss)])

    def _actor_gradient(self, observations: Any, ent_coef: torch.Tensor) -> torch.Tensor:
        """Set the gradients of the actor; return its loss `(1,)`."""
        model = self.model
        actions, log_prob = model.actor.action_log_prob(observations)
        loss: torch.Tensor = (ent_coef * log_prob[:, None] - least(model.critic(observations, actions))).mean()
        set_gradients(loss, trained(model.actor))
        return loss.detach()[None]


class TD3Update(ReplayUpdate):
    """Gradient steps of TD3 (Fujimoto et al., 2018), and of DDPG, which is a special case."""

    figures = ("critic_loss", "actor_loss")

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._critic = Gradient(self._critic_gradient, model.device)
        self._actor = Gradient(self._actor_gradient, model.device)

    def optimizers(self) -> list[torch.optim.Optimizer]:
        """Return the optimisers."""
        return [self.model.actor.optimizer, self.model.critic.optimizer]

    def step(self, number: int, batch: Samples) -> torch.Tensor:
        """Make a gradient step of the critic, and after each `policy_delay` of them one of the actor."""
        model = self.model
        model._n_updates += 1
        constants = model.gamma, model.target_policy_noise, model.target_noise_clip
        loss = self._critic(trained(model.critic), constants, *batch[:5])
        model.critic.optimizer.step()
        if model._n_updates % model.policy_delay:
            return torch.cat([loss, torch.full_like(loss, torch.nan)])
        actor_loss = self._actor(trained(model.actor), (), batch.observations)
        model.actor.optimizer.step()
        move_targets(model.critic, model.critic_target, model.tau)
        move_targets(model.actor, model.actor_target, model.tau)
        polyak_update(model.critic_batch_norm_stats, model.critic_batch_norm_stats_target, 1.0)
        polyak_update(model.actor_batch_norm_stats, model.actor_batch_norm_stats_target, 1.0)
        return torch.cat([loss, actor_loss])

    def _critic_gradient(
        self,
        observations: Any,
        actions: torch.Tensor,
        next_observations: Any,
        dones: torch.Tensor,
        rewards: torch.Tensor,
    ) -> torch.Tensor:
        """Set the gradients of the critic; return its loss `(1,)`."""
        model = self.model
        with torch.no_grad():
            noise = torch.randn_like(actions) * model.target_policy_noise
            noise = noise.clamp(-model.target_noise_clip, model.target_noise_clip)
            next_actions = (model.actor_target(next_observations) + noise).clamp(-1, 1)
            values = least(model.critic_target(next_observations, next_actions))
            targets = rewards + (1 - dones) * model.gamma * values
        loss = sum_of_squares(model.critic(observations, actions), targets)
        set_gradients(loss, trained(model.critic))
        return loss.detach()[None]

    def _actor_gradient(self, observations: Any) -> torch.Tensor:
        """Set the gradients of the actor; return its loss `(1,)`."""
        model = self.model
        loss: torch.Tensor = -model.critic.q1_forward(observations, model.actor(observations)).mean()
        set_gradients(loss, trained(model.actor))
        return loss.detach()[None]


class DQNUpdate(ReplayUpdate):
    """Gradient steps of deep Q-learning (Mnih et al., 2015), with the targets of the algorithm."""

    figures = ("loss",)

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._gradient = Gradient(self._q_gradient, model.device)

    def optimizers(self) -> list[torch.optim.Optimizer]:
        """Return the optimiser."""
        return [self.model.policy.optimizer]

    def step(self, number: int, batch: Samples) -> torch.Tensor:
        """Make a gradient step."""
        model = self.model
        loss = self._gradient(trained(model.q_net), (model.gamma, model.max_grad_norm), *batch[:5])
        model.policy.optimizer.step()
        model._n_updates += 1
        return loss

    def _q_gradient(
        self,
        observations: Any,
        actions: torch.Tensor,
        next_observations: Any,
        dones: torch.Tensor,
        rewards: torch.Tensor,
    ) -> torch.Tensor:
        """Set the gradients of the Q-network; return its loss `(1,)`."""
        model = self.model
        with torch.no_grad():
            targets = rewards + (1 - dones) * model.gamma * model.next_values(next_observations)
        values = model.q_net(observations).gather(1, actions.long())
        loss = functional.smooth_l1_loss(values, targets)
        set_gradients(loss, trained(model.q_net))
        torch.nn.utils.clip_grad_norm_(model.q_net.parameters(), model.max_grad_norm)
        return loss.detach()[None]


def least(values: Iterable[torch.Tensor]) -> torch.Tensor:
    """Return the least value `(n, 1)` of several critics."""
    return torch.cat(list(values), dim=1).amin(dim=1, keepdim=True)


def sum_of_squares(values: Sequence[torch.Tensor], targets: torch.Tensor) -> torch.Tensor:
    """Return the sum of the mean squared errors of several critics."""
    return torch.stack([functional.mse_loss(value, targets) for value in values]).sum()


def move_targets(network: torch.nn.Module, target: torch.nn.Module, tau: float) -> None:
    """Move the parameters of a target network towards those of a network by the share `tau`."""
    move: Any = get_ema_multi_avg_fn(1.0 - tau)  # type: ignore[no-untyped-call]
    move(list(target.parameters()), list(network.parameters()), 0)
