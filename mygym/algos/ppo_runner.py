"""Proximal policy optimisation in one file: rollout, advantages, clipped loss, minibatches."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from operator import itemgetter
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import GymEnv
from stable_baselines3.common.utils import explained_variance, obs_as_tensor
from torch.nn import functional

from mygym.nested import map_arrays
from mygym.training.optimization import parameter_groups
from mygym.training.result import Curves
from mygym.training.runner import Loop, Observations, Runner, Transitions

Tensors = Any
"""A tensor, or a dictionary of tensors for dictionary observations."""


@dataclass(frozen=True)
class Rollout:
    """Data of a rollout, one row for each step of each environment: `(n_steps · n_envs, …)`."""

    observations: Tensors
    actions: torch.Tensor
    values: torch.Tensor
    log_probs: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor

    def minibatches(self, size: int) -> Iterator[Rollout]:
        """Yield all rows once in random order, `size` at a time."""
        order = np.random.permutation(len(self.returns))  # noqa: NPY002  (checkpoints contain the global generator)
        for start in range(0, len(order), size):
            rows = torch.as_tensor(order[start : start + size])
            yield Rollout(*(map_arrays(itemgetter(rows), getattr(self, field.name)) for field in fields(self)))


class PPORunner(Runner):
    """Proximal policy optimisation (Schulman et al., 2017) as one readable loop.

    Equation numbers refer to the paper. With the same seed and config the results are bit-identical to those of SB3's
    `PPO` (`benchmarks/results/runners.md`).

    Args:
        policy: Actor-critic policy: an alias or a class.
        env: Vector environment.
        learning_rate: Learning rate of Adam.
        n_steps: Steps of each environment in a rollout.
        batch_size: Rows in a minibatch.
        n_epochs: Passes over each rollout.
        gamma: Discount factor.
        gae_lambda: Trade-off of bias and variance in the advantages (Schulman et al., 2016).
        clip_range: Clipping range of the probability ratio around 1, ε of equation 7.
        clip_range_vf: Clipping range of value changes in an update; None: no clipping.
        normalize_advantage: Whether to normalise the advantages of a minibatch to mean 0 and standard deviation 1.
        ent_coef: Weight of the entropy bonus, c₂ of equation 9.
        vf_coef: Weight of the value loss, c₁ of equation 9.
        max_grad_norm: Maximum norm of gradients.
        target_kl: An update ends when the divergence from the rollout's policy exceeds 1.5 times this; None: no limit.
        groups: Optimiser settings by parameter group, e.g. `{"critic": {"lr": 1e-3}}`: see `parameter_groups`.
        **kwargs: Arguments of `Runner`.
    """

    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: GymEnv | str | None,
        learning_rate: float = 3e-4,
        n_steps: int = 2048,
        batch_size: int = 64,
        n_epochs: int = 10,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip_range: float = 0.2,
        clip_range_vf: float | None = None,
        normalize_advantage: bool = True,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        target_kl: float | None = None,
        groups: Mapping[str, Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        self.n_steps, self.batch_size, self.n_epochs = n_steps, batch_size, n_epochs
        self.gamma, self.gae_lambda = gamma, gae_lambda
        self.clip_range, self.clip_range_vf, self.target_kl = clip_range, clip_range_vf, target_kl
        self.normalize_advantage = normalize_advantage
        self.ent_coef, self.vf_coef, self.max_grad_norm = ent_coef, vf_coef, max_grad_norm
        self.groups = {group: dict(settings) for group, settings in (groups or {}).items()}
        super().__init__(policy, env, learning_rate, **kwargs)
        if self.env is not None:
            self._check_sizes(n_steps * self.n_envs)

    def setup(self) -> None:
        """Apply the optimiser settings in `groups`."""
        policy = self.actor_critic
        if self.groups:
            groups = parameter_groups(policy, self.groups, "algo_params.groups")
            optimizer_class: Any = policy.optimizer_class
            policy.optimizer = optimizer_class(groups, lr=self.learning_rate, **policy.optimizer_kwargs)

    @property
    def actor_critic(self) -> ActorCriticPolicy:
        """The policy, typed for this class."""
        return cast(ActorCriticPolicy, self.policy)

    def training(self, loop: Loop) -> Curves:
        """Alternate rollouts and updates until the loop ends."""
        while loop.next_iteration():
            self._update(self._collect(loop))
        return loop.curves()

    @torch.no_grad()
    def _collect(self, loop: Loop) -> Rollout:
        """Collect `n_steps` steps of each environment with the current policy."""
        policy = self.actor_critic
        values: list[torch.Tensor] = []
        log_probs: list[torch.Tensor] = []
        first = loop.episode_starts[None]

        def act(observations: Observations) -> torch.Tensor:
            action, value, log_prob = policy(obs_as_tensor(observations, self.device))
            values.append(value.flatten())
            log_probs.append(log_prob)
            return cast(torch.Tensor, action)

        steps = loop.rollout(self.n_steps, act)
        values.append(policy.predict_values(obs_as_tensor(loop.observations, self.device)).flatten())
        starts = np.concatenate([first, steps.terminated | steps.truncated])
        estimates = torch.stack(values).cpu().numpy()
        advantages = self._advantages(self._bootstrapped(steps), estimates, starts)
        return Rollout(
            _flat(obs_as_tensor(steps.observations, self.device)),
            _flat(torch.as_tensor(steps.actions, device=self.device)),
            _flat(torch.stack(values[:-1])),
            _flat(torch.stack(log_probs)),
            _flat(torch.as_tensor(advantages, device=self.device)),
            _flat(torch.as_tensor(advantages + estimates[:-1], device=self.device)),
        )

    def _bootstrapped(self, steps: Transitions) -> NDArray[np.float32]:
        """Return rewards with the discounted value of the last observation of truncated episodes (SB3 #633)."""
        rewards = steps.rewards.copy()
        for step, index in np.argwhere(steps.truncated):
            last = self.actor_critic.obs_to_tensor(steps.infos[step][index]["terminal_observation"])[0]
            rewards[step, index] += (self.gamma * self.actor_critic.predict_values(last)[0]).item()
        return rewards

    def _advantages(
        self, rewards: NDArray[np.float32], values: NDArray[np.float32], starts: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        """Return generalised advantage estimates `(n_steps, n_envs)` (equations 11 and 12).

        Args:
            rewards: `(n_steps, n_envs)`.
            values: `(n_steps + 1, n_envs)`.
            starts: `(n_steps + 1, n_envs)`, whether an observation is the first of an episode.
        """
        advantages = np.zeros_like(rewards, dtype=np.float32)
        following = np.zeros(rewards.shape[1], dtype=np.float32)
        for step in reversed(range(len(rewards))):
            next_iteration = 1.0 - starts[step + 1].astype(np.float32)
            error = rewards[step] + self.gamma * values[step + 1] * next_iteration - values[step]
            following = error + self.gamma * self.gae_lambda * next_iteration * following
            advantages[step] = following
        return advantages

    def _update(self, rollout: Rollout) -> None:
        """Make `n_epochs` passes over the rollout; stop early if the divergence exceeds 1.5 · `target_kl`."""
        policy = self.actor_critic
        policy.set_training_mode(True)
        for group in policy.optimizer.param_groups:
            group["lr"] = self.groups.get(group.get("name", ""), {}).get("lr", self.learning_rate)
        metrics: dict[str, list[float]] = {}
        for _ in range(self.n_epochs):
            self._n_updates += 1
            divergence = 0.0
            for batch in rollout.minibatches(self.batch_size):
                loss, values = self._loss(batch)
                for name, value in values.items():
                    metrics.setdefault(name, []).append(value.item())
                divergence = metrics["approx_kl"][-1]
                if self.target_kl is not None and divergence > 1.5 * self.target_kl:
                    break
                policy.optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(policy.parameters(), self.max_grad_norm)
                policy.optimizer.step()
            else:
                continue
            break
        for name, history in metrics.items():
            self.logger.record(f"train/{name}", float(np.mean(history)))
        expected = explained_variance(rollout.values.cpu().numpy(), rollout.returns.cpu().numpy())
        self.logger.record("train/explained_variance", float(expected))
        if hasattr(policy, "log_std"):
            self.logger.record("train/std", policy.log_std.exp().mean().item())
        self.logger.record("train/learning_rate", self.learning_rate)
        self.logger.record("train/clip_range", self.clip_range)
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")

    def _loss(self, batch: Rollout) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return the negated objective of equation 9, and metrics for the log."""
        values, log_prob, entropy = self.actor_critic.evaluate_actions(batch.observations, batch.actions)
        values = values.flatten()
        advantages = batch.advantages
        if self.normalize_advantage and len(advantages) > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        log_ratio = log_prob - batch.log_probs
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1 - self.clip_range, 1 + self.clip_range)
        policy_loss = -torch.min(advantages * ratio, advantages * clipped).mean()  # equation 7
        if self.clip_range_vf is not None:
            values = batch.values + (values - batch.values).clamp(-self.clip_range_vf, self.clip_range_vf)
        value_loss = functional.mse_loss(batch.returns, values)
        entropy_loss = -(entropy if entropy is not None else -log_prob).mean()
        loss = policy_loss + self.ent_coef * entropy_loss + self.vf_coef * value_loss
        with torch.no_grad():
            metrics = {
                "loss": loss,
                "policy_gradient_loss": policy_loss,
                "value_loss": value_loss,
                "entropy_loss": entropy_loss,
                "approx_kl": ((ratio - 1) - log_ratio).mean(),  # Schulman's k3 estimator
                "clip_fraction": ((ratio - 1).abs() > self.clip_range).float().mean(),
            }
        return loss, metrics

    def _check_sizes(self, rows: int) -> None:
        if self.normalize_advantage and (rows < 2 or self.batch_size < 2):
            raise ValueError("n_steps · n_envs and batch_size must be at least 2 to normalise advantages")
        if last := rows % self.batch_size:
            text = f"the last minibatch has {last} of {self.batch_size} rows: n_steps · n_envs is {rows}"
            warnings.warn(text, stacklevel=2)


def _flat(values: Tensors) -> Tensors:
    """Reshape `(n_steps, n_envs, …)` to `(n_envs · n_steps, …)`, with the rows of each environment in sequence."""
    return map_arrays(lambda array: array.transpose(0, 1).reshape(-1, *array.shape[2:]), values)
