"""Gradient steps of algorithms with a replay buffer on a GPU: gradients as CUDA graphs, no wait between them.

SB3 reads the figures of each gradient step, and waits for the GPU each time; these read them at the end of a call. The
losses and the logs are those of SB3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from stable_baselines3.common.utils import polyak_update
from torch.nn import functional

from mygym.algos.device.steps import CapturedGradient, clip_gradients, memory_of, set_gradients, trainable
from mygym.training.device_replay import Samples
from mygym.training.policy import optimizers_of


class ReplayUpdate(ABC):
    """Makes the gradient steps of an algorithm whose buffer is in tensors, as its `train` does."""

    scheduled: tuple[str, ...]
    """Attributes of the algorithm whose values are `coefficients`."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.constants: tuple[Any, ...] = ()
        """Values on which the graphs depend."""
        self.coefficients = torch.zeros(0)
        """Numbers that may change between calls of `train`."""

    def train(self, gradient_steps: int, batch_size: int) -> None:
        """Make gradient steps on random minibatches."""
        model = self.model
        model.policy.set_training_mode(True)
        model._update_learning_rate(optimizers_of(model))
        self.constants = (memory_of(model),)
        numbers = [getattr(model, name) for name in self.scheduled]
        self.coefficients = torch.tensor(numbers, dtype=torch.float32, device=model.device)
        batches = model.replay_buffer.batches(batch_size, gradient_steps, model._vec_normalize_env)
        history = [self.step(number, batch) for number, batch in enumerate(batches)]
        names = list(dict.fromkeys(name for metrics in history for name in metrics))
        means = [torch.stack([metrics[name] for metrics in history if name in metrics]).mean() for name in names]
        model.logger.record("train/n_updates", model._n_updates, exclude="tensorboard")
        for name, value in zip(names, torch.stack(means).cpu().tolist(), strict=True):
            model.logger.record(f"train/{name}", value)

    def inputs_of(self, batch: Samples) -> list[Any]:
        """Return observations, actions, next observations, dones and rewards of a minibatch, and the coefficients."""
        return [*batch[:5], self.coefficients]

    @abstractmethod
    def step(self, number: int, batch: Samples) -> dict[str, torch.Tensor]:
        """Make a gradient step, after `number` others of this call; return its metrics, by their names in the log."""


class SACUpdate(ReplayUpdate):
    """Gradient steps of soft actor-critic (Haarnoja et al., 2018)."""

    scheduled = ("gamma", "target_entropy")

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._critic = CapturedGradient(self._critic_gradient, model)
        self._actor = CapturedGradient(self._actor_gradient, model)

    def step(self, number: int, batch: Samples) -> dict[str, torch.Tensor]:
        """Make a gradient step; the actor's actions are drawn again after the step of the critic."""
        model = self.model
        parameters = trainable(model.critic)
        if model.ent_coef_optimizer is not None:
            parameters = [*parameters, model.log_ent_coef]
        losses = self._critic(parameters, self.constants, *self.inputs_of(batch))
        metrics = dict(zip(("ent_coef", "critic_loss", "ent_coef_loss"), losses, strict=False))
        if model.ent_coef_optimizer is not None:
            model.ent_coef_optimizer.step()
        model.critic.optimizer.step()
        metrics["actor_loss"] = self._actor(
            trainable(model.actor), self.constants, batch.observations, metrics["ent_coef"]
        )
        model.actor.optimizer.step()
        if number % model.target_update_interval == 0:
            update_target(model.critic, model.critic_target, model.tau)
            polyak_update(model.batch_norm_stats, model.batch_norm_stats_target, 1.0)
        model._n_updates += 1
        return metrics

    def _critic_gradient(self, *inputs: Any) -> torch.Tensor:
        """Set the gradients of critic and entropy coefficient; for the inputs, see `inputs_of`.

        Returns:
            Entropy coefficient, loss of the critic and, if the coefficient is learned, its loss.
        """
        observations, actions, next_observations, dones, rewards, (gamma, target_entropy) = inputs
        model = self.model
        losses = []
        if model.ent_coef_optimizer is None:
            ent_coef = model.ent_coef_tensor
        else:
            ent_coef = model.log_ent_coef.detach().exp().reshape(())
            with torch.no_grad():
                _, log_prob = model.actor.action_log_prob(observations)
            losses = [-(model.log_ent_coef * (log_prob + target_entropy)).mean()]
            set_gradients(losses[0], [model.log_ent_coef])
        with torch.no_grad():
            next_actions, next_log_prob = model.actor.action_log_prob(next_observations)
            values = min_q(model.critic_target(next_observations, next_actions)) - ent_coef * next_log_prob[:, None]
            targets = rewards + (1 - dones) * gamma * values
        critic_loss = 0.5 * sum_of_mse(model.critic(observations, actions), targets)
        set_gradients(critic_loss, trainable(model.critic))
        return torch.stack([ent_coef, critic_loss, *losses]).detach()

    def _actor_gradient(self, observations: Any, ent_coef: torch.Tensor) -> torch.Tensor:
        """Set the gradients of the actor; return its loss."""
        model = self.model
        actions, log_prob = model.actor.action_log_prob(observations)
        loss: torch.Tensor = (ent_coef * log_prob[:, None] - min_q(model.critic(observations, actions))).mean()
        set_gradients(loss, trainable(model.actor))
        return loss.detach()


