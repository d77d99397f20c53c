"""PPO on a GPU: rollouts in tensors without a wait in a step, and the updates."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.type_aliases import DictRolloutBufferSamples, RolloutBufferSamples
from stable_baselines3.common.utils import explained_variance
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from torch.nn import functional

from mygym.algos.device.steps import FIGURES, CapturedGradient, DeviceSteps, clip_gradients, memory_of, trainable
from mygym.envs.batch_env import BatchStep
from mygym.errors import DivergedError
from mygym.nested import map_arrays
from mygym.training.device_replay import Tensors


class _CopiedOnce:
    """Mixin that replaces the samples of a rollout buffer."""

    device: torch.device
    _samples: ClassVar[type]
    _tensors: dict[str, Tensors] | None = None
    """Field of a sample → all its rows; None before the first minibatch of an epoch."""
    _is_filled = False
    """Whether `fill` has set the rows."""

    def reset(self) -> None:
        """Begin a rollout."""
        self._tensors, self._is_filled = None, False
        super().reset()  # type: ignore[misc]

    def get(self, batch_size: int | None = None) -> Generator[Any, None, None]:
        """Yield all rows once in random order; changes of the arrays before that count, as in SB3's buffers."""
        if not self._is_filled:
            self._tensors = None
        yield from super().get(batch_size)  # type: ignore[misc]

    def fill(self, rollout: Mapping[str, Any]) -> None:
        """Take a rollout from the device: field of a sample → `(n_steps, n_envs, …)`, or a dictionary of these."""
        arrays: Any = self
        self._tensors = map_arrays(_flattened, rollout)
        for name in ("observations", "actions", "rewards", "episode_starts", "log_probs", "advantages"):
            setattr(arrays, name, None)  # so that nothing reads zeros
        arrays.values, arrays.returns = (rollout[name].cpu().numpy() for name in ("old_values", "returns"))
        self._is_filled = True
        arrays.pos, arrays.full, arrays.generator_ready = arrays.buffer_size, True, True

    def _get_samples(self, batch_inds: NDArray[np.int64], env: VecNormalize | None = None) -> Any:
        """Return the rows `batch_inds` of a complete rollout."""
        if self._tensors is None:
            self._tensors = self._copied()
        rows = torch.as_tensor(batch_inds, device=self.device)
        return self._samples(**map_arrays(lambda values: values.index_select(0, rows), self._tensors))

    def _copied(self) -> dict[str, Tensors]:
        """Return the arrays of the rollout, flattened by `get`, as tensors on the device."""
        arrays: Any = self
        return {
            "observations": self._on_device(arrays.observations),
            "actions": self._on_device(arrays.actions.astype(np.float32, copy=False)),
            "old_values": self._on_device(arrays.values.flatten()),
            "old_log_prob": self._on_device(arrays.log_probs.flatten()),
            "advantages": self._on_device(arrays.advantages.flatten()),
            "returns": self._on_device(arrays.returns.flatten()),
        }

    def _on_device(self, values: Any) -> Tensors:
        return map_arrays(partial(torch.as_tensor, device=self.device), values)


class DeviceRollouts(_CopiedOnce, RolloutBuffer):
    """Rollouts of flat observations."""

    _samples = RolloutBufferSamples


class DictDeviceRollouts(_CopiedOnce, DictRolloutBuffer):
    """Rollouts of dictionary observations."""

    _samples = DictRolloutBufferSamples


def _flattened(values: torch.Tensor) -> torch.Tensor:
    """Reshape `(n_steps, n_envs, …)` to `(n_envs · n_steps, …)`, with the rows of each environment in sequence."""
    return values.transpose(0, 1).reshape(-1, *values.shape[2:])


