"""Updates of PPO on a GPU: the gradient of a minibatch as a CUDA graph, and no wait within an update."""

from __future__ import annotations

from typing import Any

import torch
from stable_baselines3.common.utils import explained_variance
from torch.nn import functional

from mygym.algos.device.gradients import CapturedGradient, clip_gradients, memory_of, trainable

STATISTICS = ("entropy_loss", "policy_gradient_loss", "value_loss", "approx_kl", "clip_fraction", "loss")
"""Figures of a minibatch, by their names in the log."""


class PPOUpdate:
    """Updates the policy of an SB3 `PPO` from its rollout, as `PPO.train` does; the logs are the same.

    SB3 reads six figures of each minibatch, for each of which it waits for the GPU; this reads them at the end.

    Args:
        model: The algorithm.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self._gradient = CapturedGradient(self._compute_gradient, model)

    @staticmethod
    def suits(model: Any) -> bool:
        """Return whether the updates need no figure of a minibatch and all minibatches have the same size."""
        return model.target_kl is None and (model.n_steps * model.n_envs) % model.batch_size == 0

    def train(self) -> None:
        """Update the policy."""
        model, policy = self.model, self.model.policy
        policy.set_training_mode(True)
        model._update_learning_rate(policy.optimizer)
        remaining = model._current_progress_remaining
        clip_range = model.clip_range(remaining)
        clip_range_vf = None if model.clip_range_vf is None else model.clip_range_vf(remaining)
        clips = [1 - clip_range, 1 + clip_range, clip_range, clip_range_vf or 0.0]
        numbers = [*clips, model.ent_coef, model.vf_coef, model.max_grad_norm]
        coefficients = torch.tensor(numbers, device=model.device)
        constants = model.normalize_advantage, clip_range_vf is None, memory_of(model)
        history: list[list[torch.Tensor]] = []
        for _ in range(model.n_epochs):
            history.append([])
            for samples in model.rollout_buffer.get(model.batch_size):
                history[-1].append(self._gradient(trainable(policy), constants, *samples, coefficients))
                policy.optimizer.step()
            model._n_updates += 1
        figures = torch.stack([torch.stack(epoch) for epoch in history]).cpu().numpy()  # (epochs, minibatches, …)
        means = dict(zip(STATISTICS, figures.mean((0, 1)).tolist(), strict=True))
        last = dict(zip(STATISTICS, figures[-1].T, strict=True))
        means |= {"approx_kl": float(last["approx_kl"].mean()), "loss": float(last["loss"][-1])}  # as SB3 logs them
        for name, value in means.items():
            model.logger.record(f"train/{name}", value)
        buffer = model.rollout_buffer
        explained = explained_variance(buffer.values.flatten(), buffer.returns.flatten())
        model.logger.record("train/explained_variance", explained)
        if hasattr(policy, "log_std"):
            model.logger.record("train/std", policy.log_std.exp().mean().item())
        model.logger.record("train/n_updates", model._n_updates, exclude="tensorboard")
        model.logger.record("train/clip_range", clip_range)
        if clip_range_vf is not None:
            model.logger.record("train/clip_range_vf", clip_range_vf)

    def _compute_gradient(
        self,
        observations: Any,
        actions: torch.Tensor,
        old_values: torch.Tensor,
        old_log_prob: torch.Tensor,
        advantages: torch.Tensor,
        returns: torch.Tensor,
        coefficients: torch.Tensor,
    ) -> torch.Tensor:
        """Set the gradients of the parameters; return the `STATISTICS` of a minibatch: a sample of SB3's buffer."""
        model = self.model
        low, high, clip_range, clip_range_vf, ent_coef, vf_coef, max_grad_norm = coefficients
        policy = model.policy
        policy.optimizer.zero_grad()
        values, log_prob, entropy = policy.evaluate_actions(observations, actions)
        values = values.flatten()
        if model.normalize_advantage and len(advantages) > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        ratio = torch.exp(log_prob - old_log_prob)
        clipped = torch.minimum(torch.maximum(ratio, low), high)
        policy_loss = -torch.min(advantages * ratio, advantages * clipped).mean()
        if model.clip_range_vf is not None:
            change = values - old_values
            values = old_values + torch.minimum(torch.maximum(change, -clip_range_vf), clip_range_vf)
        value_loss = functional.mse_loss(returns, values)
        entropy_loss = -(-log_prob if entropy is None else entropy).mean()
        loss = policy_loss + ent_coef * entropy_loss + vf_coef * value_loss
        loss.backward()
        clip_gradients(policy.parameters(), max_grad_norm)
        with torch.no_grad():
            log_ratio = log_prob - old_log_prob
            kl = ((log_ratio.exp() - 1) - log_ratio).mean()
            fraction = ((ratio - 1).abs() > clip_range).float().mean()
            return torch.stack([entropy_loss, policy_loss, value_loss, kl, fraction, loss]).detach()
