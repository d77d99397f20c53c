"""Rollouts of PPO on a GPU: environments, normalisation, policy and advantages in tensors, without a wait in a step."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from mygym.algos.device.rollouts import DeviceRollouts, DictDeviceRollouts
from mygym.algos.device.steps import FIGURES, DeviceSteps
from mygym.envs.fused_envs import BatchStep
from mygym.errors import DivergedError


class RolloutCollection(DeviceSteps):
    """Collects rollouts of an on-policy algorithm of SB3, as its `collect_rollouts` does.

    The callbacks are called after the rollout, once for each of its steps, with the infos, rewards and ends of that
    step: the policy is the same for the whole rollout. The environments are then at the end of the rollout.

    Args:
        model: The algorithm.
        env: Its environments.
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
            rollout = _stacked(outcomes)
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


def _stacked(outcomes: list[Any]) -> Any:
    """Return the arrays of dictionaries, stacked."""
    if isinstance(outcomes[0], dict):
        return {key: _stacked([outcome[key] for outcome in outcomes]) for key in outcomes[0]}
    return torch.stack(outcomes)