class RolloutCollection(DeviceSteps):
    """Collects rollouts of an on-policy algorithm of SB3, as its `collect_rollouts` does.

    The callbacks are called after the rollout, once for each of its steps, with the infos, rewards and ends of that
    step: the policy is the same for the whole rollout. The environments are then at the end of the rollout.
    """

    def __init__(self, model: Any, env: VecEnv) -> None:
        super().__init__(model, env)
        low, high = model.action_space.low, model.action_space.high
        self._low, self._high = (torch.as_tensor(bound, device=model.device) for bound in (low, high))

    @staticmethod
    def suits(model: Any, env: VecEnv, callback: BaseCallback) -> bool:
        """Return whether a rollout can stay on the device."""
        return (
            DeviceSteps.suits(model, env, callback)
            and isinstance(model.action_space, spaces.Box)
            and isinstance(model.rollout_buffer, DeviceRollouts | DictDeviceRollouts)
            and not model.policy.squash_output
        )

    def collect(self, callback: BaseCallback, steps: int) -> bool:
        """Collect a rollout; return whether the training continues."""
        model = self.model
        model.policy.set_training_mode(False)
        model.rollout_buffer.reset()
        callback.on_rollout_start()
        self._load()
        with torch.no_grad():
            step = self._prepared()
            outcomes = [step() for _ in range(steps)]
            rollout = map_arrays(lambda *each: torch.stack(each), *outcomes)
            last_values = model.policy.predict_values(self._arranged(self.observations)).flatten()
            figures, values = rollout["figures"], rollout["values"]
            ends = figures["terminated"] | figures["truncated"]
            rewards = figures["reward"] + model.gamma * rollout["last_values"] * figures["truncated"]  # SB3 #633
            advantages = self._advantages(rewards, torch.cat([values, last_values[None]]), ends)
        if not bool(torch.isfinite(rollout["actions"]).all()):
            raise DivergedError("an action is not finite")
        self._store(ends[-1])
        arrays = {name: array.cpu().numpy() for name, array in figures.items()}
        reports = [
            BatchStep({}, {}, **{name: array[number] for name, array in arrays.items()}) for number in range(steps)
        ]
        for number, report in enumerate(reports):
            if not self._report(callback, report):
                for rest in reports[number + 1 :]:  # the environments are at the end of the rollout
                    self._monitored(rest)
                return False
        model.rollout_buffer.fill(
            {
                "observations": self._arranged(rollout["observations"]),
                "actions": rollout["actions"],
                "old_values": values,
                "old_log_prob": rollout["log_probs"],
                "advantages": advantages,
                "returns": advantages + values,
            }
        )
        callback.on_rollout_end()
        return True

    def advance(self, *_: torch.Tensor) -> dict[str, Any]:
        """Make a step of policy and environments; normalised observations are the variables."""
        model, observations = self.model, self.observations
        actions, values, log_probs = model.policy(self._arranged(observations))
        step = self.envs.advance(torch.minimum(torch.maximum(actions, self._low), self._high))
        following, last = self._keyed(step.observations), self._keyed(step.last)
        if self.normalizer is not None:
            self.normalizer.update(following)
        self.observations = self._normalized(following)
        last_values = model.policy.predict_values(self._arranged(self._normalized(last))).flatten()
        return {
            "observations": observations,
            "actions": actions,
            "values": values.flatten(),
            "log_probs": log_probs,
            "last_values": last_values,
            "figures": {name: getattr(step, name) for name in FIGURES},
        }

    def _load(self) -> None:
        """Take last observations and statistics from the algorithm and the normaliser."""
        if self.normalizer is not None:
            self.normalizer.load()
        self.observations = self._on_device(self.model._last_obs)

    def _store(self, ends: torch.Tensor) -> None:
        """Give last observations and statistics to the algorithm and the normaliser."""
        if self.normalizer is not None:
            self.normalizer.store()
        self.model._last_obs = self._in_numpy(self.observations)
        self.model._last_episode_starts = ends.cpu().numpy()

    def _advantages(self, rewards: torch.Tensor, values: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """Return generalised advantage estimates `(T, N)`, as SB3's buffer computes them.

        Args:
            rewards: `(T, N)`.
            values: `(T + 1, N)`.
            ends: `(T, N)` bool: the episode has ended in the step.
        """
        model, continues = self.model, 1.0 - ends.float()
        errors = rewards + model.gamma * values[1:] * continues - values[:-1]
        following, advantages = torch.zeros_like(rewards[0]), []
        for error, continued in zip(errors.flip(0), continues.flip(0), strict=True):
            following = error + model.gamma * model.gae_lambda * continued * following
            advantages.append(following)
        return torch.stack(advantages[::-1])


STATISTICS = ("entropy_loss", "policy_gradient_loss", "value_loss", "approx_kl", "clip_fraction", "loss")
"""Figures of a minibatch, by their names in the log."""


class PPOUpdate:
    """Updates the policy of an SB3 `PPO` from its rollout, as `PPO.train` does; the logs are the same.

    SB3 reads six figures of each minibatch, for each of which it waits for the GPU; this reads them at the end.
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