class TD3Update(ReplayUpdate):
    """Gradient steps of TD3 (Fujimoto et al., 2018), and of DDPG, which is a special case."""

    scheduled = ("gamma", "target_policy_noise", "target_noise_clip")

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._critic = CapturedGradient(self._critic_gradient, model)
        self._actor = CapturedGradient(self._actor_gradient, model)

    def step(self, number: int, batch: Samples) -> dict[str, torch.Tensor]:
        """Make a gradient step of the critic, and after each `policy_delay` of them one of the actor."""
        model = self.model
        model._n_updates += 1
        loss = self._critic(trainable(model.critic), self.constants, *self.inputs_of(batch))
        model.critic.optimizer.step()
        if model._n_updates % model.policy_delay:
            return {"critic_loss": loss}
        actor_loss = self._actor(trainable(model.actor), self.constants, batch.observations)
        model.actor.optimizer.step()
        update_target(model.critic, model.critic_target, model.tau)
        update_target(model.actor, model.actor_target, model.tau)
        polyak_update(model.critic_batch_norm_stats, model.critic_batch_norm_stats_target, 1.0)
        polyak_update(model.actor_batch_norm_stats, model.actor_batch_norm_stats_target, 1.0)
        return {"critic_loss": loss, "actor_loss": actor_loss}

    def _critic_gradient(self, *inputs: Any) -> torch.Tensor:
        """Set the gradients of the critic; return its loss; for the inputs, see `inputs_of`."""
        observations, actions, next_observations, dones, rewards, (gamma, deviation, clip) = inputs
        model = self.model
        with torch.no_grad():
            noise = torch.clamp(torch.randn_like(actions) * deviation, -clip, clip)
            next_actions = (model.actor_target(next_observations) + noise).clamp(-1, 1)
            values = min_q(model.critic_target(next_observations, next_actions))
            targets = rewards + (1 - dones) * gamma * values
        loss = sum_of_mse(model.critic(observations, actions), targets)
        set_gradients(loss, trainable(model.critic))
        return loss.detach()

    def _actor_gradient(self, observations: Any) -> torch.Tensor:
        """Set the gradients of the actor; return its loss."""
        model = self.model
        loss: torch.Tensor = -model.critic.q1_forward(observations, model.actor(observations)).mean()
        set_gradients(loss, trainable(model.actor))
        return loss.detach()


class DQNUpdate(ReplayUpdate):
    """Gradient steps of deep Q-learning (Mnih et al., 2015), with the targets of the algorithm."""

    scheduled = ("gamma", "max_grad_norm")

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._gradient = CapturedGradient(self._q_gradient, model)

    def step(self, number: int, batch: Samples) -> dict[str, torch.Tensor]:
        """Make a gradient step."""
        model = self.model
        loss = self._gradient(trainable(model.q_net), self.constants, *self.inputs_of(batch))
        model.policy.optimizer.step()
        model._n_updates += 1
        return {"loss": loss}

    def _q_gradient(self, *inputs: Any) -> torch.Tensor:
        """Set the gradients of the Q-network; return its loss; for the inputs, see `inputs_of`."""
        observations, actions, next_observations, dones, rewards, (gamma, max_grad_norm) = inputs
        model = self.model
        with torch.no_grad():
            targets = rewards + (1 - dones) * gamma * model.next_q_values(next_observations)
        values = model.q_net(observations).gather(1, actions.long())
        loss = functional.smooth_l1_loss(values, targets)
        set_gradients(loss, trainable(model.q_net))
        clip_gradients(model.q_net.parameters(), max_grad_norm)
        return loss.detach()


def min_q(values: Iterable[torch.Tensor]) -> torch.Tensor:
    """Return the least value `(n, 1)` of several critics."""
    return torch.cat(list(values), dim=1).amin(dim=1, keepdim=True)


def sum_of_mse(values: Sequence[torch.Tensor], targets: torch.Tensor) -> torch.Tensor:
    """Return the sum of the mean squared errors of several critics."""
    return torch.stack([functional.mse_loss(value, targets) for value in values]).sum()


@torch.no_grad()
def update_target(network: torch.nn.Module, target: torch.nn.Module, tau: float) -> None:
    """Move a target network by the share `tau`, as SB3's `polyak_update` does, in a single operation."""
    torch._foreach_lerp_(list(target.parameters()), list(network.parameters()), tau)
